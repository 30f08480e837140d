import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { sleep } from '../../src/host/clock.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd/systemd.ts';
import type { Clock } from '../../src/ports.ts';
import { stopsPath } from '../../src/standalone/stop/stops-file.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { orDbusDaemon, until } from '../host/private-bus.ts';
import {
  cgroup,
  clock,
  directory,
  heard,
  IGNORES,
  open,
  order,
  podOf,
  runs,
  standalone,
  stop,
  useSystemd,
  write,
} from './a-standalone.ts';
import { hurried } from './needs.ts';

const needs = orDbusDaemon(needsCgroups);

describe.skipIf(needs !== '')(`standalone pods that are units ${needs}`, () => {
  /** Where systemd records which units run, any agent of this machine looks: no other test may mean the same one. */
  const UNIT = `nodewarden-test-${process.pid}.service`;
  const RUNS = '/run/systemd/units';
  type React = Parameters<typeof openFakeSystemd>[0];
  /** `isStuck`: its stop begins and does not end. */
  const openUnit = async (isStuck = false, react?: React, time: Clock = clock): Promise<FakeSystemd> => {
    const made = await openFakeSystemd((...call) => {
      const [member, unit] = call;
      const state = made.units.get(unit);
      if (!isStuck || member !== 'StopUnit' || state === undefined) return react?.(...call) ?? null;
      state.activeState = 'deactivating';
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
    });
    useSystemd(made);
    const since = Math.floor((clock.wallMs() - 60_000) * 1_000);
    made.units.set(UNIT, {
      activeState: 'active',
      invocation: 1,
      controlGroup: cgroup(0).path,
      loadState: 'loaded',
      since,
    });
    write('web', `systemd-unit: ${UNIT}`);
    await open({ clock: time });
    return made;
  };

  it('are found by systemd, stopped through it, and held down', async () => {
    await cgroup(0).run(IGNORES);
    const { asked } = await openUnit();
    await until(() => runs('web'));
    expect(clock.wallMs() - (podOf('web').declared.startedAtWallMs ?? 0)).toBeGreaterThan(59_000);
    standalone.marks.setCondition('MemoryPressure', true, '');
    const { first, ...rest } = { first: 'sigkill' as const, graceMs: 60_000 };
    expect(await stop('web', { first, ...rest })).toMatchObject({ kind: 'ended' });
    await sleep(clock, 50);
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('were ended by their stop, though it was quicker than the SIGKILL that follows it', async () => {
    const web = await cgroup(0).run('echo up; exec sleep 1000');
    const made = await openFakeSystemd(() => null);
    useSystemd(made);
    made.units.set(UNIT, { activeState: 'active', invocation: 1, controlGroup: cgroup(0).path, loadState: 'loaded' });
    write('web', `systemd-unit: ${UNIT}`);
    const real = createSystemd(made.bus);
    // Between the request and the first signal, nothing else of this process runs.
    let answered: Promise<unknown> = Promise.resolve();
    const stopFirst: Systemd['stop'] = (...asked) => {
      process.kill(web.pid, 'SIGKILL');
      while (cgroup(0).pids().length > 0);
      const answer = real.stop(...asked);
      answered = answer;
      return answer;
    };
    await open({ systemd: { ...real, stop: stopFirst, stopNow: stopFirst } });
    await until(() => runs('web'));
    const signals: string[] = [];
    const chosen = order('web', { first: 'sigkill' });
    const end = await standalone.killer.stop(chosen, createHasten(clock), (sent) => void signals.push(sent));
    expect([end, signals]).toMatchObject([{ kind: 'ended', via: 'stop-unit' }, ['sigterm']]);
    await answered;
  });

  it('are not terminating if systemd started them again before their end was proven', async () => {
    await cgroup(0).run("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const made = await openFakeSystemd(() => null);
    useSystemd(made);
    made.units.set(UNIT, { activeState: 'active', invocation: 1, controlGroup: cgroup(0).path, loadState: 'loaded' });
    write('web', `systemd-unit: ${UNIT}`);
    await open();
    await until(() => podOf('web').declared.startedAtWallMs !== null);
    // The run that systemd has now.
    mkdirSync(RUNS, { recursive: true });
    symlinkSync('2'.repeat(32), `${RUNS}/invocation:${UNIT}`);
    onTestFinished(() => rmSync(`${RUNS}/invocation:${UNIT}`));
    expect(await stop('web', { first: 'sigkill' })).toMatchObject({ kind: 'ended' });
    await cgroup(0).run(IGNORES);
    expect(podOf('web').declared.isTerminating).toBe(false);
  });

  it('began, if they are slices that were stopped, with the first process since', async () => {
    const slice = 'shop.slice';
    // Units that start in it replace its stop by a start.
    const job = { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
    const made = await openFakeSystemd((member) => (member === 'StopUnit' ? job : null));
    useSystemd(made);
    const since = Math.floor((clock.wallMs() - 60_000) * 1_000);
    const controlGroup = cgroup(0).path;
    made.units.set(slice, { activeState: 'active', invocation: 1, controlGroup, loadState: 'loaded', since });
    await cgroup(0).run(IGNORES);
    write('shop', `systemd-unit: ${slice}`);
    await open();
    await until(() => podOf('shop').declared.startedAtWallMs !== null);
    expect(podOf('shop').declared.startedAtWallMs).toBeLessThan(clock.wallMs() - 50_000);
    expect(await stop('shop', { first: 'sigkill' })).toMatchObject({ kind: 'ended' });
    const stoppedWallMs = clock.wallMs();
    await cgroup(0).run(IGNORES);
    await until(() => podOf('shop').declared.startedAtWallMs !== null);
    // The kernel counts starts in hundredths of a second.
    expect(podOf('shop').declared.startedAtWallMs).toBeGreaterThan(stoppedWallMs - 20);
  });

  it('get StopUnit instead of SIGTERM, and SIGKILL after the grace period', async () => {
    await cgroup(0).run("trap 'echo term > /dev/null; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const { asked } = await openUnit(true);
    await until(() => runs('web'));
    const startMs = clock.monoMs();
    // The trap shows that nobody sent SIGTERM.
    expect(await stop('web', { graceMs: 400 })).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - startMs).toBeGreaterThanOrEqual(399);
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('are stopped by signals if systemd refuses to stop them, and what Restart= starts then is the first start that counts', async () => {
    await cgroup(0).run(IGNORES);
    const refused = { error: 'org.freedesktop.systemd1.OnlyByDependency' };
    const { asked } = await openUnit(false, (member) => (member === 'StopUnit' ? refused : null));
    await until(() => runs('web'));
    expect(await stop('web')).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    await until(() => asked().length > 1);
    expect(asked()).toEqual([`StopUnit ${UNIT}`, `ResetFailed ${UNIT}`]);
  });

  it('are stopped by signals if the bus is gone, with a finding', async () => {
    await cgroup(0).run(IGNORES);
    const { daemon } = await openUnit();
    await until(() => runs('web'));
    await daemon.kill();
    expect(await stop('web')).toMatchObject({ kind: 'ended' });
    expect(heard.present.get(`stop-unit/${UNIT}`)).toContain('Restart= may bring it back');
  });

  it('were ended by the shutdown whose stop an earlier run of the agent had begun', async () => {
    await cgroup(0).run(IGNORES);
    const { asked } = await openUnit(true);
    await until(() => runs('web'));
    const decidedMs = clock.monoMs();
    void stop('web', { why: 'shutdown', graceMs: 60_000 });
    // Until its answer is remembered, the next run cannot know that it was asked.
    const stops = stopsPath(directory);
    await until(() => existsSync(stops) && readFileSync(stops, 'utf8').includes('"told"'));
    await standalone.close();
    for (const pid of cgroup(0).pids()) process.kill(pid, 'SIGKILL');
    await until(() => cgroup(0).pids().length === 0);
    await open();
    const isAbsent = (): boolean => {
      const { cgroup: of } = podOf('web');
      return !of.known && of.why === 'absent';
    };
    await until(isAbsent);
    expect(await stop('web', { why: 'shutdown', graceMs: 60_000, resumedFromMs: decidedMs })).toMatchObject({
      kind: 'ended',
      via: 'stop-unit',
    });
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('are known as started again before their end at a shutdown is reported', async () => {
    await cgroup(0).run(IGNORES);
    const since = Math.floor(clock.wallMs() - 1_000) * 1_000;
    // Its job does not end, so that nothing else tells of the new run.
    const made = await openFakeSystemd((member, unit) => {
      if (member !== 'StopUnit') return null;
      Object.assign(made.units.get(unit) ?? {}, { invocation: 2, since });
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/4711'] };
    });
    useSystemd(made);
    const long = since - 60_000_000;
    const controlGroup = cgroup(0).path;
    made.units.set(UNIT, { activeState: 'active', invocation: 1, controlGroup, loadState: 'loaded', since: long });
    write('web', `systemd-unit: ${UNIT}`);
    await open();
    await until(() => podOf('web').declared.startedAtWallMs === long / 1_000);
    expect(await stop('web', { why: 'shutdown' })).toMatchObject({ kind: 'ended' });
    expect(podOf('web').declared.startedAtWallMs).toBe(since / 1_000);
  });

  describe('whose eviction is resumed by a run that is still connecting', () => {
    /** It knows the unit, and reaches systemd over another connection, which is made only now. */
    const openAnew = async () => {
      await cgroup(0).run(IGNORES);
      const made = await openUnit(true);
      await until(() => runs('web'));
      await standalone.close();
      const before = createSystemd(made.bus);
      let now = before;
      const stopUnit: Systemd['stop'] = (name, deadlineMs) => now.stop(name, deadlineMs);
      const whenUp: Systemd['whenUp'] = (run) => now.whenUp(run);
      const activeState: Systemd['activeState'] = (name) => now.activeState(name);
      await open({ systemd: { ...before, stop: stopUnit, activeState, isUp: () => now.isUp(), whenUp } });
      await until(() => runs('web'));
      const connect = (address: string): void => {
        const late = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: address });
        onTestFinished(late.close);
        now = createSystemd(late);
        expect(now.isUp()).toBe(false);
      };
      return { ...made, connect };
    };

    it.each(['sigterm', 'sigkill'] as const)('are still stopped through systemd: %s', async (first) => {
      const { connect, daemon, asked } = await openAnew();
      connect(daemon.address);
      const resumed = { first, resumedFromMs: clock.monoMs(), sentBefore: first };
      expect(await stop('web', resumed)).toMatchObject({ kind: 'ended' });
      await until(() => asked().length > 0);
      expect(heard.present.get(`stop-unit/${UNIT}`)).toBeUndefined();
    });

    it.each([
      ['deactivating', {}, { kind: 'ended' }],
      ['active', { hasJob: true }, { kind: 'ended' }],
      ['active', {}, { kind: 'dropped', because: 'not-killed' }],
    ])(
      'end in any case if systemd stops them already, though they need not any more: %s %j',
      async (state, more, end) => {
        const { connect, daemon, units } = await openAnew();
        connect(daemon.address);
        const unit = units.get(UNIT);
        if (unit !== undefined) Object.assign(unit, { activeState: state }, more);
        const resumed = { first: 'sigkill', resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' } as const;
        expect(await stop('web', { ...resumed, isOver: async () => true })).toMatchObject(end);
      },
    );

    it('are no longer a finding once systemd reports that it had been asked', async () => {
      const { connect, daemon, units } = await openAnew();
      connect(`unix:path=${directory}/later`);
      const unit = units.get(UNIT);
      if (unit !== undefined) unit.activeState = 'deactivating';
      const resumed = { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm' } as const;
      expect(await stop('web', resumed)).toMatchObject({ kind: 'ended' });
      expect(heard.present.get(`stop-unit/${UNIT}`)).toContain('could not be asked to stop');
      symlinkSync(daemon.address.slice('unix:path='.length), `${directory}/later`);
      await until(() => !heard.present.has(`stop-unit/${UNIT}`));
    });
  });

  it('are refused if they contain what must not be stopped, wherever that was moved', async () => {
    const made = await openFakeSystemd();
    useSystemd(made);
    const guarded = {
      activeState: 'active',
      invocation: 1,
      loadState: 'loaded',
      controlGroup: `${cgroup(0).path}/moved`,
    };
    made.units.set('dbus.service', guarded);
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    await until(() => heard.present.get('binding/default/web')?.includes('contains dbus.service') === true);
  });

  it.each(['loaded', 'masked', 'not-found'])(
    'that run without a cgroup are a finding if they are %s, and stopped only by a shutdown',
    async (loadState) => {
      const made = await openUnit();
      made.units.set(UNIT, { activeState: 'active', invocation: 2, controlGroup: '/nodewarden-none', loadState });
      made.begin(UNIT);
      await until(() => heard.present.has('binding/default/web'));
      expect(heard.present.get('binding/default/web')).toContain('runs, but systemd gives it no cgroup');
      expect(podOf('web')).toMatchObject({ cgroup: { known: false }, isIdle: true, isUnseen: true });
      expect(standalone.running().map(({ name }) => name)).toEqual(['web']);
      expect(await stop('web')).toMatchObject({ kind: 'dropped' });
      expect(made.asked()).toEqual([]);
      expect(await stop('web', { why: 'shutdown' })).toMatchObject({ kind: 'ended', via: 'stop-unit' });
      expect(made.asked()).toEqual([`StopUnit ${UNIT}`]);
      await until(() => podOf('web').isIdle === undefined && standalone.running().length === 0);
    },
  );

  it('are unknown without a finding while they do not run, and known when they start', async () => {
    const made = await openUnit();
    made.byOthers('stop', UNIT);
    await until(() => !podOf('web').cgroup.known);
    expect([...heard.present.keys()]).toEqual([]);
    made.byOthers('start', UNIT);
    await until(() => runs('web'));
  });

  it('are let go without a finding once their manifest is gone, if somebody has masked them after their eviction', async () => {
    await cgroup(0).run(IGNORES);
    const made = await openUnit(false, undefined, hurried(clock, 20));
    await until(() => runs('web'));
    await stop('web', { first: 'sigkill' });
    Object.assign(made.units.get(UNIT) ?? {}, { loadState: 'masked' });
    await until(() => heard.present.has(`restart/${UNIT}`));
    rmSync(join(directory, 'pods.d', 'web.yaml'));
    const gone = `${UNIT} is no longer held: it is masked, and its manifest is gone`;
    await until(() => heard.lines.includes(`restarted: ${gone}`));
    expect(heard.present.has(`restart/${UNIT}`)).toBe(false);
    expect(made.asked()).toEqual([`StopUnit ${UNIT}`]);
  });
});
