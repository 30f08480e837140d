import { beforeEach, describe, expect, it } from 'vitest';
import { type Unknown, unknown } from '../../src/core/reading.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { evictUnderPressure, evictWith, fake, heard, held, hold, open, restart, UNIT } from './a-restart.ts';

const TARGET = 'shop.target';
const up = { activeState: 'active', invocation: 5, controlGroup: '', loadState: 'loaded' };

describe.skipIf(!hasDbusDaemon)('a held unit and a stop of what systemd stops it with [needs dbus-daemon]', () => {
  /** What the unit in `relations` of the target is stopped with, as systemd lists it at both ends. */
  const tie = (lower: string, upper: string, [below, above]: readonly [string, string]): void => {
    for (const [name, list, other] of [
      [lower, below, upper],
      [upper, above, lower],
    ] as const) {
      const unit = fake.units.get(name);
      if (unit === undefined) throw new Error(`no unit ${name}`);
      unit.relations = { ...unit.relations, [list]: [...(unit.relations?.[list] ?? []), other] };
    }
  };
  const PART_OF = ['PartOf', 'ConsistsOf'] as const;
  const changed = async (what: 'start' | 'stop', unit: string): Promise<void> => {
    fake.byOthers(what, unit);
    await until(() => fake.units.get(unit)?.activeState === (what === 'stop' ? 'inactive' : 'active'));
    // Answered after what it has told of that.
    await fake.systemd.activeState(unit);
  };

  /** From now on, systemd has no answer about this unit. */
  const unsaid = async (unit: string, why: Unknown): Promise<void> => {
    fake.units.set(unit, { ...up, activeState: 'inactive' });
    await restart.close();
    open({ systemd: { ...fake.systemd, ties: async (name) => (name === unit ? why : fake.systemd.ties(name)) } });
  };
  /** These units were stopped by a shutdown that is cancelled, until they are taken out of the result. */
  const openUndoing = async (units: readonly string[]) => {
    for (const unit of units) if (unit !== TARGET) fake.units.set(unit, { ...up, invocation: 7 });
    tie(UNIT, TARGET, PART_OF);
    await restart.close();
    const stopped = new Set(units);
    open({ ofShutdown: () => new Set(stopped) });
    return stopped;
  };
  const REFUSED = unknown('unreadable', 'strange.service', 'org.freedesktop.systemd1.LoadFailed: refused');
  const SILENT = unknown('timed-out', 'strange.service', 'no answer within 2 s');

  beforeEach(() => {
    fake.units.set(TARGET, { ...up });
  });

  it.each([
    ['PartOf=', PART_OF],
    ['Requires=', ['Requires', 'RequiredBy']],
    ['BindsTo=', ['BindsTo', 'BoundBy']],
  ] as const)('%s: stays down, which the log says', async (_, relation) => {
    tie(UNIT, TARGET, relation);
    await evictUnderPressure();
    await changed('stop', TARGET);
    await until(() => held().length === 0);
    expect(heard.lines).toEqual([
      `restarted: ${UNIT} is no longer held: something else has stopped ${TARGET} since, and it stops with that`,
    ]);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('stays down also if systemd would have stopped it through another unit', async () => {
    fake.units.set('front.service', { ...up, activeState: 'inactive' });
    tie('front.service', TARGET, PART_OF);
    tie(UNIT, 'front.service', ['Requires', 'RequiredBy']);
    await evictUnderPressure();
    await changed('stop', TARGET);
    await until(() => held().length === 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('stays down also if systemd refuses to speak of another unit that it stops with that', async () => {
    await unsaid('strange.service', REFUSED);
    tie('strange.service', TARGET, PART_OF);
    tie(UNIT, TARGET, PART_OF);
    await evictUnderPressure();
    await changed('stop', TARGET);
    await until(() => held().length === 0);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  describe('comes back', () => {
    const comesBack = async (): Promise<void> => {
      restart.setCondition('MemoryPressure', false);
      await until(() => held().length === 0);
      expect(fake.asked()).toContain(`StartUnit ${UNIT}`);
    };

    it('after a stop of a unit that it does not stop with', async () => {
      fake.units.set('other.target', { ...up });
      tie(UNIT, TARGET, PART_OF);
      await evictUnderPressure();
      await changed('stop', 'other.target');
      await comesBack();
    });

    it.each([
      ['refuses to speak of', REFUSED],
      ['does not answer about', SILENT],
    ])('after a stop of another unit with which one stops that systemd %s', async (_, why) => {
      await unsaid('strange.service', why);
      fake.units.set('other.target', { ...up });
      tie('strange.service', 'other.target', PART_OF);
      await evictUnderPressure();
      await changed('stop', 'other.target');
      await comesBack();
    });

    it('if the other one was started again at once', async () => {
      tie(UNIT, TARGET, PART_OF);
      await restart.close();
      const ties: typeof fake.systemd.ties = async (name) => {
        if (name === TARGET) await until(() => fake.units.get(TARGET)?.activeState === 'active');
        return fake.systemd.ties(name);
      };
      open({ systemd: { ...fake.systemd, ties } });
      await evictUnderPressure();
      await changed('stop', TARGET);
      await changed('start', TARGET);
      await comesBack();
    });

    it('after a start that ended with the other one down, as that of a oneshot', async () => {
      fake.units.set('migrate.service', { ...up, activeState: 'inactive' });
      tie(UNIT, 'migrate.service', ['Requires', 'RequiredBy']);
      await evictUnderPressure();
      await changed('stop', 'migrate.service');
      await comesBack();
    });

    it('if the other one stops once nobody needs it (StopWhenUnneeded=)', async () => {
      fake.units.set(TARGET, { ...up, stopsUnneeded: true });
      tie(UNIT, TARGET, PART_OF);
      await evictUnderPressure();
      await changed('stop', TARGET);
      await comesBack();
    });

    it('if the other one stops with a unit that an eviction stopped, too', async () => {
      fake.units.set('db.service', { ...up, invocation: 7 });
      tie(UNIT, TARGET, PART_OF);
      tie(TARGET, 'db.service', ['BindsTo', 'BoundBy']);
      await evictWith('db.service');
      await changed('stop', TARGET);
      await comesBack();
    });

    it('if the other one stopped while the agent stopped what it holds', async () => {
      tie(UNIT, TARGET, PART_OF);
      restart.setCondition('MemoryPressure', true);
      await hold();
      await changed('stop', TARGET);
      await fake.systemd.stop(UNIT);
      await until(() => held().every(({ asked }) => asked === null));
      await comesBack();
    });

    it('if the other one stopped while the machine was going down', async () => {
      tie(UNIT, TARGET, PART_OF);
      await evictUnderPressure();
      restart.setPaused(true);
      await changed('stop', TARGET);
      restart.setPaused(false);
      await comesBack();
    });

    it('if the stop of the other one began then, and ended after that was cancelled', async () => {
      tie(UNIT, TARGET, PART_OF);
      await evictUnderPressure();
      restart.setPaused(true);
      const end = fake.stopsSlowly(TARGET);
      await fake.systemd.activeState(TARGET);
      restart.setPaused(false);
      end();
      await fake.systemd.activeState(TARGET);
      await comesBack();
    });

    it('if the other one stops with a unit that a cancelled shutdown has stopped, also after the cancel', async () => {
      const stopped = await openUndoing(['db.service']);
      tie(TARGET, 'db.service', ['BindsTo', 'BoundBy']);
      await evictUnderPressure();
      await changed('stop', TARGET);
      stopped.clear();
      await comesBack();
    });

    it('if the other one is what it has stopped', async () => {
      await openUndoing([TARGET]);
      await evictUnderPressure();
      await changed('stop', TARGET);
      await comesBack();
    });

    it('if the stop of the other one was queued before the shutdown was announced, and ended after the cancel', async () => {
      tie(UNIT, TARGET, PART_OF);
      await evictUnderPressure();
      const end = fake.stopsSlowly(TARGET);
      await fake.systemd.activeState(TARGET);
      restart.setPaused(true);
      restart.setPaused(false);
      end();
      await fake.systemd.activeState(TARGET);
      await comesBack();
    });
  });

  it('stays down if somebody has stopped the other one while a cancelled shutdown was being undone', async () => {
    await openUndoing(['db.service']);
    await evictUnderPressure();
    await changed('stop', TARGET);
    await until(() => held().length === 0);
    expect(heard.lines).toEqual([expect.stringContaining(`something else has stopped ${TARGET} since`)]);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });
});
