import { describe, expect, it } from 'vitest';
import { ifKnown, known } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import { releaseHeld } from '../../src/standalone/restart/release-held.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import {
  bootId,
  clock,
  directory,
  evictUnderPressure,
  fake,
  heard,
  held,
  open,
  openUnseen,
  restart,
  UNIT,
} from './a-restart.ts';

/** Minutes of the agent. */
const later = (): Promise<void> => sleep(clock, 300);
const isActive = (): boolean => fake.units.get(UNIT)?.activeState === 'active';
const asked = (what: 'StopUnit' | 'StartUnit'): number =>
  fake.asked().filter((call) => call === `${what} ${UNIT}`).length;
const startedByOthers = async (): Promise<void> => {
  fake.byOthers('start', UNIT);
  await until(isActive);
};
const stoppedByOthers = async (): Promise<void> => {
  fake.byOthers('stop', UNIT);
  await until(() => !isActive());
  // Answered after what it has told of that.
  await fake.systemd.activeState(UNIT);
};

describe.skipIf(!hasDbusDaemon)('a unit that an agent held which has ended since [needs dbus-daemon]', () => {
  const startedWhileAway = async (): Promise<void> => {
    await evictUnderPressure();
    await restart.close();
    await startedByOthers();
  };

  it('is not stopped again for a condition that ended meanwhile, as the first look shows', async () => {
    await startedWhileAway();
    openUnseen({ conditions: ['MemoryPressure'] });
    await later();
    restart.setCondition('MemoryPressure', false);
    restart.looked();
    await until(() => held().length === 0);
    expect(heard.lines).toEqual([`restarted: ${UNIT} is no longer held: something else started it`]);
    expect([asked('StopUnit'), isActive()]).toEqual([1, true]);
  });

  it('is stopped again once a look has kept the condition', async () => {
    await startedWhileAway();
    openUnseen({ conditions: ['MemoryPressure'] });
    restart.looked();
    await until(() => asked('StopUnit') === 2);
  });

  it('is not stopped again for a condition of which only the file of held units speaks', async () => {
    await startedWhileAway();
    open();
    await later();
    expect([asked('StopUnit'), isActive()]).toEqual([1, true]);
    restart.setCondition('MemoryPressure', true);
    await until(() => asked('StopUnit') === 2);
  });

  it('is not started before the first look, however long its start has been due', async () => {
    await evictUnderPressure();
    restart.setCondition('MemoryPressure', false);
    await until(() => typeof held()[0]?.dueMs === 'number');
    await restart.close();
    await later();
    openUnseen();
    await later();
    restart.setCondition('MemoryPressure', true);
    restart.looked();
    await later();
    expect(asked('StartUnit')).toBe(0);
    restart.setCondition('MemoryPressure', false);
    await until(() => asked('StartUnit') === 1);
  });

  /** What systemd calls it while it is down. */
  let whileDown: 'failed' | 'inactive';
  const openSaying = (): void => {
    const unit = async (name: string) =>
      ifKnown(await fake.systemd.unit(name), (facts) =>
        known(facts.activeState === 'inactive' ? { ...facts, activeState: whileDown } : facts),
      );
    open({ systemd: { ...fake.systemd, unit } });
  };
  /** Its stop leaves it failed, as SIGKILL does. */
  const leftFailed = async (): Promise<void> => {
    await restart.close();
    whileDown = 'failed';
    openSaying();
    await evictUnderPressure();
  };

  it.each<[string, typeof whileDown, number]>([
    ['is left down if it is not failed any more: somebody has started and stopped it', 'inactive', 0],
    ['is started if it still is', 'failed', 1],
  ])('that its stop left failed %s', async (_, now, starts) => {
    await leftFailed();
    await restart.close();
    // Systemd unloads it then, and knows no run of it any more.
    whileDown = now;
    openSaying();
    restart.setCondition('MemoryPressure', false);
    await until(() => held().length === 0);
    expect(asked('StartUnit')).toBe(starts);
    const why = 'something else has started and stopped it since, or reset that it had failed (systemctl reset-failed)';
    expect(heard.lines).toEqual([`restarted: ${UNIT} ${starts > 0 ? 'was restarted' : `is no longer held: ${why}`}`]);
  });

  it('is left down by release-held, too, if its stop left it failed and it is not any more', async () => {
    await leftFailed();
    await restart.close();
    expect(await releaseHeld({ clock, systemd: fake.systemd, runtimeDirectory: directory, bootId })).toEqual({
      started: [],
      left: [
        `${UNIT} is not started: something else has started and stopped it since, or reset that it had failed (systemctl reset-failed)`,
      ],
      problems: [],
    });
  });

  it('is started if it was only reset while an agent listened, also by a later one', async () => {
    await leftFailed();
    whileDown = 'inactive';
    await until(() => held()[0]?.isFailed === false);
    await restart.close();
    openSaying();
    restart.setCondition('MemoryPressure', false);
    await until(() => asked('StartUnit') === 1);
  });
});

