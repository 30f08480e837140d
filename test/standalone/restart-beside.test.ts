import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { clock, evict, fake, heard, held, manifest, open, restart, UNIT, whenStarted } from './a-restart.ts';

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

  it('is released if a unit runs in its place that its start would stop', async () => {
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => fake.units.get(UNIT)?.activeState === 'inactive');
    startRival('ConflictedBy');
    restart.setCondition('MemoryPressure', false);
    await until(() => held().length === 0);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    expect(heard.lines).toEqual([
      'restarted: web.service is no longer held: rival.service runs, and systemd would stop it to start this unit',
    ]);
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
    await until(() => held().length === 0);
    expect(fake.asked()).not.toContain(`StartUnit ${UNIT}`);
    expect(heard.lines.at(-1)).toMatch(/is no longer held: rival.service runs/);
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
