import { beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  areDown,
  clock,
  evict,
  fake,
  heard,
  held,
  hold,
  manifest,
  open,
  restart,
  UNIT,
  whenStarted,
} from './a-restart.ts';

describe.skipIf(!hasDbusDaemon)('a unit that an eviction stopped, beside other units [needs dbus-daemon]', () => {
  /** It cannot run beside the stopped one. */
  const startRival = (relation: 'Conflicts' | 'ConflictedBy'): void => {
    fake.units.set('rival.service', { activeState: 'active', invocation: 5, controlGroup: '/r', loadState: 'loaded' });
    const before = fake.units.get(UNIT);
    if (before !== undefined) fake.units.set(UNIT, { ...before, relations: { [relation]: ['rival.service'] } });
  };

  it('restarts what systemd stopped along with it, but not what was down', async () => {
    const along = ['front.service', 'down.service'];
    fake.units.set('front.service', { activeState: 'active', invocation: 7, controlGroup: '/y', loadState: 'loaded' });
    fake.units.set('down.service', { activeState: 'inactive', invocation: 0, controlGroup: '', loadState: 'loaded' });
    await restart.close();
    open({
      stopsAlong: () => along.map((unit) => ({ unit, manifest: null })),
      currentRun: (unit) =>
        unit === 'down.service' ? unknown('absent', unit, 'no run') : known(unit === UNIT ? '01' : '07'),
    });
    restart.setCondition('MemoryPressure', true);
    await evict();
    fake.byOthers('stop', 'front.service');
    await sleep(clock, 300);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length === 2);
    expect(fake.asked().slice(1).sort()).toEqual(['StartUnit front.service', `StartUnit ${UNIT}`]);
  });

  describe('that systemd was about to start again when it was to stop with another', () => {
    const FRONT = 'front.service';
    const front = () => fake.units.get(FRONT) ?? { activeState: '', invocation: 0 };
    const evictBoth = async (hasJob: boolean): Promise<void> => {
      const again = { activeState: 'activating', subState: 'auto-restart', controlGroup: '', loadState: 'loaded' };
      fake.units.set(FRONT, { ...again, invocation: 7, hasJob });
      await restart.close();
      open({
        stopsAlong: () => [{ unit: FRONT, manifest: null }],
        currentRun: (unit) => (unit === FRONT ? unknown('absent', unit, 'no run') : known('01')),
        isToStart: (unit) => unit === FRONT,
      });
      restart.setCondition('MemoryPressure', true);
      await evict();
      await until(() => held().some(({ unit, asked }) => unit === UNIT && asked === null));
    };

    it('comes back with that, and is not stopped again while its stop waits', async () => {
      await evictBoth(true);
      expect(held().map(({ unit, asked }) => [unit, asked])).toContainEqual([FRONT, 'stop']);
      Object.assign(front(), { activeState: 'inactive', subState: 'dead', hasJob: false });
      await until(() => held().every(({ asked }) => asked === null));
      restart.setCondition('MemoryPressure', false);
      await until(() => heard.notes.length === 2);
      expect(fake.asked().toSorted()).toEqual([`StartUnit ${FRONT}`, `StartUnit ${UNIT}`, `StopUnit ${UNIT}`]);
    });

    it('is let go if it was not stopped', async () => {
      await evictBoth(false);
      expect(held().map(({ unit }) => unit)).toContain(FRONT);
      Object.assign(front(), { activeState: 'active', subState: 'running', invocation: 8 });
      await until(() => held().length === 1);
      expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
      expect(heard.lines).toEqual([
        'restarted: front.service is no longer held: it runs, and is not known to have been stopped',
      ]);
    });
  });

  it('is left running if a unit needs it that was not evicted', async () => {
    const top = { activeState: 'active', invocation: 3, controlGroup: '/z', loadState: 'loaded' };
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    await sleep(clock, 50);
    fake.units.set('top.service', top);
    const before = fake.units.get(UNIT);
    if (before !== undefined) fake.units.set(UNIT, { ...before, relations: { RequiredBy: ['top.service'] } });
    fake.byOthers('start', UNIT);
    await until(() => held().length === 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toBe(
      'web.service (default/web) was evicted, but top.service needs it: it is left running',
    );
  });

  it('restarts the units that ran in it if it is a slice, and reports those that it cannot restart', async () => {
    await restart.close();
    open({ unitsIn: () => [UNIT, 'db.service', 'session-1.scope'] });
    for (const name of [UNIT, 'db.service'])
      fake.units.set(name, { activeState: 'inactive', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
    restart.hold(manifest(), 'shop.slice', null);
    expect(heard.lines).toEqual(['evict: shop.slice: only what created session-1.scope can restart it']);
    await until(() => heard.notes.length === 2);
    expect(fake.asked()).toEqual([`StartUnit ${UNIT}`, 'StartUnit db.service']);
    expect(heard.notes).toMatchObject([{ unit: UNIT }, { unit: 'db.service' }]);
  });

  it('restarts also what systemd stopped along with a slice, by its own manifest if it is a pod', async () => {
    await restart.close();
    const stays = manifest('    nodewarden.dev/after-eviction: stay\n');
    const along = [
      { unit: UNIT, manifest: null },
      { unit: 'part.service', manifest: null },
      { unit: 'front.service', manifest: { ...stays, declared: { ...stays.declared, name: 'front' } } },
    ];
    open({ unitsIn: () => [UNIT], stopsAlong: () => along, currentRun: () => known('01') });
    for (const name of [UNIT, 'part.service', 'front.service'])
      fake.units.set(name, { activeState: 'inactive', invocation: 1, controlGroup: '', loadState: 'loaded' });
    restart.hold(manifest(), 'shop.slice', null);
    expect(held().map(({ unit, pod }) => [unit, pod])).toEqual([
      [UNIT, 'default/web'],
      ['part.service', 'default/web'],
      ['front.service', 'default/front'],
    ]);
    await until(() => held().length === 0);
    expect(fake.asked()).toEqual([`StartUnit ${UNIT}`, 'StartUnit part.service']);
    expect(heard.lines).toContain(
      'restarted: front.service is no longer held: its manifest keeps it stopped after an eviction',
    );
  });

  describe('and needs another one that is to stay down', () => {
    const BASE = 'base.service';
    const WAITS = `web.service could not be restarted: it needs ${BASE}, which is to stay down: its manifest, or who stopped it, says so; retrying`;
    const evictBoth = async (afterBase: 'stay' | 'restart'): Promise<void> => {
      const relations = { Requires: [BASE] };
      fake.units.set(BASE, { activeState: 'active', invocation: 5, controlGroup: '/b', loadState: 'loaded' });
      Object.assign(fake.units.get(UNIT) ?? {}, { relations });
      restart.setCondition('MemoryPressure', true);
      await evict();
      await hold(BASE, { ...manifest(), afterEviction: afterBase });
      await fake.systemd.stop(BASE);
      await areDown(2);
    };
    const starts = (): readonly string[] => fake.asked().filter((asked) => asked.startsWith('StartUnit'));
    const isSaid = (): Promise<void> => until(() => heard.present.get(`restart/${UNIT}`) === WAITS);

    it('is not started, as systemd would start both, and follows once somebody has started that one', async () => {
      await evictBoth('stay');
      restart.setCondition('MemoryPressure', false);
      await isSaid();
      expect(starts()).toEqual([]);
      fake.byOthers('start', BASE);
      await until(() => held().length === 0);
      expect(starts()).toEqual([`StartUnit ${UNIT}`]);
      expect(heard.present.size).toBe(0);
    });

    it('is not started either if somebody has stopped that one while it was held, also by the next agent', async () => {
      await evictBoth('restart');
      fake.byOthers('stop', BASE);
      await until(() => held().length === 1);
      await restart.close();
      open({ conditions: ['MemoryPressure'] });
      restart.setCondition('MemoryPressure', false);
      await isSaid();
      expect(starts()).toEqual([]);
    });

    it('is started with that one if it was started meanwhile, and has ended by itself', async () => {
      await evictBoth('stay');
      restart.setCondition('MemoryPressure', false);
      await isSaid();
      fake.byOthers('start', BASE);
      await until(() => fake.units.get(BASE)?.activeState === 'active');
      Object.assign(fake.units.get(BASE) ?? {}, { activeState: 'inactive' });
      await until(() => starts().includes(`StartUnit ${UNIT}`));
    });
  });

  it('is not started while a unit runs that its start would stop, which is a finding, and starts once that has ended', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    startRival('ConflictedBy');
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.present.has(`restart/${UNIT}`));
    expect(heard.present.get(`restart/${UNIT}`)).toBe(
      'web.service could not be restarted: rival.service runs, and systemd would stop it to start this unit; retrying',
    );
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    fake.endsByItself('rival.service');
    await until(() => heard.notes.length === 1);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
    expect([...heard.present]).toEqual([]);
  });

  it('is not started while somebody has masked it, which is a finding, and starts once it is unmasked', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    Object.assign(fake.units.get(UNIT) ?? {}, { loadState: 'masked' });
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.present.has(`restart/${UNIT}`));
    expect(heard.present.get(`restart/${UNIT}`)).toBe('web.service could not be restarted: it is masked; retrying');
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
    Object.assign(fake.units.get(UNIT) ?? {}, { loadState: 'loaded' });
    await until(() => heard.notes.length === 1);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
  });

  describe('whose start may exceed a start limit that makes systemd reboot the machine', () => {
    const needed = 'needed.service';
    const actions = { StartLimitAction: 'reboot' };
    beforeEach(() => {
      fake.units.set(needed, {
        activeState: 'inactive',
        invocation: 5,
        controlGroup: '',
        loadState: 'loaded',
        actions,
      });
      fake.units.set('up.service', {
        activeState: 'active',
        invocation: 5,
        controlGroup: '/u',
        loadState: 'loaded',
        actions,
      });
      Object.assign(fake.units.get(UNIT) ?? {}, { actions, relations: { Wants: [needed, 'up.service'] } });
    });

    it('comes back once its starts before, and those of what it pulls in, count no more', async () => {
      restart.setCondition('MemoryPressure', true);
      await evict();
      await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
      restart.setCondition('MemoryPressure', false);
      await until(() => heard.notes.length === 1);
      expect(fake.asked()).toEqual([
        `StopUnit ${UNIT}`,
        `ResetFailed ${UNIT}`,
        `ResetFailed ${needed}`,
        `StartUnit ${UNIT}`,
      ]);
    });

    it('stays held with a finding while systemd counts them', async () => {
      let refuses = true;
      const refusal = unknown('unreadable', UNIT, 'access denied');
      await restart.close();
      open({
        systemd: {
          ...fake.systemd,
          resetStarts: async (name) => (refuses ? refusal : fake.systemd.resetStarts(name)),
        },
      });
      restart.setCondition('MemoryPressure', true);
      await evict();
      await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
      restart.setCondition('MemoryPressure', false);
      await until(() => heard.present.has(`restart/${UNIT}`));
      expect(heard.present.get(`restart/${UNIT}`)).toBe(
        'web.service could not be restarted: the start may trigger StartLimitAction=reboot of web.service, and systemd does not reset its count of starts: access denied; retrying',
      );
      expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
      refuses = false;
      await until(() => heard.notes.length === 1);
      expect([...heard.present]).toEqual([]);
    });
  });

  it('is not started before systemd reports on a unit that the start may stop', async () => {
    let isSilent = true;
    const silent = unknown('timed-out', 'rival.service', 'no answer');
    const ties: typeof fake.systemd.ties = async (name) =>
      name === 'rival.service' && isSilent ? silent : fake.systemd.ties(name);
    await restart.close();
    open({ systemd: { ...fake.systemd, ties } });
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    startRival('Conflicts');
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.present.has(`restart/${UNIT}`));
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    isSilent = false;
    await until(() => heard.present.get(`restart/${UNIT}`)?.includes('rival.service runs') === true);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
  });

  it('counts as restarted together with a unit that needs it and was started before it', async () => {
    fake.units.set('front.service', { activeState: 'active', invocation: 7, controlGroup: '/y', loadState: 'loaded' });
    const web = fake.units.get(UNIT);
    if (web !== undefined) fake.units.set(UNIT, { ...web, relations: { BoundBy: ['front.service'] } });
    await restart.close();
    open({
      stopsAlong: () => [{ unit: 'front.service', manifest: null }],
      currentRun: (unit) => known(unit === UNIT ? '01' : '07'),
    });
    restart.setCondition('MemoryPressure', true);
    await evict();
    fake.byOthers('stop', 'front.service');
    const down = fake.units.get(UNIT);
    // It takes longer to stop, so that the other one is started first, and systemd starts along what that needs.
    if (down !== undefined) fake.units.set(UNIT, { ...down, activeState: 'deactivating' });
    whenStarted((unit) => {
      if (unit === 'front.service') fake.byOthers('start', UNIT);
    });
    restart.setCondition('MemoryPressure', false);
    await until(() => held().length === 0);
    expect(heard.lines).toEqual([
      'restarted: front.service was restarted',
      'restarted: web.service was restarted with front.service',
    ]);
  });
});
