import { describe, expect, it } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import type { FakeUnit } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { evictUnderPressure, evictWith, fake, heard, held, open, restart, UNIT, whenStopped } from './a-restart.ts';

describe.skipIf(!hasDbusDaemon)('a unit that is evicted and started again by somebody [needs dbus-daemon]', () => {
  const S = 1_000_000n;
  const unit = (more: Partial<FakeUnit>): void => void Object.assign(fake.units.get(UNIT) ?? {}, more);
  const stops = (): number => fake.asked().filter((call) => call === `StopUnit ${UNIT}`).length;
  const startAgain = async (): Promise<void> => {
    await evictUnderPressure();
    fake.byOthers('start', UNIT);
  };
  const isLeftRunning = async (action: string): Promise<void> => {
    await until(() => held().length === 0);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toBe(
      `web.service (default/web) was evicted, but its stop may make systemd take the machine down (${action} of web.service): it is left running`,
    );
    expect(heard.lines).toEqual([
      `restarted: web.service is no longer held: its stop may make systemd take the machine down (${action} of web.service)`,
    ]);
    expect(fake.units.get(UNIT)?.activeState).toBe('active');
    expect(stops()).toBe(1);
  };

  const other: FakeUnit = { activeState: 'active', invocation: 7, controlGroup: '/y', loadState: 'loaded' };
  /** `front.service` needs it, runs, and is held as well. */
  const evictWithFront = async (more: Partial<FakeUnit> = {}): Promise<void> => {
    fake.units.set('front.service', { ...other, ...more });
    unit({ relations: { RequiredBy: ['front.service'] } });
    await evictWith('front.service');
  };

  const areAll = (state: string): boolean =>
    [UNIT, 'front.service'].every((name) => fake.units.get(name)?.activeState === state);
  /** The agent sees both at once, not one that runs beside one that does not yet. */
  const startBoth = async (): Promise<void> => {
    restart.setPaused(true);
    for (const name of [UNIT, 'front.service']) fake.byOthers('start', name);
    await until(() => areAll('active'));
    restart.setPaused(false);
  };

  // The agent sends no SIGKILL then: systemd does, after the time that the unit gives it.
  const within: Partial<FakeUnit> = {
    actions: { JobTimeoutAction: 'reboot' },
    timeouts: { JobTimeoutUSec: 75n * S },
  };
  it.each<[string, Partial<FakeUnit>]>([
    ['TimeoutStopSec=', { ...within, stopUs: 66n * S }],
    [
      'TimeoutStopSec=, which counts for each command of ExecStop=, too',
      { ...within, stopUs: 40n * S, hasStopCommand: true },
    ],
    ['no time at all', { ...within, stopUs: 2n ** 64n - 1n }],
  ])('is left running if that stop may outlast JobTimeoutSec=, and systemd reboot the machine: %s', async (_, more) => {
    unit(more);
    await startAgain();
    await isLeftRunning('JobTimeoutAction=reboot');
  });

  it('is left running if its end makes systemd reboot the machine, as its unit file says by now', async () => {
    unit({ actions: { FailureAction: 'reboot' } });
    await startAgain();
    await isLeftRunning('FailureAction=reboot');
  });

  it('is left running if the end of one that stops with it does, which is held as well and runs', async () => {
    await evictWithFront({ actions: { SuccessAction: 'poweroff' } });
    await startBoth();
    await until(() => held().length === 0);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toContain('front.service');
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('is left running, and what runs with it, if a unit runs that no eviction stopped and that needs one of these', async () => {
    await evictWithFront({ relations: { RequiredBy: ['new.service'] } });
    fake.units.set('new.service', other);
    for (const name of [UNIT, 'front.service']) fake.byOthers('start', name);
    await until(() => held().length === 0);
    // Which of the two is looked at first is chance: once front.service is let go, that is one, too.
    expect(heard.lines.toSorted()).toEqual([
      'restarted: front.service is no longer held: new.service needs it',
      expect.stringMatching(/^restarted: web\.service is no longer held: (front|new)\.service needs it$/),
    ]);
    expect(fake.asked()).toEqual([`StopUnit ${UNIT}`]);
  });

  it('is left running also if such a unit needs it through one that does not run', async () => {
    fake.units.set('idle.target', {
      ...other,
      activeState: 'inactive',
      relations: { PropagatesStopTo: ['db.service'] },
    });
    fake.units.set('db.service', other);
    unit({ relations: { RequiredBy: ['idle.target'] } });
    await startAgain();
    await until(() => held().length === 0);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toContain('db.service needs it: it is left running');
    expect(stops()).toBe(1);
  });

  it('is left running if what systemd starts at its end would stop a running unit, or take the machine down', async () => {
    fake.units.set('db.service', other);
    fake.units.set('mail.service', { ...other, activeState: 'inactive', relations: { Conflicts: ['db.service'] } });
    unit({ relations: { OnSuccess: ['mail.service'] } });
    await startAgain();
    await until(() => held().length === 0);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toContain(
      'what systemd starts at its end would stop db.service: it is left running',
    );
    Object.assign(fake.units.get('mail.service') ?? {}, { relations: {}, actions: { SuccessAction: 'reboot' } });
    await startAgain();
    await until(() => held().length === 0);
    expect(heard.present.get(`kept-starting/${UNIT}`)).toContain('SuccessAction=reboot of mail.service');
    expect(stops()).toBe(2);
  });

  it('is stopped again with one that is held as well, and both are started again once the condition is over', async () => {
    await evictWithFront();
    whenStopped((name) => {
      if (name === UNIT && fake.units.get('front.service')?.activeState === 'active')
        fake.byOthers('stop', 'front.service');
    });
    await startBoth();
    await until(() => areAll('inactive') && held().every(({ asked }) => asked === null));
    restart.setCondition('MemoryPressure', false);
    await until(() => held().length === 0 && areAll('active'));
    expect(heard.lines.filter((line) => line.includes('no longer held'))).toEqual([]);
    expect(heard.lines.filter((line) => line.endsWith('was restarted'))).toHaveLength(2);
  });

  it('is stopped again only once systemd has said of each unit that stops with it whether that runs', async () => {
    fake.units.set('new.service', { ...other, activeState: 'inactive' });
    unit({ relations: { RequiredBy: ['new.service'] } });
    let asked = 0;
    await restart.close();
    open({
      systemd: {
        ...fake.systemd,
        ties: async (name) => {
          asked += 1;
          return asked < 3 ? unknown('timed-out', name, 'no answer') : fake.systemd.ties(name);
        },
      },
    });
    await startAgain();
    await until(() => asked === 2);
    expect(stops()).toBe(1);
    await until(() => stops() === 2);
    expect([...heard.present]).toEqual([]);
  });

  it('is stopped again if that stop is over in time', async () => {
    unit({ ...within, stopUs: 64n * S });
    await startAgain();
    await until(() => stops() === 2);
    expect([...heard.present]).toEqual([]);
  });

  it('is stopped again once systemd has said how long that takes', async () => {
    unit({ ...within, stopUs: 5n * S });
    let asked = 0;
    await restart.close();
    open({
      systemd: {
        ...fake.systemd,
        stopTimeoutMs: async (name) => {
          asked += 1;
          return asked < 3 ? unknown('timed-out', name, 'no answer') : fake.systemd.stopTimeoutMs(name);
        },
      },
    });
    await startAgain();
    await until(() => asked === 2);
    expect(stops()).toBe(1);
    await until(() => stops() === 2);
    expect([...heard.present]).toEqual([]);
  });
});
