import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Variant } from 'dbus-next';
import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { turnOfStop } from '../../src/core/shutdown/chain.ts';
import { sleep } from '../../src/host/clock.ts';
import { loadHeld } from '../../src/standalone/restart/held-file.ts';
import { type Answer, until } from '../host/private-bus.ts';
import {
  addPod,
  bootId,
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
  remembered,
  reopen,
  standalone,
  stop,
} from './a-shutdown.ts';

const property = (signature: string, value: unknown): Answer => ({
  signature: 'v',
  body: [new Variant(signature, value)],
});

describe.skipIf(needs !== '')(`what a shutdown stops ${needs}`, () => {
  it('is queued for the whole group in order, after all of it is on disk, and is not held as by an eviction', async () => {
    for (const name of ['web', 'db', 'mail']) await addPod(name, 'unit');
    const onDisk: string[][] = [];
    does.react = (member) => {
      if (member === 'StopUnit') onDisk.push(remembered().map(({ unit, stage }) => `${unit} ${stage}`));
      return null;
    };
    await open('web', 'db', 'mail');
    const ends = await Promise.all(['mail', 'web', 'db'].map((name) => stop(name)));
    expect(ends).toMatchObject([{ kind: 'ended' }, { kind: 'ended' }, { kind: 'ended' }]);
    expect(fake.asked()).toEqual(['StopUnit mail.service', 'StopUnit web.service', 'StopUnit db.service']);
    const all = ['mail.service noted', 'web.service noted', 'db.service noted'];
    expect(onDisk).toEqual([all, all, all]);
    expect(remembered().map(({ stage, invocationId }) => [stage, invocationId])).toEqual(
      Array(3).fill(['ended', '01']),
    );
    expect(loadHeld(directory, bootId, clock).held.units).toEqual([]);
  });

  /** Its stop job waits for those of other units until `runs` is called. */
  const withWaitingJob = (unit: string): { readonly runs: () => void } => {
    does.react = (member, first) =>
      member === 'StopUnit' && first === unit ? { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] } : null;
    return {
      runs: () => {
        const state = fake.units.get(unit);
        if (state !== undefined) state.activeState = 'deactivating';
      },
    };
  };
  const turnOfMs = (graceMs: number, periodMs: number) => {
    const endsMs = clock.monoMs() + periodMs;
    return { after: [], periodMs, endsMs, graceMs, beforeMs: 0, restMs: graceMs };
  };

  it('is queued after those that stop before it, because systemd may begin before it has read all', async () => {
    for (const name of ['db', 'mid', 'front']) await addPod(name, 'unit');
    await open('db', 'mid', 'front');
    const turn = turnOfMs(300, 5_000);
    const ends = await Promise.all(
      [
        ['db', 600],
        ['mid', 300],
        ['front', 0],
      ].map(([name, beforeMs]) => stop(String(name), { turn: { ...turn, beforeMs: Number(beforeMs) } })),
    );
    expect(ends.map(({ kind }) => kind)).toEqual(['ended', 'ended', 'ended']);
    expect(fake.asked()).toEqual(['StopUnit front.service', 'StopUnit mid.service', 'StopUnit db.service']);
  });

  it('is queued after those that also stop a unit, because it may wait for that one', async () => {
    for (const name of ['db', 'front']) await addPod(name, 'unit');
    const front = fake.units.get('front.service');
    if (front !== undefined) front.relations = { BoundBy: ['helper.service'] };
    fake.units.set('helper.service', { activeState: 'active', invocation: 1, controlGroup: '', loadState: 'loaded' });
    await open('db', 'front');
    await until(() => podOf('front')?.declared.takesAlong?.includes('helper.service') === true);
    await Promise.all([stop('db'), stop('front')]);
    expect(fake.asked()).toEqual(['StopUnit front.service', 'StopUnit db.service']);
  });

  it('has its grace period from the moment when its job runs, and is only to be stopped until then', async () => {
    const cgroup = await addPod('web', 'unit');
    await open('web');
    const job = withWaitingJob('web.service');
    const uid = podOf('web')?.declared.uid ?? '';
    const isToBeStopped = () => standalone.isToBeStopped?.(uid);
    expect(isToBeStopped()).toBe(false);
    const stopped = stop('web', { graceMs: 300, turn: turnOfMs(300, 30_000) });
    await until(() => fake.asked().includes('StopUnit web.service'));
    await sleep(clock, 400);
    expect([cgroup.pids().length > 0, isToBeStopped()]).toEqual([true, true]);
    const toldMs = clock.monoMs();
    job.runs();
    await until(() => isToBeStopped() === false);
    expect(await stopped).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - toldMs).toBeGreaterThanOrEqual(299);
  });

  it('is not asked out of turn in a phase without time, after which systemd stops it, and has its 2 s from its turn', async () => {
    const cgroup = await addPod('web', 'unit');
    await open('web');
    const job = withWaitingJob('web.service');
    const nowMs = clock.monoMs();
    const stopped = stop('web', { turn: turnOfStop({ graceSeconds: 0, atMs: nowMs, endsMs: nowMs }) });
    await sleep(clock, 2_500);
    expect([fake.asked(), cgroup.pids().length > 0]).toEqual([['StopUnit web.service'], true]);
    const toldMs = clock.monoMs();
    job.runs();
    expect(await stopped).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - toldMs).toBeGreaterThanOrEqual(1_999);
  });

  it('counts as asked when its stop began, even if it had ended before that was seen', async () => {
    await addPod('web', 'unit', `echo up; until [ -e ${join(directory, 'asked')} ]; do sleep 0.02; done`);
    await open('web');
    withWaitingJob('web.service');
    const { uid = '', namespace = '', name = '', qos = 'Burstable', priority = 0 } = podOf('web')?.declared ?? {};
    const beganMs = clock.monoMs();
    let toldMs: number | undefined;
    const ended = standalone.killer.stop(
      {
        decision: 'stop-web',
        victim: { uid, namespace, name, qos, priority },
        graceMs: 30_000,
        turn: turnOfMs(30_000, 60_000),
        why: 'shutdown',
        isHard: false,
        resumedFromMs: null,
        first: 'sigterm',
        givesBack: 'memory',
      },
      createHasten(clock),
      (_, atMs) => {
        toldMs ??= atMs;
      },
    );
    await until(() => fake.asked().includes('StopUnit web.service'));
    await sleep(clock, 300);
    const askedMs = clock.monoMs();
    fake.endsByItself('web.service');
    // Nobody who asks for its state sees it before its processes have ended.
    const unit = fake.units.get('web.service');
    if (unit !== undefined) unit.activeState = 'active';
    writeFileSync(join(directory, 'asked'), '');
    expect(await ended).toMatchObject({ kind: 'ended', via: 'stop-unit' });
    expect(toldMs).toBeGreaterThan(beganMs + 200);
    expect(toldMs).toBeLessThanOrEqual(askedMs + 100);
  });

  it('is signalled while there is time left if its job never runs', async () => {
    await addPod('web', 'unit', "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    await open('web');
    withWaitingJob('web.service');
    const order = { graceMs: 600, turn: turnOfMs(600, 600) };
    expect(await stop('web', order)).toMatchObject({ kind: 'ended', via: 'sigterm' });
  });

  it('waits for its predecessors if systemd itself does not order it, for as long as it can', async () => {
    for (const name of ['web', 'db']) await addPod(name, 'unit');
    await open('web', 'db');
    const signalled: string[] = [];
    does.react = (member, first, body) => {
      if (member === 'Get' && body[1] === 'SystemState') return property('s', 'stopping');
      if (member === 'Get' && body[1] === 'KillMode') return property('s', 'control-group');
      if (member === 'Get' && body[1] === 'KillSignal') return property('i', 15);
      if (member === 'KillUnit') signalled.push(first);
      return null;
    };
    const web = podOf('web')?.declared.uid ?? '';
    const first = stop('web', { graceMs: 300, turn: turnOfMs(300, 5_000) });
    const second = stop('db', { graceMs: 300, turn: { ...turnOfMs(300, 5_000), after: [web], beforeMs: 300 } });
    await until(() => signalled.length > 0);
    expect(signalled).toEqual(['web.service']);
    await first;
    await second;
    expect(signalled).toEqual(['web.service', 'db.service']);
  });

  it.each([
    ['has no command', false, 0, 'stop-timeout'],
    ['has a command, and its main process was killed', true, 9, 'stop-timeout'],
    ['has a command that took too long', true, 0, 'stop-unit'],
  ])(
    'is distinguished from an end by systemd, at its TimeoutStopSec: its stop %s',
    async (_, hasStopCommand, status, via) => {
      const cgroup = await addPod('web', 'unit');
      await open('web');
      const unit = fake.units.get('web.service');
      if (unit !== undefined) fake.units.set('web.service', { ...unit, hasStopCommand });
      does.react = (member, _, body) => {
        if (member === 'StopUnit') return { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
        if (member === 'Get' && body[1] === 'ExecMainStatus') return property('i', status);
        return member === 'Get' && body[1] === 'Result' ? property('s', 'timeout') : null;
      };
      const stopped = stop('web', { graceMs: 10_000 });
      await until(() => fake.asked().includes('StopUnit web.service'));
      for (const pid of cgroup.pids()) process.kill(pid, 'SIGKILL');
      expect(await stopped).toMatchObject({ kind: 'ended', via });
    },
  );

  it('signals what its own stop leaves unsignalled, once it is down (KillMode=process, none)', async () => {
    const said = join(directory, 'said');
    await addPod('web', 'unit', `trap 'echo term >> ${said}; exit 0' TERM; echo up; while :; do sleep 0.02; done`);
    await open('web');
    const stopped = stop('web', { graceMs: 10_000 });
    await until(() => fake.asked().includes('StopUnit web.service'));
    fake.byOthers('stop', 'web.service');
    expect(await stopped).toMatchObject({ kind: 'ended', via: 'sigterm' });
    expect(readFileSync(said, 'utf8')).toBe('term\n');
  });

  it('is left to systemd if its stop comes after ours, as for a unit without processes', async () => {
    addIdlePod('drain');
    const stops = does.react;
    does.react = (member, first, body) => {
      if (member === 'Get' && body[1] === 'SystemState') return property('s', 'stopping');
      if (member === 'Get' && body[1] === 'KillMode') return property('s', 'control-group');
      if (member === 'Get' && body[1] === 'KillSignal') return property('i', 15);
      return member === 'KillUnit' ? { signature: '', body: [] } : stops(member, first, body);
    };
    await openParts(false);
    await until(() => podOf('drain') !== undefined && standalone.running().length === 1);
    expect(await stop('drain', { graceMs: 5_000 })).toMatchObject({ kind: 'dropped', because: 'left-to-systemd' });
  });

  /** Active without a process; its stop runs a command until the test says that it has ended, or it is killed. */
  const addIdlePod = (name: string, hasStopCommand = true): void => {
    const unit = { invocation: 1, controlGroup: '', loadState: 'loaded', subState: 'exited', hasStopCommand };
    fake.units.set(`${name}.service`, { activeState: 'active', ...unit });
    writeFileSync(
      join(directory, 'pods.d', `${name}.yaml`),
      `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/systemd-unit: ${name}.service\nspec: { containers: [{ name: a }] }\n`,
    );
    does.react = (member, first) => {
      const state = fake.units.get(first);
      if (state !== undefined && member === 'StopUnit') state.activeState = 'deactivating';
      if (state !== undefined && member === 'KillUnit') state.activeState = 'failed';
      return member === 'StopUnit' ? { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] } : null;
    };
  };

  it('waits for the stop of a unit that is active without processes, and kills what that runs after the grace period', async () => {
    addIdlePod('drain');
    await openParts(false);
    await until(() => podOf('drain') !== undefined && standalone.running().length === 1);
    const stopped = stop('drain', { graceMs: 30_000 });
    await until(() => fake.asked().includes('StopUnit drain.service'));
    fake.units.set('drain.service', { activeState: 'inactive', invocation: 1, controlGroup: '', loadState: 'loaded' });
    expect(await stopped).toMatchObject({ kind: 'ended', via: 'stop-unit' });
    expect(remembered()).toMatchObject([{ unit: 'drain.service', stage: 'ended', cannot: null }]);
    addIdlePod('drain');
    expect(await stop('drain', { decision: 'again', graceMs: 200 })).toMatchObject({ kind: 'ended', via: 'sigkill' });
  });

  it('is nothing for a unit without processes whose stop does nothing', async () => {
    addIdlePod('once', false);
    await openParts(false);
    await until(() => podOf('once') !== undefined);
    await sleep(clock, 300);
    expect(standalone.running()).toEqual([]);
    expect(await stop('once')).toMatchObject({ kind: 'dropped', because: 'gone' });
  });

  it('is killed at the end of the grace period if it ignores systemd', async () => {
    const cgroup = await addPod('web', 'unit');
    await open('web');
    const beganMs = clock.monoMs();
    expect(await stop('web')).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - beganMs).toBeGreaterThanOrEqual(299);
    expect(cgroup.pids()).toEqual([]);
  });

  it('has all that is left of its phase if no other pod waits for its turn after it', async () => {
    await addPod('web', 'unit');
    await open('web');
    const beganMs = clock.monoMs();
    const endsMs = beganMs + 2_000;
    const turn = { after: [], periodMs: 2_000, endsMs, graceMs: 2_000, beforeMs: 0, restMs: 8_000 };
    expect(await stop('web', { turn })).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - beganMs).toBeGreaterThanOrEqual(1_999);
  });

  it.each([
    ['in the middle of it', 'told'],
    ['after it', 'ended'],
  ] as const)('is not asked twice if the agent died %s', async (_, stage) => {
    const said = join(directory, 'said');
    const counts = `trap 'echo term >> ${said}' TERM; echo up; while :; do sleep 0.02; done`;
    const unit = await addPod('web', 'unit');
    const cgroup = await addPod('batch', 'cgroup', counts);
    await open('web', 'batch');
    await reopen([noted('web', stage), noted('batch', stage, { unit: null, cannot: 'signals' })], 'web', 'batch');
    const stopping = fake.units.get('web.service');
    if (stopping !== undefined) stopping.activeState = 'deactivating';
    const resumed = { resumedFromMs: clock.monoMs(), graceMs: 200 };
    expect(await Promise.all([stop('web', resumed), stop('batch', resumed)])).toMatchObject([
      { kind: 'ended', via: expect.stringMatching(/kill/) },
      { kind: 'ended', via: expect.stringMatching(/kill/) },
    ]);
    expect(fake.asked()).toEqual([]);
    expect(existsSync(said)).toBe(false);
    expect([...unit.pids(), ...cgroup.pids()]).toEqual([]);
  });

  it('has its grace period from when the run asked it that died, which is remembered', async () => {
    await addPod('web', 'unit');
    await addPod('batch', 'cgroup');
    await open('web', 'batch');
    const beganMs = clock.monoMs();
    const turn = turnOfMs(30_000, 60_000);
    void stop('batch', { graceMs: 30_000, turn });
    await until(() => remembered()[0]?.toldMs !== undefined);
    expect(remembered()[0]?.toldMs).toBeGreaterThanOrEqual(beganMs);
    // Their grace periods were over while no agent ran.
    const told = { toldMs: clock.monoMs() - 30_000 };
    const left = [noted('web', 'told', told), ...remembered().map((pod) => ({ ...pod, ...told }))];
    await reopen(left, 'web', 'batch');
    const stopping = fake.units.get('web.service');
    if (stopping !== undefined) stopping.activeState = 'deactivating';
    const resumed = { resumedFromMs: clock.monoMs(), graceMs: 25_000, turn };
    const killed = { kind: 'ended', via: expect.stringMatching(/kill/) };
    expect(await Promise.all([stop('web', resumed), stop('batch', resumed)])).toMatchObject([killed, killed]);
  });

  it('is asked by the next run if the agent died right before it asked', async () => {
    await addPod('web', 'unit');
    await addPod('db', 'unit');
    await open('web', 'db');
    await reopen([noted('web', 'noted')], 'web', 'db');
    const resumed = { resumedFromMs: clock.monoMs() };
    await Promise.all([stop('web', resumed), stop('db', resumed)]);
    expect(fake.asked()).toEqual(['StopUnit web.service', 'StopUnit db.service']);
  });

  it('counts as running if the agent died right after it asked, and is started again', async () => {
    await addPod('web', 'unit');
    await open('web');
    await reopen([noted('web', 'noted')], 'web');
    const unit = fake.units.get('web.service');
    if (unit !== undefined) unit.activeState = 'deactivating';
    await stop('web', { resumedFromMs: clock.monoMs() });
    expect(fake.asked()).toEqual([]);
    fake.byOthers('stop', 'web.service');
    expect(await standalone.undoStops()).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it('is left to a stop that somebody else has begun, and is not started again', async () => {
    await addPod('web', 'unit');
    await open('web');
    const unit = fake.units.get('web.service');
    if (unit !== undefined) unit.activeState = 'deactivating';
    await stop('web');
    fake.byOthers('stop', 'web.service');
    await until(() => unit?.activeState === 'inactive');
    expect(await standalone.undoStops()).toEqual({ started: [], notUndone: [] });
    expect(fake.asked()).toEqual([]);
  });

  it.each([
    ['control-group', 'all'],
    ['mixed', 'main'],
    ['process', 'all'],
    ['none', 'all'],
  ])(
    'gets its own signal while systemd stops the machine, when its jobs wait for us: KillMode=%s',
    async (mode, whom) => {
      const cgroup = await addPod('web', 'unit');
      const killed: unknown[] = [];
      const told: { readonly [property: string]: Variant } = {
        SystemState: new Variant('s', 'stopping'),
        KillMode: new Variant('s', mode),
        KillSignal: new Variant('i', 2),
      };
      does.react = (member, _, body) => {
        const given = member === 'Get' ? told[String(body[1])] : undefined;
        if (given !== undefined) return { signature: 'v', body: [given] };
        if (member !== 'KillUnit') return null;
        killed.push(body);
        for (const pid of cgroup.pids()) process.kill(pid, 'SIGKILL');
        return { signature: '', body: [] };
      };
      await open('web');
      expect(await stop('web', { graceMs: 5_000 })).toMatchObject({ kind: 'ended', via: 'stop-unit' });
      expect(killed).toEqual([['web.service', whom, 2]]);
      expect(fake.asked()).toEqual([]);
    },
  );

  it('gets SIGTERM while systemd stops the machine and cannot signal it', async () => {
    const said = join(directory, 'said');
    await addPod('web', 'unit', `trap 'echo term >> ${said}; exit 0' TERM; echo up; while :; do sleep 0.02; done`);
    does.react = (member, _, body) => {
      if (member === 'KillUnit') return { error: 'org.freedesktop.DBus.Error.AccessDenied' };
      return member === 'Get' && body[1] === 'SystemState'
        ? { signature: 'v', body: [new Variant('s', 'stopping')] }
        : null;
    };
    await open('web');
    expect(await stop('web', { graceMs: 5_000 })).toMatchObject({ kind: 'ended', via: 'sigterm' });
    expect(readFileSync(said, 'utf8')).toBe('term\n');
    expect(fake.asked()).toEqual([]);
  });

  it('is stopped by signals if the bus is gone, with what was last known about it', async () => {
    await addPod('web', 'unit');
    await open('web');
    await fake.daemon.kill();
    expect(await stop('web')).toMatchObject({ kind: 'ended' });
    expect(heard.present.get('stop-unit/web.service')).toContain('its processes were signalled');
    expect(remembered()).toMatchObject([{ unit: 'web.service', activeState: 'active', stage: 'ended' }]);
  });

  it('is a finding while systemd cannot be asked to stop it, until the unit is down', async () => {
    await addPod('web', 'unit');
    await open('web');
    const id = 'stop-unit/web.service';
    does.react = (member) => (member === 'StopUnit' ? { error: 'org.freedesktop.DBus.Error.AccessDenied' } : null);
    await stop('web');
    await until(() => heard.present.has(id));
    fake.endsByItself('web.service');
    await until(() => !heard.present.has(id));
  });

  it('is no finding any more once Restart= has brought it back: what was signalled has ended', async () => {
    await addPod('web', 'unit');
    await open('web');
    const id = 'stop-unit/web.service';
    does.react = (member) => (member === 'StopUnit' ? { error: 'org.freedesktop.systemd1.OnlyByDependency' } : null);
    await stop('web');
    await until(() => heard.present.has(id));
    fake.endsByItself('web.service');
    const unit = fake.units.get('web.service');
    if (unit !== undefined) Object.assign(unit, { activeState: 'active', invocation: 2 });
    await until(() => !heard.present.has(id));
  });

  it('is no finding if it ended before systemd was asked', async () => {
    await addPod('web', 'unit');
    await open('web');
    does.react = (member, unit) => {
      const web = fake.units.get(unit);
      if (member !== 'StopUnit' || web === undefined) return null;
      web.activeState = 'inactive';
      return { error: 'org.freedesktop.systemd1.NoSuchUnit' };
    };
    await stop('web');
    expect([...heard.present.keys()]).toEqual([]);
  });
});
