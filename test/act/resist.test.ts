import { once } from 'node:events';
import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { killCgroup } from '../../src/act/kill.ts';
import type { KillOrder } from '../../src/act/kill-order.ts';
import { findHierarchy } from '../../src/host/cgroup/cgroup-mounts.ts';
import { countUnreaped } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { createDyingHelp } from '../../src/host/process/dying-help.ts';
import type { Workload } from '../../src/host/process/workload.ts';
import { HEADLESS, makeCgroup, mounts, needsCgroups, type TestCgroup, unreapedIn } from './a-cgroup.ts';

const clock = createClock();
const DEADLINE_MS = 60_000;
describe.skipIf(needsCgroups !== '')(`victims that hide or resist ${needsCgroups}`, { timeout: 120_000 }, () => {
  let cgroup: TestCgroup;
  beforeEach(() => {
    cgroup = makeCgroup();
  });
  afterEach(() => cgroup.remove());

  async function kill(overrides: Partial<KillOrder> = {}) {
    if (mounts === null) throw new Error('no cgroups');
    const hasten = createHasten(clock);
    const order = {
      mounts,
      ref: cgroup.ref,
      clock,
      graceMs: 0,
      first: 'sigkill',
      givesBack: 'memory',
      hasten,
    } as const;
    const beganMs = clock.monoMs();
    const end = await killCgroup({ ...order, ask: null, ...overrides });
    return { end, tookMs: clock.monoMs() - beganMs };
  }
  const gone = async ({ isAlive }: Workload): Promise<void> => {
    const endsMs = clock.monoMs() + DEADLINE_MS;
    while (isAlive() && clock.monoMs() < endsMs) await sleep(clock, 5);
    expect(isAlive()).toBe(false);
  };
  /** Below the cgroup, in each of its hierarchies; `name` is bytes. */
  const inside = async (name: Buffer): Promise<Workload> => {
    const shell = await cgroup.run('echo up; exec sleep 1000');
    for (const root of cgroup.roots) {
      const directory = Buffer.concat([Buffer.from(`${root}/`), name]);
      mkdirSync(directory);
      writeFileSync(Buffer.concat([directory, Buffer.from('/cgroup.procs')]), String(shell.pid));
    }
    return shell;
  };

  it('kills a process whose main thread has already ended', async () => {
    const headless = await cgroup.run(HEADLESS);
    await sleep(clock, 400);
    expect((await kill()).end).toMatchObject({ kind: 'ended' });
    await gone(headless);
  });

  it.each([
    ['a carriage return', Buffer.from('a\rb')],
    ['a line separator', Buffer.from('a\u2028b')],
    ['bytes that are not UTF-8', Buffer.from([0x61, 0xff, 0xfe])],
  ])('ends what is in a cgroup whose name contains %s', async (_, name) => {
    const hidden = await inside(name);
    expect((await kill()).end).toMatchObject({ kind: 'ended' });
    await gone(hidden);
  });

  it('kills what is nested deeper than a path can name', async () => {
    const deep = await cgroup.run('echo up; exec sleep 1000');
    cgroup.deep('d'.repeat(120), 70, deep.pid);
    const { end } = await kill();
    expect(end).toMatchObject({ kind: 'ended' });
    await gone(deep);
  });

  it('kills what hides in the last of 10,000 cgroups, without blocking the event loop', async () => {
    for (const root of cgroup.roots) for (let i = 0; i < 10_000; i++) mkdirSync(`${root}/${i}`);
    const last = await inside(Buffer.from('last'));
    let longestMs = 0;
    let turnedMs = clock.monoMs();
    let isOver = false;
    const turn = (): void => {
      longestMs = Math.max(longestMs, clock.monoMs() - turnedMs);
      turnedMs = clock.monoMs();
      if (!isOver) clock.after(0, turn);
    };
    turn();
    const { end } = await kill();
    isOver = true;
    expect(end).toMatchObject({ kind: 'ended' });
    expect(longestMs).toBeLessThan(1_000);
    await gone(last);
  });

  const freezer = findHierarchy('freezer');
  /** In a cgroup of its own of that hierarchy, which goes with the test. */
  const freeze = ({ pid }: Workload, directory: string): (() => void) => {
    const thaw = (): void => writeFileSync(`${directory}/freezer.state`, 'THAWED');
    mkdirSync(directory);
    onTestFinished(() => {
      thaw();
      rmdirSync(directory);
    });
    writeFileSync(`${directory}/cgroup.procs`, String(pid));
    writeFileSync(`${directory}/freezer.state`, 'FROZEN');
    return thaw;
  };
  it.skipIf(freezer === null)(
    'kills what is frozen, in a cgroup of its own and in a shared one [needs the freezer of version 1]',
    async () => {
      if (mounts === null || freezer === null) return;
      const help = createDyingHelp(mounts);
      onTestFinished(help.close);
      for (const path of [cgroup.path, `${cgroup.path}-others`]) {
        const frozen = await cgroup.run('echo up; exec sleep 1000');
        const innocent = path === cgroup.path ? null : await cgroup.run('echo up; exec sleep 1000');
        freeze(frozen, `${freezer}${path}`);
        expect((await kill({ help })).end).toMatchObject({ kind: 'ended' });
        await gone(frozen);
        if (innocent !== null) await gone(innocent);
      }
    },
  );

  it.skipIf(freezer === null)(
    'spares a process started in place of dying ones before the cgroup was seen empty [needs the freezer of version 1]',
    async () => {
      // Frozen it has its SIGKILL and cannot end, for as long as the test wants.
      const frozen = await cgroup.run('echo up; exec sleep 1000');
      const thaw = freeze(frozen, `${freezer}/nodewarden-test-${process.pid}`);
      let isSignalled = false;
      const killing = kill({
        signalled: () => {
          isSignalled = true;
        },
      });
      while (!isSignalled) await sleep(clock, 5);
      await sleep(clock, 50);
      const next = await cgroup.run('echo up; exec sleep 1000');
      await sleep(clock, 200);
      expect(next.isAlive()).toBe(true);
      thaw();
      expect((await killing).end).toMatchObject({ kind: 'ended' });
      expect(next.isAlive()).toBe(true);
      await gone(frozen);
    },
  );

  it('names what cannot be signalled before it gives up, with pid and state', async () => {
    if (mounts === null) return;
    // Nobody signals himself: what a process that nobody may signal looks like.
    const home = cgroup.enter(process.pid);
    const said: string[] = [];
    try {
      const killing = kill({ resists: (who) => said.push(who ?? 'nobody') });
      while (said.length === 0) await sleep(clock, 5);
      expect(said[0]).toMatch(new RegExp(`process ${process.pid} \\(.*, state [A-Z]\\) may not be signalled`));
      home();
      expect((await killing).end).toMatchObject({ kind: 'ended' });
    } finally {
      home();
    }
  });

  it('spares what joins the cgroup after it was empty', async () => {
    const orphan = await unreapedIn(cgroup.roots, '2.5');
    const reaped = once(orphan, 'exit');
    const killing = kill({ givesBack: 'pids' });
    while (cgroup.pids().length > 0) await sleep(clock, 5);
    await sleep(clock, 50);
    const next = await cgroup.run('echo up; exec sleep 1000');
    expect((await killing).end).toMatchObject({ kind: 'ended' });
    await reaped;
    expect(next.isAlive()).toBe(true);
  });

  it('says how many dead processes hold their process IDs, and waits at most 3 s until they are reaped', async () => {
    await unreapedIn(cgroup.roots, '15');
    const { end, tookMs } = await kill({ givesBack: 'pids' });
    expect(end).toMatchObject({ kind: 'ended', unreaped: cgroup.ref });
    // 10 s would be those in which a victim may hold back others.
    expect(tookMs).toBeLessThan(8_000);
  });

  it('counts the dead processes, not the living ones beside them', async () => {
    await unreapedIn(cgroup.roots, '15');
    expect((await kill({ givesBack: 'memory' })).end).toMatchObject({ kind: 'ended', unreaped: cgroup.ref });
    await cgroup.run('echo up; exec sleep 1000');
    if (mounts === null) throw new Error('no cgroups');
    expect(countUnreaped(mounts, cgroup.ref)).toEqual({ known: true, value: 1 });
  });
});
