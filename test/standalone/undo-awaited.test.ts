import { describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { addUnit, clock, fake, heeded, liveUnit, open, order, request, stateOf, stop } from './an-undo.ts';
import { hurried } from './needs.ts';

describe.skipIf(!hasDbusDaemon)('what an undo of a shutdown waits for, and tries again [needs dbus-daemon]', () => {
  it('starts no unit before systemd reports on those that the start may stop', async () => {
    addUnit('web');
    addUnit('rival', 'inactive');
    const web = fake.units.get('web.service');
    if (web !== undefined) web.relations = { Conflicts: ['rival.service'] };
    let silent = 2;
    const stops = open({
      systemd: {
        ...heeded(),
        ties: async (name) => {
          if (name !== 'rival.service') return heeded().ties(name);
          if (silent-- > 0) return unknown('timed-out', name, 'no answer');
          addUnit('rival');
          return heeded().ties(name);
        },
      },
    });
    await stop(stops, 'web');
    expect(await stops.undo()).toEqual({
      started: [],
      notUndone: ['default/web: rival.service runs, and systemd would stop it to start this unit'],
    });
    expect(silent).toBeLessThan(0);
  });

  it('waits for a unit until its stop has ended, and for a lost stop at most its grace period and 10 s', async () => {
    addUnit('web');
    const fast = hurried(clock, 50);
    const pod = await liveUnit('web');
    const stops = open({ clock: fast });
    await request(stops, pod)?.();
    await until(() => stateOf('web') === 'inactive');
    const beganMs = fast.monoMs();
    expect(await stops.undo()).toEqual({ started: ['web.service'], notUndone: [] });
    // What is left of its second of grace when the undo begins may be nothing.
    expect(fast.monoMs() - beganMs).toBeGreaterThanOrEqual(10_000);
  });

  it('waits for a stop in progress, also beyond the grace period that was noted, and 10 s from its end', async () => {
    addUnit('web');
    const fast = hurried(clock, 20);
    const pod = await liveUnit('web');
    const stops = open({ clock: fast });
    stops.began(order(pod));
    await request(stops, pod)?.();
    await until(() => stateOf('web') === 'inactive');
    const undone = stops.undo();
    await sleep(fast, 45_000);
    expect(fake.asked()).toEqual(['StopUnit web.service']);
    addUnit('web', 'deactivating');
    stops.ended(order(pod), 'ended');
    await sleep(fast, 1_000);
    addUnit('web', 'inactive');
    expect(await undone).toEqual({ started: ['web.service'], notUndone: [] });
  });

  it('names units that have not stopped, cannot be queried, or do not start', async () => {
    const fast = hurried(clock, 50);
    const failing = new Map<string, Reading<never>>();
    const refusing: Systemd = {
      ...fake.systemd,
      unit: async (name) => failing.get(name) ?? fake.systemd.unit(name),
      start: async (name) => (name === 'bad.service' ? unknown('unreadable', name, 'refused') : known(true)),
    };
    const stops = open({ clock: fast, systemd: refusing });
    for (const name of ['slow', 'mute', 'bad']) {
      addUnit(name);
      const pod = await liveUnit(name);
      await request(stops, pod)?.();
      await until(() => stateOf(name) === 'inactive');
      stops.ended(order(pod), 'ended');
    }
    addUnit('slow', 'deactivating');
    failing.set('mute.service', unknown('timed-out', 'mute', 'no answer'));
    const { started, notUndone } = await stops.undo();
    expect(started).toEqual([]);
    expect([...notUndone].sort()).toEqual([
      'default/bad: bad.service could not be started: refused',
      'default/mute: systemd does not report the state of mute.service: no answer; retrying',
      'default/slow: slow.service has not stopped yet; retrying',
    ]);
  });

  it('tries again without end while systemd does not answer, waiting for nothing else, and says so once', async () => {
    addUnit('web');
    const fast = hurried(clock, 50);
    let isSilent = false;
    const systemd: Systemd = {
      ...heeded(),
      unit: async (name) => (isSilent ? unknown('timed-out', name, 'no answer') : heeded().unit(name)),
    };
    const stops = open({ clock: fast, systemd });
    await stop(stops, 'web');
    isSilent = true;
    const { rest, ...soFar } = await stops.undo();
    const why = 'systemd does not report the state of web.service: no answer';
    expect(soFar).toEqual({ started: [], notUndone: [`default/web: ${why}; retrying`] });
    expect(stops.isEmpty()).toBe(false);
    await sleep(fast, 60_000);
    isSilent = false;
    expect(await rest).toEqual({ started: ['web.service'], notUndone: [] });
    expect(stops.isEmpty()).toBe(true);
  });

  it.each([
    ['is sent again', 0],
    ['counts if systemd has carried it out', 1],
  ])('a start without an answer %s', async (_, carriedOut) => {
    addUnit('web');
    let starts = 0;
    const systemd: Systemd = {
      ...heeded(),
      start: async (name) => {
        starts += 1;
        if (starts > 1 || carriedOut > 0) await fake.systemd.start(name);
        if (starts > 1) return known(true);
        await until(() => carriedOut === 0 || stateOf('web') === 'active');
        return unknown('timed-out', name, 'no answer');
      },
    };
    const stops = open({ systemd });
    await stop(stops, 'web');
    expect(await stops.undo()).toEqual({ started: ['web.service'], notUndone: [] });
    expect(starts).toBe(2 - carriedOut);
  });

  it('starts a unit whose file is broken for a moment once it is not', async () => {
    addUnit('web');
    let looks = 0;
    const systemd: Systemd = {
      ...heeded(),
      unit: async (name) => {
        looks += 1;
        addUnit('web', 'inactive', looks < 3 ? 'bad-setting' : 'loaded');
        return heeded().unit(name);
      },
    };
    const stops = open({ systemd });
    await stop(stops, 'web');
    looks = 0;
    expect(await stops.undo()).toEqual({ started: ['web.service'], notUndone: [] });
  });
});
