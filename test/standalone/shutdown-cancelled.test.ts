import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { stopForShutdown } from '../../src/act/shutdown-stop.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { turnOf } from '../../src/core/shutdown/chain.ts';
import { sleep } from '../../src/host/clock.ts';
import { startWorkload } from '../../src/host/process/workload.ts';
import type { UndoneStops } from '../../src/mode.ts';
import { mounts } from '../act/a-cgroup.ts';
import { until } from '../host/private-bus.ts';
import {
  addPod,
  clock,
  directory,
  does,
  fake,
  heard,
  needs,
  noted,
  open,
  openParts,
  podOf,
  reopen,
  standalone,
  stop,
} from './a-shutdown.ts';

const ENDS = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";

/** As the agent hears of it. */
const cancel = (): Promise<UndoneStops> => {
  standalone.setShuttingDown(false);
  return standalone.undoStops();
};
const NOTHING: UndoneStops = { started: [], notUndone: [] };
const SPARED = { kind: 'dropped', because: 'cancelled' };

const declare = (name: string, unit: string, graceSeconds: number): void =>
  writeFileSync(
    join(directory, 'pods.d', `${name}.yaml`),
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/systemd-unit: ${unit}\nspec: { terminationGracePeriodSeconds: ${graceSeconds}, containers: [{ name: a }] }\n`,
  );

describe.skipIf(needs !== '')(`what a shutdown had not asked to stop when it was cancelled ${needs}`, () => {
  afterEach(() => {
    does.react = () => null;
  });

  it('is not asked any more, also if systemd had not answered yet how it is', async () => {
    const cgroup = await addPod('web', 'unit', ENDS);
    await open('web');
    let isSilent = true;
    does.react = (member) => (isSilent && /^Get/.test(member) ? 'silence' : null);
    standalone.setShuttingDown(true);
    const stopped = stop('web', { graceMs: 30_000 });
    await sleep(clock, 300);
    const undone = cancel();
    isSilent = false;
    expect(await stopped).toMatchObject(SPARED);
    expect(await undone).toEqual(NOTHING);
    expect(fake.asked()).toEqual([]);
    expect(cgroup.pids()).not.toEqual([]);
  });

  it('is not signalled while systemd has not answered whether it stops it, and is known to run once that answers', async () => {
    const cgroup = await addPod('web', 'unit', ENDS);
    await open('web');
    does.react = () => 'silence';
    standalone.setShuttingDown(true);
    const stopped = stop('web', { graceMs: 4_000 });
    await sleep(clock, 1_500);
    const undone = cancel();
    await sleep(clock, 5_000);
    expect(cgroup.pids()).not.toEqual([]);
    does.react = () => null;
    expect(await stopped).toMatchObject(SPARED);
    expect(await undone).toEqual(NOTHING);
    expect(cgroup.pids()).not.toEqual([]);
  });

  it('is started again if systemd stops it after that, because it had only not answered', async () => {
    await addPod('web', 'unit', ENDS);
    await open('web');
    does.react = () => 'silence';
    standalone.setShuttingDown(true);
    const stopped = stop('web', { graceMs: 4_000 });
    await until(() => fake.asked().length === 1);
    const undone = cancel();
    await sleep(clock, 3_000);
    does.react = () => null;
    fake.byOthers('stop', 'web.service');
    expect(await stopped).toMatchObject({ kind: 'ended' });
    expect(await undone).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it.each(['cgroup', 'unit'] as const)('is not stopped after an eviction of it came to nothing: %s', async (by) => {
    const cgroup = await addPod('web', by, ENDS);
    await open('web');
    const { uid = '', namespace = '', qos = 'Burstable', priority = 0 } = podOf('web')?.declared ?? {};
    const { findings, log } = heard;
    const atMs = clock.monoMs();
    const evicted = sleep(clock, 600).then(
      (): Outcome => ({ of: 'evict', atMs: clock.monoMs(), kind: 'dropped', because: 'no-longer-met' }),
    );
    standalone.setShuttingDown(true);
    const stopped = stopForShutdown(
      { clock, killer: standalone.killer, log, findings },
      {
        ...{ id: 'stop-web', atMs, kind: 'stop-for-shutdown', phase: 1, graceSeconds: 20, endsMs: atMs + 20_000 },
        victim: { uid, namespace, name: 'web', qos, priority },
      },
      { hasten: createHasten(clock), ended: evicted },
    );
    await sleep(clock, 200);
    const undone = cancel();
    // The next one has not come to its phase yet.
    standalone.setShuttingDown(true);
    expect(await stopped).toMatchObject({ of: 'stop-web', ...SPARED });
    expect(await undone).toEqual(NOTHING);
    expect(fake.asked()).toEqual([]);
    expect(cgroup.pids()).not.toEqual([]);
  });

  it.each(['cgroup', 'unit'] as const)('is not stopped by the next run of the agent: %s', async (by) => {
    const cgroup = await addPod('web', by, ENDS);
    await open('web');
    standalone.setShuttingDown(false);
    expect(await stop('web', { resumedFromMs: clock.monoMs(), graceMs: 5_000 })).toMatchObject(SPARED);
    expect(fake.asked()).toEqual([]);
    expect(cgroup.pids()).not.toEqual([]);
  });

  it.each(['service', 'slice'])(
    'is not stopped by the next run if the earlier one died before it asked: a %s',
    async (of) => {
      const cgroup = await addPod('web', 'unit', "trap '' TERM; echo up; while :; do sleep 0.01; done");
      const unit = `web.${of}`;
      const facts = { activeState: 'active', invocation: 1, controlGroup: cgroup.path, loadState: 'loaded' };
      fake.units.set(unit, facts);
      declare('web', unit, 1);
      await open('web');
      await reopen([noted('web', 'noted', { unit })], 'web');
      standalone.setShuttingDown(false);
      expect(await stop('web', { resumedFromMs: clock.monoMs() })).toMatchObject(SPARED);
      expect(fake.asked()).toEqual([]);
      expect(cgroup.pids()).not.toEqual([]);
    },
  );

  it('is waited for if it is a slice that the earlier run had asked, and died before it had noted that', async () => {
    const cgroup = await addPod('web', 'unit');
    const facts = {
      activeState: 'active',
      invocation: 1,
      controlGroup: cgroup.path,
      loadState: 'loaded',
      hasJob: true,
    };
    fake.units.set('web.slice', facts);
    declare('web', 'web.slice', 1);
    await open('web');
    await reopen([noted('web', 'noted', { unit: 'web.slice' })], 'web');
    standalone.setShuttingDown(false);
    const stopped = stop('web', { resumedFromMs: clock.monoMs() });
    await sleep(clock, 300);
    expect(cgroup.pids()).not.toEqual([]);
    for (const pid of cgroup.pids()) process.kill(pid, 'SIGKILL');
    fake.byOthers('stop', 'web.slice');
    expect(await stopped).toMatchObject({ kind: 'ended' });
  });

  it('is started again if the earlier run had asked, and died before it had noted that', async () => {
    const cgroup = await addPod('web', 'unit');
    await open('web');
    await reopen([noted('web', 'noted')], 'web');
    const unit = fake.units.get('web.service');
    if (unit !== undefined) unit.activeState = 'deactivating';
    standalone.setShuttingDown(false);
    const stopped = stop('web', { resumedFromMs: clock.monoMs(), graceMs: 5_000 });
    const undone = standalone.undoStops();
    await sleep(clock, 300);
    for (const pid of cgroup.pids()) process.kill(pid, 'SIGKILL');
    fake.byOthers('stop', 'web.service');
    expect(await stopped).toMatchObject({ kind: 'ended' });
    expect(await undone).toEqual({ started: ['web.service'], notUndone: [] });
  });

  /** `front` is being stopped, and `db` waits for it until the time of its turn. */
  const inChain = async () => {
    await addPod('front', 'unit');
    const cgroup = await addPod('db', 'unit', ENDS);
    await open('front', 'db');
    const [front, db] = ['front', 'db'].map((name) => podOf(name)?.declared.uid ?? '');
    const jobs: string[] = [];
    does.react = (member, name, body) => {
      const unit = fake.units.get(name);
      if (member === 'CancelJob') jobs.push('cancelled');
      if (member !== 'StopUnit' || unit === undefined) return null;
      jobs.push(`${name} ${String(body[1])}`);
      if (name === 'front.service') unit.activeState = 'deactivating';
      else if (body[1] === 'ignore-dependencies') return null;
      else unit.hasJob = true;
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/1'] };
    };
    const stopDb = (decision: string, seconds: number) => {
      const atMs = clock.monoMs();
      const chain = { after: [front ?? ''], beforeSeconds: seconds / 2, restSeconds: seconds / 2 };
      const turn = turnOf(seconds / 2, chain, { atMs, endsMs: atMs + seconds * 1_000 });
      return stop('db', { decision, graceMs: seconds * 500, turn });
    };
    standalone.setShuttingDown(true);
    const ended = [stop('front', { graceMs: 60_000 }), stopDb('stop-db', 4)] as const;
    await until(() => jobs.length === 2);
    await sleep(clock, 200);
    return { cgroup, jobs, stopDb, ended, isToBeStopped: () => standalone.isToBeStopped?.(db ?? '') };
  };

  it.each([0, 30])('does not get its turn, also if the next one is announced after %i ms', async (gapMs) => {
    const { cgroup, jobs, ended, isToBeStopped } = await inChain();
    void cancel();
    await sleep(clock, gapMs);
    standalone.setShuttingDown(true);
    expect(await ended[1]).toMatchObject(SPARED);
    await sleep(clock, 4_000);
    expect(cgroup.pids()).not.toEqual([]);
    expect(jobs).toEqual(['front.service replace', 'db.service replace']);
    expect(isToBeStopped()).toBe(false);
  });

  it('keeps its place among the jobs of systemd if the next one stops it, too, and has its turn there', async () => {
    const { cgroup, jobs, stopDb, ended, isToBeStopped } = await inChain();
    void cancel();
    standalone.setShuttingDown(true);
    const beganMs = clock.monoMs();
    const again = stopDb('again', 10);
    await sleep(clock, 4_500);
    expect(cgroup.pids()).not.toEqual([]);
    expect([jobs, isToBeStopped()]).toEqual([['front.service replace', 'db.service replace'], true]);
    await again;
    expect(clock.monoMs() - beganMs).toBeGreaterThan(7_000);
    expect(await ended[1]).toMatchObject({ of: 'stop-db', kind: 'ended' });
    expect(await again).toMatchObject({ of: 'again', kind: 'ended' });
    expect(jobs.at(-1)).toBe('db.service ignore-dependencies');
  });
});

describe.skipIf(needs !== '')(`a unit without processes, after a cancel ${needs}`, () => {
  /** Its stop runs until it is killed, or `ends`. */
  const openIdle = async () => {
    let killedMs = 0;
    const unit = {
      activeState: 'active',
      invocation: 1,
      controlGroup: '',
      loadState: 'loaded',
      subState: 'exited',
      hasStopCommand: true,
    };
    fake.units.set('drain.service', unit);
    does.react = (member) => {
      if (member === 'KillUnit') {
        killedMs = clock.monoMs();
        unit.activeState = 'failed';
      }
      if (member !== 'StopUnit') return null;
      unit.activeState = 'deactivating';
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
    };
    declare('drain', 'drain.service', 20);
    await openParts(false);
    await until(() => podOf('drain') !== undefined && standalone.running().length === 1);
    standalone.setShuttingDown(true);
    const ended = stop('drain', { graceMs: 800 });
    await until(() => fake.asked().length === 1);
    void cancel();
    const ends = (): void => {
      unit.activeState = 'inactive';
    };
    return { killedMs: () => killedMs, ended, ends };
  };

  it('has the time that it declares', async () => {
    const { killedMs, ended, ends } = await openIdle();
    await sleep(clock, 2_000);
    expect(killedMs()).toBe(0);
    ends();
    expect(await ended).toMatchObject({ kind: 'ended', via: 'stop-unit' });
  });

  it('has that also if the agent is restarted meanwhile, is killed at its end by the next run, and started again then', async () => {
    const cgroup = await addPod('web', 'unit');
    declare('web', 'web.service', 3);
    await open('web');
    const toldMs = clock.monoMs();
    await reopen([noted('web', 'told', { toldMs, graceEndsMs: toldMs + 60_000 })], 'web');
    const unit = fake.units.get('web.service');
    if (unit !== undefined) unit.activeState = 'deactivating';
    standalone.setShuttingDown(false);
    const stopped = stop('web', { resumedFromMs: toldMs, graceMs: 300 });
    const undone = standalone.undoStops();
    expect(await stopped).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - toldMs).toBeGreaterThanOrEqual(3_000);
    expect(cgroup.pids()).toEqual([]);
    fake.byOthers('stop', 'web.service');
    expect(await undone).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it('has the time of the next shutdown once that stops it, too', async () => {
    const { killedMs, ended } = await openIdle();
    await sleep(clock, 1_000);
    standalone.setShuttingDown(true);
    const beganMs = clock.monoMs();
    expect(await stop('drain', { decision: 'again', graceMs: 500 })).toMatchObject({ of: 'again', via: 'sigkill' });
    expect(killedMs() - beganMs).toBeGreaterThan(450);
    expect(killedMs() - beganMs).toBeLessThan(5_000);
    expect(await ended).toMatchObject({ of: 'stop-drain', via: 'sigkill' });
  });
});

describe.skipIf(needs !== '')(`a service in a slice that waits for its turn there ${needs}`, () => {
  /** Its stop has a job, and systemd does not stop it yet. */
  const openSlice = async () => {
    if (mounts === null) throw new Error(needs);
    const slice = `nwturn${process.pid}.slice`;
    const roots = [...new Set([mounts.memory, mounts.pids ?? mounts.memory])].map((root) => `${root}/${slice}`);
    for (const root of roots) for (const path of [root, `${root}/inner.service`]) mkdirSync(path);
    const argv = ['/bin/sh', '-c', ENDS];
    const into = roots.map((root) => `${root}/inner.service`);
    let isUp = false;
    const line = (): void => {
      isUp = true;
    };
    const inner = startWorkload({ argv, join: into, monoMs: clock.monoMs, line });
    if (typeof inner === 'string') throw new Error(inner);
    await until(() => isUp);
    const facts = { activeState: 'active', invocation: 1, loadState: 'loaded' };
    fake.units.set(slice, { ...facts, controlGroup: `/${slice}` });
    fake.units.set('inner.service', { ...facts, controlGroup: `/${slice}/inner.service`, hasJob: true });
    const told: number[] = [];
    does.react = (member, unit) => {
      if (member !== 'StopUnit') return null;
      if (unit === 'inner.service') {
        told.push(clock.monoMs());
        inner.kill('SIGTERM');
      }
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/71'] };
    };
    declare('web', slice, 8);
    await open('web');
    const remove = async (): Promise<void> => {
      inner.kill('SIGKILL');
      await until(() => inner.ended() !== null);
      await until(() => roots.every((root) => readFileSync(`${root}/inner.service/cgroup.procs`, 'utf8') === ''));
      for (const root of roots) for (const path of [`${root}/inner.service`, root]) rmdirSync(path);
    };
    return { inner, told, remove };
  };

  it('is asked before the slice is killed at the time of the next shutdown', async () => {
    const { inner, told, remove } = await openSlice();
    try {
      standalone.setShuttingDown(true);
      const ended = stop('web', { graceMs: 60_000 });
      await until(() => fake.asked().length === 1);
      void cancel();
      standalone.setShuttingDown(true);
      expect(await stop('web', { decision: 'again', graceMs: 3_000 })).toMatchObject({ kind: 'ended' });
      await ended;
      expect([told.length, inner.ended()?.code]).toEqual([1, 0]);
    } finally {
      await remove();
    }
  });

  it('is not stopped out of turn at the time of a cancelled one', async () => {
    const { inner, told, remove } = await openSlice();
    try {
      standalone.setShuttingDown(true);
      const beganMs = clock.monoMs();
      const ended = stop('web', { graceMs: 1_000 });
      await until(() => fake.asked().length === 1);
      void cancel();
      await ended;
      expect((told[0] ?? 0) - beganMs).toBeGreaterThan(5_000);
      expect(inner.ended()?.code).toBe(0);
    } finally {
      await remove();
    }
  });
});
