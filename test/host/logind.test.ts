import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Variant } from 'dbus-next';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { openSystemBus, type SystemBus } from '../../src/host/systemd/bus.ts';
import { createLogind, type Logind } from '../../src/host/systemd/logind.ts';
import { unitPath } from '../../src/host/systemd/unit-name.ts';
import {
  type Answer,
  hasDbusDaemon,
  openPrivateBus,
  openService,
  type PrivateBus,
  type Service,
  until,
} from './private-bus.ts';
import { aTree } from './tree.ts';

const clock = createClock();
const LOGIN1 = 'org.freedesktop.login1';
const PATH = '/org/freedesktop/login1';
const MANAGER = `${LOGIN1}.Manager`;
const SYSTEMD = 'org.freedesktop.systemd1';
const NONE = 2n ** 64n - 1n;

type Values = { readonly [property: string]: readonly [signature: string, value: unknown] };
const VALUES: Values = {
  InhibitDelayMaxUSec: ['t', 5_000_000n],
  PreparingForShutdown: ['b', false],
  ScheduledShutdown: ['(st)', ['', NONE]],
};
const LOCK = ['shutdown:sleep', 'kubelet', 'Kubelet needs time', 'delay', 0, 4711];
const preparing = (is: unknown, signature = 'b') => ({
  path: PATH,
  iface: MANAGER,
  member: 'PrepareForShutdown',
  signature,
  body: [is],
});
const withMetadata = (is: boolean, metadata: object) => ({
  ...preparing(is, 'ba{sv}'),
  member: 'PrepareForShutdownWithMetadata',
  body: [is, metadata],
});
const changed = (values: object, invalidated: readonly string[] = [], iface = MANAGER) => ({
  path: PATH,
  iface: 'org.freedesktop.DBus.Properties',
  member: 'PropertiesChanged',
  signature: 'sa{sv}as',
  body: [iface, values, invalidated],
});

