import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openSystemBus } from '../../src/host/bus.ts';
import { sleep } from '../../src/host/clock.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd.ts';
import { heldPath } from '../../src/standalone/held-file.ts';
import { stopsPath } from '../../src/standalone/stops-file.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  cgroup,
  clock,
  directory,
  heard,
  IGNORES,
  open,
  podOf,
  standalone,
  stop,
  useSystemd,
  write,
} from './a-standalone.ts';

const needs = needsCgroups !== '' ? needsCgroups : hasDbusDaemon ? '' : '[needs dbus-daemon]';

describe.skipIf(needs !== '')(`standalone pods that are units ${needs}`, () => {
  const UNIT = 'web.service';
  const RUNS = '/run/systemd/units';
  /** `isStuck`: its stop begins and does not end. */
  const openUnit = async (isStuck = false): Promise<FakeSystemd> => {
    const made = await openFakeSystemd((member, unit) => {
      const state = made.units.get(unit);
      if (!isStuck || member !== 'StopUnit' || state === undefined) return null;
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
    await open();
    return made;
  };

  it('are found by systemd, stopped through it, and held down', async () => {
    await cgroup(0).run(IGNORES);
    const { asked } = await openUnit();
    await until(() => podOf('web').cgroup.known);
    expect(clock.wallMs() - (podOf('web').declared.startedAtWallMs ?? 0)).toBeGreaterThan(59_000);
    standalone.marks.setCondition('MemoryPressure', true, '');
    const { first, ...rest } = { first: 'sigkill' as const, graceMs: 60_000 };
    expect(await stop('web', { first, ...rest })).toMatchObject({ kind: 'ended' });
    await sleep(clock, 50);
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  describe('that systemd is about to start again', () => {
    const SLICE = `nodewardentest${process.pid}.slice`;
    const slices = [mounts?.memory, mounts?.pids].map((root) => `${root}/${SLICE}`);
    const removeSlices = (): void => {
      for (const slice of slices) for (const of of [join(slice, UNIT), slice]) rmdirSync(of);
    };
    let isSilent: boolean;
    const openAgain = async (whenAsked = (): void => undefined): Promise<FakeSystemd> => {
      isSilent = false;
      const made = await openFakeSystemd((member) => {
        if (member === 'StopUnit') whenAsked();
        return isSilent ? 'silence' : null;
      });
      useSystemd(made);
      const again = { activeState: 'activating', subState: 'auto-restart', controlGroup: '', slice: SLICE };
      made.units.set(UNIT, { ...again, invocation: 1, loadState: 'loaded' });
      write('web', `systemd-unit: ${UNIT}`);
      await open();
      await until(() => podOf('web').isBetweenRuns === true);
      return made;
    };

    it('are kept down by their eviction', async () => {
      const { asked } = await openAgain();
      expect(await stop('web')).toMatchObject({ kind: 'ended', via: 'stop-unit', detail: /about to start it again/ });
      expect(asked()).toEqual([`StopUnit ${UNIT}`]);
      expect(readFileSync(heldPath(directory), 'utf8')).toContain(UNIT);
    });

    it('are not stopped if they have ended for good meanwhile', async () => {
      const { asked, units } = await openAgain();
      const unit = units.get(UNIT);
      if (unit !== undefined) Object.assign(unit, { activeState: 'failed', subState: 'failed' });
      expect(await stop('web')).toMatchObject({ kind: 'dropped', because: 'gone' });
      expect(asked()).toEqual([]);
    });

    it('may be chosen in their next run if they start and end while they are stopped', async () => {
      const { asked } = await openAgain(() => {
        for (const slice of slices) mkdirSync(join(slice, UNIT), { recursive: true });
      });
      onTestFinished(removeSlices);
      expect(await stop('web')).toMatchObject({ kind: 'ended', via: 'stop-unit' });
      expect(asked()).toEqual([`StopUnit ${UNIT}`]);
      expect(podOf('web').declared.isTerminating).toBe(false);
    });

    it('are neither stopped, held nor chosen again while systemd does not say what they do', async () => {
      const made = await openAgain();
      isSilent = true;
      expect(await stop('web')).toMatchObject({ kind: 'dropped', because: 'unresolved' });
      expect([made.asked(), existsSync(heldPath(directory)), podOf('web').isBetweenRuns]).toEqual([
        [],
        false,
        undefined,
      ]);
    });

    it('are stopped like any other if they start meanwhile', async () => {
      const next = await cgroup(1).run(IGNORES);
      const { asked } = await openAgain(() => {
        for (const slice of slices) {
          mkdirSync(join(slice, UNIT), { recursive: true });
          writeFileSync(join(slice, UNIT, 'cgroup.procs'), String(next.pid));
        }
      });
      onTestFinished(removeSlices);
      expect(await stop('web')).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
      await until(() => !next.isAlive());
      expect(asked()[0]).toBe(`StopUnit ${UNIT}`);
      expect(podOf('web').declared.isTerminating).toBe(false);
    });
  });

  it('are not terminating if systemd started them again before their end was proven', async () => {
    await cgroup(0).run("trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const unit = `nodewarden-test-${process.pid}.service`;
    const made = await openFakeSystemd(() => null);
    useSystemd(made);
    made.units.set(unit, { activeState: 'active', invocation: 1, controlGroup: cgroup(0).path, loadState: 'loaded' });
    write('web', `systemd-unit: ${unit}`);
    await open();
    await until(() => podOf('web').declared.startedAtWallMs !== null);
    // The run that systemd has now.
    mkdirSync(RUNS, { recursive: true });
    symlinkSync('2'.repeat(32), `${RUNS}/invocation:${unit}`);
    onTestFinished(() => rmSync(`${RUNS}/invocation:${unit}`));
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
    await until(() => podOf('web').cgroup.known);
    const startMs = clock.monoMs();
    // The trap shows that nobody sent SIGTERM.
    expect(await stop('web', { graceMs: 400 })).toMatchObject({ kind: 'ended', via: expect.stringMatching(/kill/) });
    expect(clock.monoMs() - startMs).toBeGreaterThanOrEqual(399);
    expect(asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('are stopped by signals if the bus is gone, with a finding', async () => {
    await cgroup(0).run(IGNORES);
    const { daemon } = await openUnit();
    await until(() => podOf('web').cgroup.known);
    await daemon.kill();
    expect(await stop('web')).toMatchObject({ kind: 'ended' });
    expect(heard.present.get(`stop-unit/${UNIT}`)).toContain('Restart= may bring it back');
  });

  it('were ended by the shutdown whose stop an earlier run of the agent had begun', async () => {
    await cgroup(0).run(IGNORES);
    const { asked } = await openUnit(true);
    await until(() => podOf('web').cgroup.known);
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
      await until(() => podOf('web').cgroup.known);
      await standalone.close();
      const before = createSystemd(made.bus);
      let now = before;
      const stopUnit: Systemd['stop'] = (name, deadlineMs) => now.stop(name, deadlineMs);
      const whenUp: Systemd['whenUp'] = (run) => now.whenUp(run);
      const activeState: Systemd['activeState'] = (name) => now.activeState(name);
      await open({ systemd: { ...before, stop: stopUnit, activeState, isUp: () => now.isUp(), whenUp } });
      await until(() => podOf('web').cgroup.known);
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
    await until(() => podOf('web').cgroup.known);
  });
});