describe.skipIf(!hasDbusDaemon)('a unit that is held when a dry run begins [needs dbus-daemon]', () => {
  let isTaken: boolean;
  const openDry = (): void => {
    isTaken = false;
    open({ isDryNow: () => true, isTaken: () => isTaken });
  };
  const heldInDryRun = async (): Promise<void> => {
    await evictUnderPressure();
    await restart.close();
    openDry();
    await until(() => heard.present.has('held-in-dry-run'));
  };

  it('stays down, which a finding says, and is started by an agent that acts', async () => {
    await evictUnderPressure();
    restart.setCondition('MemoryPressure', false);
    await until(() => typeof held()[0]?.dueMs === 'number');
    await restart.close();
    openDry();
    await later();
    expect([...heard.present]).toEqual([
      [
        'held-in-dry-run',
        'an eviction had stopped web.service (default/web) before this dry run, which starts nothing: nodewarden release-held does, whatever the pressure',
      ],
    ]);
    expect(asked('StartUnit')).toBe(0);
    await restart.close();
    open();
    await until(() => asked('StartUnit') === 1);
  });

  it.each([
    ['stopped', [stoppedByOthers]],
    ['started and stopped', [startedByOthers, stoppedByOthers]],
  ])('is not held any more if somebody has %s it: no agent starts it afterwards', async (_, steps) => {
    await heldInDryRun();
    for (const step of steps) await step();
    await until(() => held().length === 0 && !heard.present.has('held-in-dry-run'));
    await restart.close();
    open();
    await later();
    expect([asked('StartUnit'), asked('StopUnit')]).toEqual([0, 1]);
  });

  it('is not held any more if somebody has started it: no agent stops it afterwards', async () => {
    await heldInDryRun();
    await startedByOthers();
    await until(() => held().length === 0);
    await restart.close();
    open({ conditions: ['MemoryPressure'] });
    await later();
    expect([asked('StopUnit'), isActive()]).toEqual([1, true]);
  });

  it('is not held any more also if that happens while the dry run is switched on, before its own parts are there', async () => {
    let isDry = false;
    await restart.close();
    open({ isDryNow: () => isDry });
    await evictUnderPressure();
    isDry = true;
    await stoppedByOthers();
    await until(() => held().length === 0);
  });

  it('belongs to the agent that acts beside the dry run, as long as there is one', async () => {
    await heldInDryRun();
    isTaken = true;
    await until(() => !heard.present.has('held-in-dry-run'));
    await stoppedByOthers();
    await later();
    expect(held()).toMatchObject([{ unit: UNIT }]);
    isTaken = false;
    await until(() => heard.present.has('held-in-dry-run'));
    await later();
    expect(held()).toMatchObject([{ unit: UNIT }]);
  });
});
