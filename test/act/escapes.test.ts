import { writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Following } from '../../src/act/escapes.ts';
import { createHasten } from '../../src/act/hasten.ts';
import { killCgroup } from '../../src/act/kill.ts';
import type { KillEnd, KillOrder } from '../../src/act/kill-order.ts';
import { usageBytes } from '../../src/act/released-memory.ts';
import { until } from '../../src/demo/cast.ts';
import { createClock } from '../../src/host/clock.ts';
import { heldOutside } from '../../src/host/escaped.ts';
import { startTicks, type Workload } from '../../src/host/workload.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from './a-cgroup.ts';

const clock = createClock();
const MIB = 1024 * 1024;
const HELD_MIB = 40;
/** The end is proven while the kernel still frees so much. */
const UNDER_WAY_BYTES = 16 * MIB;
const HOLD = `exec perl -e '$SIG{TERM} = "IGNORE"; $| = 1; my @held = map { "x" x ${MIB} } 1 .. ${HELD_MIB}; print "up\\n"; sleep 1000 while 1'`;
/** Twice as much once it is told to stop. */
const GROW = `exec perl -e '$| = 1; my @held = map { "x" x ${MIB} } 1 .. ${HELD_MIB}; $SIG{TERM} = sub { push @held, map { "x" x ${MIB} } 1 .. ${HELD_MIB} }; print "up\\n"; sleep 1000 while 1'`;
const nobody: Following = { processes: [], ownerOf: () => null };

describe.skipIf(needsCgroups !== '')(`processes of a victim that leave its cgroup ${needsCgroups}`, () => {
  let cgroup: TestCgroup;
  let elsewhere: TestCgroup;
  beforeEach(() => {
    cgroup = makeCgroup();
    elsewhere = makeCgroup();
  });
  afterEach(async () => {
    await cgroup.remove();
    await elsewhere.remove();
  });

  const move = ({ pid }: Workload): void => {
    for (const root of elsewhere.roots) writeFileSync(`${root}/cgroup.procs`, String(pid));
  };
  const kill = (overrides: Partial<KillOrder>): Promise<KillEnd> => {
    if (mounts === null) throw new Error('no cgroups');
    const how = { graceMs: 300, first: 'sigterm', givesBack: 'memory', ask: null, follow: nobody } as const;
    return killCgroup({ mounts, ref: cgroup.ref, clock, hasten: createHasten(clock), ...how, ...overrides });
  };
  /** It moves as soon as it was told to stop. */
  const killMoving = (workload: Workload, overrides: Partial<KillOrder> = {}): Promise<KillEnd> =>
    kill({ signalled: (how) => how === 'sigterm' && move(workload), ...overrides });
  const usedBytes = (): number => {
    if (mounts === null) return 0;
    const used = usageBytes(mounts, cgroup.ref);
    return used.known ? used.value : 0;
  };
  const identityOf = ({ pid }: Workload) => ({ pid, name: 'perl', rssBytes: 0, startTicks: startTicks(pid) ?? 0 });

  it('are killed where they are, if that is nobody else’s cgroup, and the end says so', async () => {
    const workload = await cgroup.run(HOLD);
    const end = await killMoving(workload);
    await until(clock, () => workload.ended() !== null, 10_000);
    expect(workload.ended()?.signal).toBe('SIGKILL');
    expect(end).toMatchObject({ kind: 'ended', via: 'sigkill', detail: expect.stringContaining(elsewhere.path) });
    expect(end).toMatchObject({ detail: expect.stringContaining(`process ${workload.pid} (perl`) });
    if (end.kind === 'ended' && end.releasedBytes.known)
      expect(end.releasedBytes.value).toBeGreaterThan(HELD_MIB * MIB - UNDER_WAY_BYTES);
  });

  it('survive in the cgroup of somebody else, and what they hold is known as long as they live', async () => {
    const workload = await cgroup.run(HOLD);
    const follow = { ...nobody, ownerOf: () => 'shop/db' };
    const end = await killMoving(workload, { follow });
    expect(workload.isAlive()).toBe(true);
    expect(end).toMatchObject({
      kind: 'survived',
      left: [{ pid: workload.pid }],
      detail: expect.stringMatching(/belongs to shop\/db/),
      escaped: { cgroup: cgroup.ref, processes: [{ pid: workload.pid, startTicks: startTicks(workload.pid) }] },
    });
    if (mounts === null || end.kind !== 'survived' || end.escaped === undefined) throw new Error('nothing is left');
    const [cgroups, escaped] = [mounts, end.escaped];
    const held = heldOutside(cgroups, escaped);
    expect(held.memoryBytes).toBeGreaterThan(HELD_MIB * MIB);
    expect(held.processIds).toBe(1);
    workload.kill('SIGKILL');
    await until(clock, () => heldOutside(cgroups, escaped).memoryBytes === 0, 10_000);
    expect(heldOutside(cgroups, escaped)).toEqual({ memoryBytes: 0, processIds: 0 });
  });

  it('are found if they left before the first signal, and were known at the choice', async () => {
    const workload = await cgroup.run(HOLD);
    const follow = { ...nobody, processes: [identityOf(workload)] };
    move(workload);
    const end = await kill({ first: 'sigkill', follow });
    await until(clock, () => workload.ended() !== null, 10_000);
    expect(end).toMatchObject({ kind: 'ended', via: 'sigkill', detail: expect.stringContaining(elsewhere.path) });
  });

  it('are not mistaken for a later process with the pid of one of them', async () => {
    const other = await elsewhere.run(HOLD);
    const known = identityOf(other);
    const follow = { ...nobody, processes: [{ ...known, startTicks: known.startTicks - 1 }] };
    expect(await kill({ first: 'sigkill', follow })).toEqual({ kind: 'gone' });
    expect(other.isAlive()).toBe(true);
  });

  it('are left alone if they hold nothing of it, such as a shell that was in it for a moment', async () => {
    const visitor = await elsewhere.run(HOLD);
    const shell = await elsewhere.run('echo up; exec sleep 1000');
    const hog = await cgroup.run(HOLD);
    const follow = { ...nobody, processes: [identityOf(visitor), identityOf(shell)] };
    expect(await kill({ first: 'sigkill', follow })).toMatchObject({
      kind: 'survived',
      left: [{ pid: visitor.pid }, { pid: shell.pid }],
    });
    await until(clock, () => hog.ended() !== null, 10_000);
    expect([visitor.isAlive(), shell.isAlive()]).toEqual([true, true]);
  });

  it('are not followed if a shutdown stops them', async () => {
    const workload = await cgroup.run("trap '' TERM; echo up; exec sleep 1000");
    await killMoving(workload, { follow: undefined });
    expect(workload.isAlive()).toBe(true);
  });

  it('counts as given back what a victim took in its grace period', async () => {
    await cgroup.run(GROW);
    const hasten = createHasten(clock);
    const ending = kill({ graceMs: 60_000, hasten });
    await until(clock, () => usedBytes() > 2 * HELD_MIB * MIB, 30_000);
    hasten.cut({ first: 'sigkill', graceMs: 0 });
    const end = await ending;
    expect(end).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    if (end.kind === 'ended' && end.releasedBytes.known)
      expect(end.releasedBytes.value).toBeGreaterThan(2 * HELD_MIB * MIB - UNDER_WAY_BYTES);
  });
});