describe.skipIf(!hasDbusDaemon)('logind on a real bus [needs dbus-daemon]', () => {
  let daemon: PrivateBus;
  let bus: SystemBus;
  let logind: Logind;
  /** /run/systemd */
  let run: string;
  let services: Service[] = [];
  beforeEach(async () => {
    services = [];
    daemon = await openPrivateBus();
    bus = openSystemBus(clock, daemon.env);
    await until(() => bus.state() === 'up');
    run = aTree({});
    logind = createLogind(bus, clock, join(run, 'shutdown'));
  });
  afterEach(async () => {
    bus.close();
    for (const service of services) service.close();
    await daemon.remove();
  });

  async function serve(name: string | null, answer: Parameters<typeof openService>[2]): Promise<Service> {
    const service = await openService(daemon.address, name, answer);
    services.push(service);
    return service;
  }
  const aLogind = (values: Values = VALUES, locks: Answer = { signature: 'a(ssssuu)', body: [[LOCK]] }) =>
    serve(LOGIN1, (member, path, body): Answer => {
      if (path === PATH && member === 'ListInhibitors') return locks;
      const [signature, value] = values[String(body[1])] ?? [];
      if (member !== 'Get' || path !== PATH || body[0] !== MANAGER || signature === undefined) {
        return { error: 'org.freedesktop.DBus.Error.UnknownProperty' };
      }
      return { signature: 'v', body: [new Variant(signature, value)] };
    });
  /** All that was sent before is heard, or is not. */
  const heardAll = (): Promise<void> => sleep(clock, 150);

  it('is read without types of the bus, as numbers that JSON can represent', async () => {
    await aLogind({ ...VALUES, ScheduledShutdown: ['(st)', ['reboot', 1_800_000_000_123_456n]] });
    expect(await logind.inhibitDelayMaxMs()).toEqual(known(5_000));
    expect(await logind.preparingForShutdown()).toEqual(known(false));
    expect(await logind.inhibitors()).toEqual(
      known([{ what: 'shutdown:sleep', who: 'kubelet', why: 'Kubelet needs time', mode: 'delay', uid: 0, pid: 4711 }]),
    );
    expect(await logind.scheduledShutdown()).toEqual(known({ type: 'reboot', atWallMs: 1_800_000_000_123.456 }));
  });

  it('is queried each time, because the delay changes without notice', async () => {
    const values = { ...VALUES };
    await aLogind(values);
    expect(await logind.inhibitDelayMaxMs()).toEqual(known(5_000));
    Object.assign(values, { InhibitDelayMaxUSec: ['t', 32_000_000n] });
    expect(await logind.inhibitDelayMaxMs()).toEqual(known(32_000));
  });

  it('reports "without end" and "none"', async () => {
    await aLogind({ ...VALUES, InhibitDelayMaxUSec: ['t', NONE] }, { signature: 'a(ssssuu)', body: [[]] });
    expect(await logind.inhibitDelayMaxMs()).toEqual(known(Number.POSITIVE_INFINITY));
    expect(await logind.scheduledShutdown()).toEqual(known(null));
    expect(await logind.inhibitors()).toEqual(known([]));
  });

  it('is malformed if a value has another type, and never throws', async () => {
    await aLogind(
      {
        InhibitDelayMaxUSec: ['s', 'five seconds'],
        PreparingForShutdown: ['u', 1],
        ScheduledShutdown: ['s', 'poweroff'],
      },
      { signature: 'a(ss)', body: [[['shutdown', 'kubelet']]] },
    );
    for (const reading of [
      await logind.inhibitDelayMaxMs(),
      await logind.preparingForShutdown(),
      await logind.scheduledShutdown(),
      await logind.inhibitors(),
    ]) {
      expect(reading).toMatchObject({ known: false, why: 'malformed' });
    }
  });

  it('is malformed if an answer is empty, or not a variant', async () => {
    await serve(LOGIN1, (member) =>
      member === 'ListInhibitors' ? { signature: '', body: [] } : { signature: 't', body: [5_000_000n] },
    );
    expect(await logind.inhibitors()).toMatchObject({ why: 'malformed' });
    expect(await logind.inhibitDelayMaxMs()).toMatchObject({ why: 'malformed' });
    expect(await logind.scheduledShutdown()).toMatchObject({ why: 'malformed' });
  });

  it('has a deadline for each query', async () => {
    await serve(LOGIN1, () => 'silence');
    await serve(SYSTEMD, () => 'silence');
    const asked = [
      logind.inhibitDelayMaxMs(),
      logind.preparingForShutdown(),
      logind.inhibitors(),
      logind.scheduledShutdown(),
      logind.reload(),
    ];
    for (const reading of await Promise.all<unknown>(asked)) {
      expect(reading).toMatchObject({ known: false, why: 'timed-out' });
    }
    expect(bus.state()).toBe('up');
  });

  it('reports what is wrong if it is missing, or refuses', async () => {
    expect(await logind.inhibitDelayMaxMs()).toMatchObject({
      known: false,
      detail: expect.stringContaining('ServiceUnknown'),
    });
    await serve(LOGIN1, () => ({ error: 'org.freedesktop.DBus.Error.AccessDenied' }));
    expect(await logind.inhibitors()).toMatchObject({ known: false, detail: expect.stringContaining('AccessDenied') });
  });

  describe('asking logind to read its files', () => {
    /** As systemd 252 (`CanReload` false) and 257 do it. */
    const systemd = (canReload: Answer, told: Answer = { signature: '', body: [] }) =>
      serve(SYSTEMD, (member, path, body) => {
        if (member !== 'Get') return told;
        return path === unitPath('systemd-logind.service') && body[1] === 'CanReload'
          ? canReload
          : { error: 'org.freedesktop.DBus.Error.UnknownObject' };
      });
    const can = (is: boolean): Answer => ({ signature: 'v', body: [new Variant('b', is)] });
    const told = ({ calls }: Service) => calls.slice(1).map(({ member, body }) => [member, ...body]);

    it('uses a reload if it has one', async () => {
      const service = await systemd(can(true), { signature: 'o', body: ['/org/freedesktop/systemd1/job/1'] });
      expect(await logind.reload()).toEqual(known(true));
      expect(told(service)).toEqual([['ReloadUnit', 'systemd-logind.service', 'replace']]);
    });

    it.each([
      ['it has none', can(false)],
      ['that is not known', { error: 'org.freedesktop.DBus.Error.UnknownProperty' }],
    ])('sends HUP only to its first process if %s', async (_, canReload) => {
      const service = await systemd(canReload);
      expect(await logind.reload()).toEqual(known(true));
      expect(told(service)).toEqual([['KillUnit', 'systemd-logind.service', 'main', 1]]);
    });

    it('reports why it failed', async () => {
      await systemd(can(false), { error: 'org.freedesktop.systemd1.NoSuchUnit' });
      expect(await logind.reload()).toMatchObject({ known: false, detail: expect.stringContaining('NoSuchUnit') });
    });
  });

  describe('a signal of logind', () => {
    let heard: unknown[] = [];
    beforeEach(async () => {
      heard = [];
      logind.whenPreparing((is) => heard.push(is));
      logind.whenTypeTold((type) => heard.push(type));
      logind.whenInhibitorsChange(() => heard.push('inhibitors'));
      logind.whenScheduleChanges(() => heard.push('schedule'));
      logind.whenRestarted(() => heard.push('restarted'));
      await heardAll();
    });

    it('reports that it goes down, with the type if given, and that this is cancelled', async () => {
      const { signal } = await aLogind();
      await until(() => heard.length === 1);
      signal(withMetadata(true, { type: new Variant('s', 'reboot') }));
      signal(preparing(true));
      signal(withMetadata(false, {}));
      signal(preparing(false));
      signal(withMetadata(true, { type: new Variant('u', 7) }));
      await until(() => heard.length === 5);
      expect(heard).toEqual(['restarted', 'reboot', true, false, '']);
    });

    it('reports a schedule, and its removal, from the file alone', async () => {
      const file = join(run, 'shutdown/scheduled');
      mkdirSync(join(run, 'shutdown'));
      writeFileSync(file, 'USEC=1\n');
      await until(() => heard.length === 1);
      rmSync(file);
      await until(() => heard.length === 2);
      expect(heard).toEqual(['schedule', 'schedule']);
    });

    it('reports changes of locks or of the schedule, in either form', async () => {
      const { signal } = await aLogind();
      await until(() => heard.length === 1);
      signal(changed({ DelayInhibited: new Variant('s', 'shutdown') }));
      signal(changed({}, ['ScheduledShutdown']));
      signal(changed({ BlockInhibited: new Variant('s', '') }));
      signal(changed({ DelayInhibited: new Variant('s', '') }, [], `${LOGIN1}.Seat`));
      signal(preparing(1, 'u'));
      signal(preparing(true));
      await until(() => heard.at(-1) === true);
      expect(heard).toEqual(['restarted', 'inhibitors', 'schedule', true]);
    });

    it('is ignored from any other sender, whatever it sends', async () => {
      const real = await aLogind();
      const stranger = await serve('org.example.login1', () => 'silence');
      await logind.inhibitDelayMaxMs();
      const us = real.calls[0]?.sender;
      for (const to of [undefined, us]) {
        stranger.signal(preparing(true), to);
        stranger.signal(withMetadata(true, { type: new Variant('s', 'reboot') }), to);
        stranger.signal(changed({ DelayInhibited: new Variant('s', '') }), to);
        stranger.signal(
          {
            path: '/org/freedesktop/DBus',
            iface: 'org.freedesktop.DBus',
            member: 'NameOwnerChanged',
            signature: 'sss',
            body: [LOGIN1, '', ':1.1'],
          },
          to,
        );
      }
      await heardAll();
      // That they reach us at all.
      real.signal(preparing(true), us);
      await until(() => heard.length > 1);
      expect(heard).toEqual(['restarted', true]);
    });

    it('is received from the new logind after a restart, which is reported', async () => {
      // Asked before it was there: the package takes the bus for its owner from then on (B11).
      await logind.inhibitDelayMaxMs();
      const first = await aLogind();
      await until(() => heard.length === 1);
      first.close();
      await heardAll();
      expect(heard).toEqual(['restarted']);
      const second = await aLogind();
      await until(() => heard.length === 2);
      second.signal(preparing(true));
      await until(() => heard.length === 3);
      expect(heard).toEqual(['restarted', 'restarted', true]);
    });

    it('reports its end, after which what it had announced is over unless systemd stops everything', async () => {
      const ends: true[] = [];
      logind.whenEnded(() => ends.push(true));
      let state = 'running';
      await serve(SYSTEMD, () => ({ signature: 'v', body: [new Variant('s', state)] }));
      const first = await aLogind();
      await until(() => heard.length === 1);
      expect(await logind.hasDied()).toBe(false);
      first.close();
      await until(() => ends.length === 1);
      expect(await logind.hasDied()).toBe(true);
      state = 'stopping';
      expect(await logind.hasDied()).toBe(false);
      await daemon.kill();
      expect(await logind.hasDied()).toBe(false);
    });

    it('is received after a restart of the bus, without a new subscription', async () => {
      let ups = 0;
      logind.whenUp(() => {
        ups += 1;
      });
      await aLogind();
      const pending = serve(SYSTEMD, () => 'silence').then(() => logind.reload());
      await heardAll();
      await daemon.kill();
      expect(await pending).toMatchObject({ known: false, why: 'absent' });
      expect(logind.isUp()).toBe(false);
      expect(await logind.preparingForShutdown()).toMatchObject({ known: false, why: 'absent' });
      await daemon.start();
      await until(() => logind.isUp());
      expect(ups).toBe(1);
      const { signal } = await aLogind();
      await until(() => heard.length === 2);
      signal(preparing(true));
      await until(() => heard.length === 3);
      expect(await logind.preparingForShutdown()).toEqual(known(false));
    });

    it('is no longer received after unsubscribing', async () => {
      const { signal } = await aLogind();
      const all: unknown[] = [];
      const ends = Array.from({ length: 600 }, () => logind.whenPreparing((is) => all.push(is)));
      for (const end of ends) end();
      await until(() => heard.length === 1);
      signal(preparing(true));
      await until(() => heard.length === 2);
      // More than a connection may have of match rules (B5).
      expect([all, logind.isUp()]).toEqual([[], true]);
    });
  });
});
