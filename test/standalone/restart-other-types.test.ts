import { beforeEach, describe, expect, it } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import { releaseHeld } from '../../src/standalone/restart/release-held.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  bootId,
  clock,
  directory,
  evict,
  fake,
  heard,
  held,
  hold,
  manifest,
  open,
  restart,
  UNIT,
  whenStopped,
} from './a-restart.ts';

describe.skipIf(!hasDbusDaemon)('a unit other than a service that an eviction stops along [needs dbus-daemon]', () => {
  let along: string[];
  beforeEach(async () => {
    along = [];
    await restart.close();
    open({
      stopsAlong: () => along.map((unit) => ({ unit, manifest: null })),
      // systemd records no run of those.
      currentRun: (unit) => unknown('absent', unit, 'no run'),
    });
  });
  const add = (unit: string, relations = {}, activeState = 'active'): void => {
    fake.units.set(unit, { activeState, invocation: 7, controlGroup: '', loadState: 'loaded', relations });
  };
  const starts = (): readonly string[] => fake.asked().filter((asked) => asked.startsWith('StartUnit'));
  /** It and `units` are down under MemoryPressure. */
  const evictWith = async (...units: readonly string[]): Promise<void> => {
    along = [...units];
    whenStopped(() => {
      for (const unit of units) Object.assign(fake.units.get(unit) ?? {}, { activeState: 'inactive' });
    });
    restart.setCondition('MemoryPressure', true);
    await evict();
    await until(() => held().length > units.length && held().every(({ asked }) => asked === null));
  };

  it.each(['timer', 'path', 'mount', 'automount', 'swap', 'target'])(
    'is started once the pressure is over if it is a %s',
    async (type) => {
      add(`batch.${type}`);
      await evictWith(`batch.${type}`);
      expect(starts()).toEqual([]);
      restart.setCondition('MemoryPressure', false);
      await until(() => heard.notes.length === 2);
      expect(starts().toSorted()).toEqual([`StartUnit batch.${type}`, `StartUnit ${UNIT}`]);
      expect(heard.notes).toContainEqual(expect.objectContaining({ kind: 'restarted', unit: `batch.${type}` }));
    },
  );

  const openWithSocket = async (): Promise<void> => {
    add('web.socket', { Triggers: [UNIT] });
    await evictWith('web.socket');
  };

  it('is started before its service if it is a socket, which systemd starts no more then', async () => {
    await openWithSocket();
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length === 2);
    expect(starts()).toEqual(['StartUnit web.socket', `StartUnit ${UNIT}`]);
  });

  it('is started before its service also by release-held', async () => {
    await openWithSocket();
    await restart.close();
    const { systemd } = fake;
    expect(await releaseHeld({ clock, systemd, runtimeDirectory: directory, bootId })).toMatchObject({ problems: [] });
    expect(starts()).toEqual(['StartUnit web.socket', `StartUnit ${UNIT}`]);
  });

  it('is started before another held unit that starts its service, if it is a socket', async () => {
    add('web.timer', { Requires: [UNIT] });
    add('web.socket', { Triggers: [UNIT] });
    await evictWith('web.timer', 'web.socket');
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length === 3);
    expect(starts()[0]).toBe('StartUnit web.socket');
    expect(heard.present.size).toBe(0);
  });

  it('does not keep its service down if it is a socket that cannot be started', async () => {
    await openWithSocket();
    Object.assign(fake.units.get('web.socket') ?? {}, { loadState: 'masked' });
    restart.setCondition('MemoryPressure', false);
    await until(() => heard.notes.length === 1);
    expect(starts()).toEqual([`StartUnit ${UNIT}`]);
    await until(() => heard.present.has('restart/web.socket'));
  });

  it('is not started, which is a finding, if it is a socket whose service somebody has started before it', async () => {
    await openWithSocket();
    restart.setCondition('MemoryPressure', false);
    fake.byOthers('start', UNIT);
    await until(() => heard.present.has('restart/web.socket'));
    expect(heard.present.get('restart/web.socket')).toBe(
      'web.socket could not be restarted: web.service runs, and systemd starts its socket only before that; retrying',
    );
  });

  it.each(['scope', 'slice', 'device'])('is not held if it is a %s', async (type) => {
    add(`other.${type}`);
    along = [`other.${type}`];
    await hold();
    expect(held().map(({ unit }) => unit)).toEqual([UNIT]);
  });

  it('stays held while its stop waits for that of the service, however long that takes', async () => {
    add('batch.timer');
    Object.assign(fake.units.get('batch.timer') ?? {}, { hasJob: 'stop' });
    along = ['batch.timer'];
    let looks = 0;
    const { unit } = fake.systemd;
    await restart.close();
    open({
      stopsAlong: () => along.map((name) => ({ unit: name, manifest: null })),
      currentRun: (name) => unknown('absent', name, 'no run'),
      systemd: {
        ...fake.systemd,
        unit: (name) => {
          if (name === 'batch.timer') looks += 1;
          return unit(name);
        },
      },
    });
    // No condition: its back-off of 10 s is over after ten looks.
    const end = fake.stopsSlowly(UNIT);
    await fake.systemd.activeState(UNIT);
    Object.assign(fake.units.get(UNIT) ?? {}, { activeState: 'active' });
    await hold();
    Object.assign(fake.units.get(UNIT) ?? {}, { activeState: 'deactivating' });
    await until(() => looks > 25);
    expect(held().map((other) => other.unit)).toContain('batch.timer');
    end();
    fake.byOthers('stop', 'batch.timer');
    Object.assign(fake.units.get('batch.timer') ?? {}, { hasJob: false });
    await until(() => heard.notes.some((note) => 'unit' in note && note.unit === 'batch.timer'));
  });

  it('is not started while another condition holds down the service that it may start', async () => {
    add('other.service');
    restart.setCondition('DiskPressure', true);
    await hold('other.service', { ...manifest(), afterEviction: 'restart' });
    await fake.systemd.stop('other.service');
    await until(() => held().length === 1 && held().every(({ asked }) => asked === null));
    restart.setCondition('DiskPressure', false);
    add('other.socket', { Triggers: ['other.service'] });
    await evictWith('other.socket', 'other.service');
    expect(starts()).toEqual([]);
  });

  describe('and is a target', () => {
    it('is not started if systemd would start with it what was not stopped, which is a finding', async () => {
      add('app.target', { Requires: [UNIT], Wants: ['off.service', 'away.service'] });
      add('off.service', {}, 'inactive');
      await evictWith('app.target');
      restart.setCondition('MemoryPressure', false);
      await until(() => heard.present.has('restart/app.target'));
      expect(heard.present.get('restart/app.target')).toBe(
        'app.target could not be restarted: systemd would also start off.service, which was not stopped with it; retrying',
      );
      expect(starts()).not.toContain('StartUnit app.target');
      Object.assign(fake.units.get('off.service') ?? {}, { activeState: 'active' });
      await until(() => held().length === 0);
      expect(starts()).toContain('StartUnit app.target');
      expect(heard.present.has('restart/app.target')).toBe(false);
    });

    it('is started once what it starts is what was stopped with it', async () => {
      add('app.target', { Requires: [UNIT], Wants: ['helper.timer'] });
      add('helper.timer');
      await evictWith('app.target', 'helper.timer');
      restart.setCondition('MemoryPressure', false);
      await until(() => held().length === 0);
      expect(starts().toSorted()).toEqual(['StartUnit app.target', 'StartUnit helper.timer', `StartUnit ${UNIT}`]);
    });
  });

  it('is left running, and not held any more afterwards, if somebody starts it while it is held down', async () => {
    add('batch.timer');
    await evictWith('batch.timer');
    fake.byOthers('start', 'batch.timer');
    await until(() => fake.units.get('batch.timer')?.activeState === 'active');
    restart.setCondition('MemoryPressure', false);
    await until(() => held().length === 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`, `StartUnit ${UNIT}`]);
    expect(heard.lines).toContain('restarted: batch.timer is no longer held: something else started it');
  });
});
