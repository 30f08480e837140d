import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { killCgroup } from '../../src/act/kill.ts';
import type { KillEnd, KillOrder } from '../../src/act/kill-order.ts';
import { largestProcesses } from '../../src/act/largest-processes.ts';
import { until } from '../../src/demo/cast.ts';
import { cgroupPathOf } from '../../src/host/cgroup/cgroup-members.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { Workload } from '../../src/host/process/workload.ts';
import { isPidChosen, makeCgroup, mounts, needsCgroups, replaced, type TestCgroup } from './a-cgroup.ts';

const clock = createClock();
const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";
const OBEYS = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";

/** Its parent hears of the end whenever it gets CPU, which proves nothing. */
async function signalOf(workload: Workload): Promise<string | null | undefined> {
  await until(clock, () => workload.ended() !== null, 10_000);
  return workload.ended()?.signal;
}

function openFiles(): readonly string[] {
  return readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return ''; // That of the listing itself.
    }
  });
}

/** Gone, a zombie, or in do_exit (PF_EXITING): a process leaves cgroup.procs there, and runs no code of its own any more. */
function hasLeftCode(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const [state, , , , , , flags] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' || state === 'X' || (Number(flags) & 0x4) !== 0;
  } catch {
    return true;
  }
}

describe.skipIf(needsCgroups !== '')(`ending the processes of a cgroup ${needsCgroups}`, () => {
  let cgroup: TestCgroup;
  beforeEach(() => {
    cgroup = makeCgroup();
  });
  afterEach(() => cgroup.remove());

  const order = (overrides: Partial<KillOrder>): KillOrder => {
    if (mounts === null) throw new Error('no cgroups');
    const { ref } = cgroup;
    const hasten = createHasten(clock);
    return {
      mounts,
      ref,
      clock,
      graceMs: 5_000,
      first: 'sigterm',
      givesBack: 'memory',
      hasten,
      ask: null,
      ...overrides,
    };
  };
  const timed = async (overrides: Partial<KillOrder>): Promise<{ readonly end: KillEnd; readonly tookMs: number }> => {
    const startMs = clock.monoMs();
    const end = await killCgroup(order(overrides));
    return { end, tookMs: clock.monoMs() - startMs };
  };
  const byForce = expect.stringMatching(/^(sigkill|cgroup\.kill)$/);

  describe("beside the kernel's OOM killer", () => {
    const LIMIT = 32 * 2 ** 20;
    const limit = (one: TestCgroup): void =>
      writeFileSync(
        `${mounts?.memory}${one.path}/${mounts?.version === 1 ? 'memory.limit_in_bytes' : 'memory.max'}`,
        String(LIMIT),
      );
    const grow = `perl -e 'my @x; push @x, "x" x (1 << 20) while 1'`;
    const onTerm = (perl: string): string =>
      `exec perl -e '$| = 1; $SIG{TERM} = sub { $SIG{TERM} = "IGNORE"; ${perl} }; print "up\n"; sleep 1 while 1'`;

    it('does not say that SIGTERM ended it if the kernel killed in it', async () => {
      limit(cgroup);
      await cgroup.run(onTerm('sleep 1; my @x; push @x, "x" x (1 << 20) while 1'));
      expect((await timed({})).end).toMatchObject({ kind: 'ended', via: 'oom-kill' });
    });

    it('says it if the kernel killed elsewhere', async () => {
      const other = makeCgroup();
      const tried = async (): Promise<KillEnd> => {
        await cgroup.run(onTerm('sleep 1; exit'));
        const ended = timed({});
        const hog = await other.run(`echo up; exec ${grow}`);
        expect(await signalOf(hog)).toBe('SIGKILL');
        return (await ended).end;
      };
      try {
        limit(other);
        let end = await tried();
        // If the kernel kills for somebody else right when it begins to watch, it cannot know.
        for (let tries = 1; tries < 4 && 'detail' in end; tries++) end = await tried();
        expect(end).toMatchObject({ kind: 'ended', via: 'sigterm' });
        expect(end).not.toHaveProperty('detail');
      } finally {
        await other.remove();
      }
    });

    it('does not know it if the cgroup is gone before its counter was read', async () => {
      limit(cgroup);
      const hog = await cgroup.run(`trap '' TERM; echo up; sleep 0.3; exec ${grow}`);
      const ended = timed({});
      // Busy: it looks again only after the cgroup was removed.
      const endMs = clock.monoMs() + 5_000;
      while (clock.monoMs() < endMs) {
        try {
          for (const root of cgroup.roots) rmdirSync(root);
          break;
        } catch {
          // It lives.
        }
      }
      expect((await ended).end).toMatchObject({
        kind: 'ended',
        via: 'sigterm',
        detail: expect.stringContaining('is not known'),
      });
      expect(await signalOf(hog)).toBe('SIGKILL');
    });
  });

  it('lets a process that obeys SIGTERM end in its own time, and sends nothing more', async () => {
    await cgroup.run(OBEYS);
    const { end, tookMs } = await timed({});
    expect(end).toMatchObject({ kind: 'ended', via: 'sigterm', releasedBytes: { known: true } });
    expect(tookMs).toBeLessThan(4_000);
    expect(cgroup.pids()).toEqual([]);
  });

  it('kills what ignores SIGTERM after the grace period, not before', async () => {
    const workload = await cgroup.run(IGNORES);
    const { end, tookMs } = await timed({ graceMs: 300 });
    expect(end).toMatchObject({ kind: 'ended', via: byForce });
    expect(tookMs).toBeGreaterThanOrEqual(299);
    expect(cgroup.pids()).toEqual([]);
    expect(await signalOf(workload)).toBe('SIGKILL');
  });

  it('does not count a standstill of the machine as grace, but gives at most 2 s more', async () => {
    let stoodStillMs = 0;
    const paused = { ...clock, monoMs: () => clock.monoMs() + stoodStillMs };
    const standsStill = () =>
      clock.after(200, () => {
        stoodStillMs += 60_000;
      });
    const ends =
      '$SIG{TERM} = sub { select(undef, undef, undef, 0.5); exit }; $| = 1; print "up\\n"; sleep 1000 while 1';
    await cgroup.run(`exec perl -e '${ends}'`);
    standsStill();
    expect((await timed({ clock: paused, graceMs: 3_000 })).end).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await cgroup.run(IGNORES);
    standsStill();
    const { end, tookMs } = await timed({ clock: paused, graceMs: 3_000 });
    expect(end).toMatchObject({ kind: 'ended', via: byForce });
    expect(tookMs).toBeGreaterThanOrEqual(2_000);
    expect(tookMs).toBeLessThan(10_000);
  });

  it('gives 2 s for a grace period of 0, like the kubelet', async () => {
    await cgroup.run(IGNORES);
    const { end, tookMs } = await timed({ graceMs: 0 });
    expect(end).toMatchObject({ kind: 'ended', via: byForce });
    expect(tookMs).toBeGreaterThanOrEqual(1_999);
  });

  it('kills at once if SIGKILL comes first, also in cgroups below', async () => {
    await cgroup.run(IGNORES);
    await cgroup.child('inner');
    const { end, tookMs } = await timed({ first: 'sigkill', graceMs: 30_000 });
    expect(end).toMatchObject({ kind: 'ended', via: byForce });
    expect(tookMs).toBeLessThan(5_000);
    expect(cgroup.pids()).toEqual([]);
  });

  it('leaves no searched directory open, which Node would report on standard error', async () => {
    const stubborn = await cgroup.run(IGNORES);
    const inner = `${mounts?.memory}${cgroup.path}/inner`;
    mkdirSync(inner);
    writeFileSync(`${inner}/cgroup.procs`, String(stubborn.pid));
    await timed({ graceMs: 100 });
    expect(openFiles()).not.toContain('/proc');
  });

  it('kills a fork bomb that its cgroup limits', async () => {
    cgroup.limitPids(150);
    // Perl, not a shell: a shell ends when it cannot fork, and the dead count until somebody reaps them.
    await cgroup.run(`exec perl -e '$| = 1; print "up\\n"; while (1) { fork; select(undef, undef, undef, 0.01) }'`);
    while (cgroup.pids().length < 100) await sleep(clock, 10);
    const { end } = await timed({ first: 'sigkill' });
    expect(end).toMatchObject({ kind: 'ended' });
    expect(cgroup.pids()).toEqual([]);
  });

  it('waits until dead processes are reaped only if pids must be freed', async () => {
    // Its parent is no member and reaps it by its own end, 1.5 s later.
    const orphaned = async (): Promise<ChildProcess> => {
      const script = `if (!fork) { for (@ARGV) { open F, '>', $_; print F 0; close F } $| = 1; print 'up'; sleep 1000 } select(undef, undef, undef, 1.5)`;
      const files = cgroup.roots.map((root) => `${root}/cgroup.procs`);
      const parent = spawn('perl', ['-e', script, ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
      await once(parent.stdout, 'data');
      return parent;
    };
    const first = await orphaned();
    const { tookMs: memoryMs } = await timed({ first: 'sigkill' });
    await once(first, 'exit');
    await orphaned();
    const { end, tookMs: pidsMs } = await timed({ first: 'sigkill', givesBack: 'pids' });
    expect(end).toMatchObject({ kind: 'ended' });
    // On a busy machine both take longer.
    expect(memoryMs).toBeLessThan(pidsMs);
    expect(pidsMs).toBeGreaterThan(1_000);
  });

  it('stops processes that join during the grace period', async () => {
    await cgroup.run(IGNORES);
    const ending = killCgroup(order({ graceMs: 300 }));
    await sleep(clock, 150);
    const late = await cgroup.run(IGNORES);
    expect(await ending).toMatchObject({ kind: 'ended' });
    expect(hasLeftCode(late.pid)).toBe(true);
    expect(await signalOf(late)).toBe('SIGKILL');
  });

  it('cuts a long grace period to the one that the reason gives when it is hastened', async () => {
    await cgroup.run(IGNORES);
    const hasten = createHasten(clock);
    clock.after(100, () => hasten.cut({ first: 'sigterm', graceMs: 200 }));
    const { end, tookMs } = await timed({ graceMs: 60_000, hasten });
    expect(end).toMatchObject({ kind: 'ended', via: byForce });
    expect(tookMs).toBeGreaterThanOrEqual(299);
    expect(tookMs).toBeLessThan(10_000);
  });

  it('kills at once when it is hastened to SIGKILL', async () => {
    await cgroup.run(IGNORES);
    const hasten = createHasten(clock);
    hasten.cut({ first: 'sigkill', graceMs: 30_000 });
    const { tookMs } = await timed({ graceMs: 60_000, hasten });
    expect(tookMs).toBeLessThan(30_000);
  });

  it('returns gone for a cgroup that is empty, removed, or replaced under the same path', async () => {
    expect(await killCgroup(order({}))).toEqual({ kind: 'gone' });
    await cgroup.run(IGNORES);
    const { ref } = cgroup;
    expect(await killCgroup(order({ ref: { ...ref, inode: ref.inode + 1 } }))).toEqual({ kind: 'gone' });
    expect(cgroup.pids()).not.toEqual([]);
    expect(await killCgroup(order({ ref: { path: `${ref.path}-not`, inode: 1 } }))).toEqual({ kind: 'gone' });
  });

  it('uses another way to ask, and falls back to SIGTERM if that fails', async () => {
    const workload = await cgroup.run(OBEYS);
    const asked = await timed({ graceMs: 300, ask: async () => 'told' });
    expect(asked.end).toMatchObject({ kind: 'ended', via: byForce });
    expect(await signalOf(workload)).toBe('SIGKILL');
    await cgroup.run(OBEYS);
    const refused = await timed({ ask: async () => 'not-told' });
    expect(refused.end).toMatchObject({ kind: 'ended', via: 'sigterm' });
  });

  it('spares a pod that no longer needs to stop before it was asked', async () => {
    await cgroup.run(OBEYS);
    const { end } = await timed({ graceMs: 300, ask: async () => 'spared' });
    expect(end).toEqual({ kind: 'spared' });
    expect(cgroup.pids()).not.toEqual([]);
  });

  it('extends a grace period that is no longer urgent', async () => {
    await cgroup.run("trap 'sleep 0.8; exit' TERM; echo up; while :; do sleep 0.05; done");
    const { end } = await timed({ graceMs: 200, leastGraceMs: () => 20_000 });
    expect(end).toMatchObject({ kind: 'ended', via: 'sigterm' });
  });

  it('counts what was freed', async () => {
    await cgroup.run('a=$(head -c 20000000 /dev/zero | tr "\\0" x); echo up; while :; do sleep 1000; done');
    const { end } = await timed({ first: 'sigkill' });
    expect(end.kind).toBe('ended');
    if (end.kind === 'ended' && end.releasedBytes.known) expect(end.releasedBytes.value).toBeGreaterThan(15_000_000);
  });

  it('proves the end by that of its processes if its memory cannot be read, and says so', async () => {
    await cgroup.run(IGNORES);
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-kill-'));
    writeFileSync(join(directory, 'broken'), 'abc\n');
    const broken = ['memory.stat', mounts?.version === 1 ? 'memory.usage_in_bytes' : 'memory.current'].map(
      (name) => `${mounts?.memory}${cgroup.path}/${name}`,
    );
    for (const file of broken) execFileSync('mount', ['--bind', join(directory, 'broken'), file]);
    try {
      const { end, tookMs } = await timed({ first: 'sigkill' });
      expect(end).toMatchObject({ kind: 'ended', via: byForce, releasedBytes: { known: false, where: broken[1] } });
      // After 10 s, it would have ended without that proof.
      expect(tookMs).toBeLessThan(8_000);
      expect(cgroup.pids()).toEqual([]);
    } finally {
      for (const file of broken) execFileSync('umount', [file]);
      rmSync(directory, { recursive: true });
    }
  });

  it('never signals itself, and says which processes are left if some survive', { timeout: 30_000 }, async () => {
    if (mounts === null) return;
    // Somebody who may not be signalled is what a survivor looks like: this very process.
    const home = cgroupPathOf(mounts, process.pid);
    if (!home.known) throw new Error(home.detail);
    try {
      writeFileSync(`${mounts.memory}${cgroup.path}/cgroup.procs`, String(process.pid));
      const { end, tookMs } = await timed({ first: 'sigkill' });
      expect(end).toMatchObject({ kind: 'survived', left: [{ pid: process.pid }] });
      expect(end).not.toHaveProperty('killedBy');
      expect(tookMs).toBeGreaterThanOrEqual(9_900);
    } finally {
      writeFileSync(`${mounts.memory}${home.value}/cgroup.procs`, String(process.pid));
    }
  });

  it.skipIf(!isPidChosen())('does not show what has got the id of one that ended [needs root]', async () => {
    if (mounts === null) return;
    const shell = await cgroup.run('echo up; while :; do sleep 1000; done');
    await until(clock, () => cgroup.pids().length === 2, 10_000);
    const pid = cgroup.pids().find((one) => one !== shell.pid) ?? 0;
    let stranger = 0;
    onTestFinished(() => {
      if (stranger > 1) process.kill(stranger, 'SIGKILL');
    });
    let calls = 0;
    const monoMs = (): number => {
      calls += 1;
      // Between the list and the first reading. The shell in the cgroup starts another one for itself.
      if (calls === 2) stranger = replaced(pid);
      return clock.monoMs();
    };
    const shown = largestProcesses({
      mounts,
      refs: [cgroup.ref],
      clock: { ...clock, monoMs },
      count: 9,
      budgetMs: 60_000,
    });
    expect(stranger).toBe(pid);
    expect(shown.known && shown.value.map((one) => one.pid)).not.toContain(pid);
  });

  it('shows the largest processes, largest first, and stops at its budget', async () => {
    if (mounts === null) return;
    await cgroup.run('a=$(head -c 8000000 /dev/zero | tr "\\0" x); echo up; while :; do sleep 1000; done');
    await cgroup.run(OBEYS);
    const needs = { mounts, refs: [cgroup.ref], clock, count: 1 };
    const shown = largestProcesses({ ...needs, budgetMs: 1_000 });
    expect(shown).toMatchObject({ known: true, value: [{ name: 'sh', rssBytes: expect.any(Number) }] });
    if (shown.known) expect(shown.value[0]?.rssBytes).toBeGreaterThan(7_000_000);
    expect(largestProcesses({ ...needs, budgetMs: -1 })).toMatchObject({ known: false, why: 'timed-out' });
  });
});
