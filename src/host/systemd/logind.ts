import { known, type Reading, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { watchPath } from '../watch-path.ts';
import { busProperty, PROPERTIES, type SystemBus } from './bus.ts';
import { type BusValue, isVariant } from './bus-value.ts';
import { unitPath } from './unit-name.ts';

/** A lock of any program, as logind lists it. */
export type InhibitorLock = {
  /** Colon-separated: `shutdown:sleep`. */
  readonly what: string;
  readonly who: string;
  readonly why: string;
  readonly mode: string;
  readonly uid: number;
  readonly pid: number;
};
export type ScheduledShutdown = { readonly type: string; readonly atWallMs: number };
/** org.freedesktop.login1.Manager, as far as this program uses it. Every call has a deadline; none throws. */
export type Logind = {
  /** Infinity: no limit. It changes when logind reloads its files, without notice. */
  readonly inhibitDelayMaxMs: () => Promise<Reading<number>>;
  /** True from the signal until the machine is down, or the shutdown is cancelled. */
  readonly preparingForShutdown: () => Promise<Reading<boolean>>;
  /** No process has its name, and systemd carries out no shutdown: what it had announced is over. False also if not known. */
  readonly hasDied: () => Promise<boolean>;
  readonly inhibitors: () => Promise<Reading<readonly InhibitorLock[]>>;
  /** Null: none. While a shutdown is in progress, its time may be in the past. */
  readonly scheduledShutdown: () => Promise<Reading<ScheduledShutdown | null>>;
  /** logind reads its configuration files again; resolves before it has done so. */
  readonly reload: () => Promise<Reading<true>>;
  /** Like all signals here, only from logind itself: a signal of this name from another sender is ignored. */
  readonly whenPreparing: (heard: (isPreparing: boolean) => void) => () => void;
  /** 255 and later, right before `whenPreparing`: `poweroff`, `reboot`, `halt`, `soft-reboot`; '' if it is not given. */
  readonly whenTypeTold: (heard: (type: string) => void) => () => void;
  /** A delay lock was taken or released. */
  readonly whenInhibitorsChange: (heard: () => void) => () => void;
  /** systemd 252 sends no signal for this, so the file in which it keeps the schedule is watched. */
  readonly whenScheduleChanges: (heard: () => void) => () => void;
  /** It has no process any more. */
  readonly whenEnded: (heard: () => void) => () => void;
  /** logind was restarted: another process has its name now. */
  readonly whenRestarted: (heard: () => void) => () => void;
  /** The bus is up, and the signals above are heard. */
  readonly whenUp: (run: () => void) => () => void;
  readonly isUp: () => boolean;
};

const NAME = 'org.freedesktop.login1';
const PATH = '/org/freedesktop/login1';
const MANAGER = { destination: NAME, path: PATH, interface: `${NAME}.Manager` };
const UNIT = 'systemd-logind.service';
const SYSTEMD = 'org.freedesktop.systemd1';
const SYSTEMD_MANAGER = {
  destination: SYSTEMD,
  path: '/org/freedesktop/systemd1',
  interface: `${SYSTEMD}.Manager`,
};
const DBUS = 'org.freedesktop.DBus';
const BUS = { destination: DBUS, path: '/org/freedesktop/DBus', interface: DBUS };
const SIGHUP = 1;
/** Contains the file `scheduled` while a shutdown is scheduled (kubelet-shutdown.md 3.6). */
const SCHEDULE_DIRECTORY = '/run/systemd/shutdown';
/** systemd may itself be busy with a reload. */
const RELOAD_MS = 5_000;

export function createLogind(bus: SystemBus, clock: Clock, scheduleDirectory = SCHEDULE_DIRECTORY): Logind {
  const property = (name: string): Promise<Reading<BusValue>> => busProperty(bus, MANAGER, name);

  async function reload(): Promise<Reading<true>> {
    // 252 has no reload job, 257 has one (Type=notify-reload).
    const body = (await canReload()) ? [UNIT, 'replace'] : [UNIT, 'main', SIGHUP];
    const done = await bus.call(
      body.length === 2
        ? { ...SYSTEMD_MANAGER, member: 'ReloadUnit', signature: 'ss', body, deadlineMs: RELOAD_MS }
        : { ...SYSTEMD_MANAGER, member: 'KillUnit', signature: 'ssi', body, deadlineMs: RELOAD_MS },
    );
    return done.known ? known(true) : done;
  }

  async function canReload(): Promise<boolean> {
    const unit = { destination: SYSTEMD, path: unitPath(UNIT), interface: `${SYSTEMD}.Unit` };
    const answer = await busProperty(bus, unit, 'CanReload');
    return answer.known && answer.value === true;
  }

  const onManager = (member: string, heard: (body: readonly BusValue[]) => void): (() => void) =>
    bus.subscribe({ sender: NAME, interface: MANAGER.interface, path: PATH, member }, heard);
  const onProperty = (name: string, heard: () => void): (() => void) =>
    bus.subscribe(
      { sender: NAME, interface: PROPERTIES, path: PATH, member: 'PropertiesChanged', arg0: MANAGER.interface },
      ([, changed, invalidated]) => {
        if (isNamed(name, changed) || isNamed(name, invalidated)) heard();
      },
    );

  const onOwner = (heard: (owner: BusValue | undefined) => void): (() => void) =>
    bus.subscribe({ sender: DBUS, interface: DBUS, member: 'NameOwnerChanged', arg0: NAME }, ([, , owner]) =>
      heard(owner),
    );

  return {
    inhibitDelayMaxMs: async () => readDelay(await property('InhibitDelayMaxUSec')),
    preparingForShutdown: async () => {
      const value = await property('PreparingForShutdown');
      if (!value.known) return value;
      return typeof value.value === 'boolean'
        ? known(value.value)
        : unknown('malformed', 'PreparingForShutdown', 'not a boolean');
    },
    hasDied: async () => {
      const owned = await bus.call({ ...BUS, member: 'NameHasOwner', signature: 's', body: [NAME] });
      if (!owned.known || owned.value[0] !== false) return false;
      // Asked after that: what logind had asked of systemd, it had asked before it ended.
      const state = await busProperty(bus, SYSTEMD_MANAGER, 'SystemState');
      return state.known && state.value !== 'stopping';
    },
    inhibitors: async () => readInhibitors(await bus.call({ ...MANAGER, member: 'ListInhibitors' })),
    scheduledShutdown: async () => readSchedule(await property('ScheduledShutdown')),
    reload,
    whenPreparing: (heard) => onManager('PrepareForShutdown', ([is]) => typeof is === 'boolean' && heard(is)),
    whenTypeTold: (heard) =>
      onManager('PrepareForShutdownWithMetadata', ([is, metadata]) => is === true && heard(typeIn(metadata))),
    whenInhibitorsChange: (heard) => onProperty('DelayInhibited', heard),
    whenScheduleChanges: (heard) => {
      const ends = [onProperty('ScheduledShutdown', heard), watchPath(scheduleDirectory, heard, clock)];
      return () => {
        for (const end of ends) end();
      };
    },
    whenEnded: (heard) => onOwner((owner) => owner === '' && heard()),
    whenRestarted: (heard) => onOwner((owner) => owner !== '' && heard()),
    whenUp: bus.whenUp,
    isUp: () => bus.state() === 'up',
  };
}

/** 2^64-1 means "none" or "infinite", and arrives saturated. */
const isEndless = (us: number): boolean => us >= Number.MAX_SAFE_INTEGER;

function readDelay(value: Reading<BusValue>): Reading<number> {
  if (!value.known) return value;
  const us = value.value;
  if (typeof us !== 'number' || us < 0) return unknown('malformed', 'InhibitDelayMaxUSec', 'not a time');
  return known(isEndless(us) ? Number.POSITIVE_INFINITY : us / 1_000);
}

function readSchedule(value: Reading<BusValue>): Reading<ScheduledShutdown | null> {
  if (!value.known) return value;
  const [type, us] = Array.isArray(value.value) ? value.value : [];
  if (typeof type !== 'string' || typeof us !== 'number') {
    return unknown('malformed', 'ScheduledShutdown', 'not a type with a time');
  }
  return known(type === '' || isEndless(us) ? null : { type, atWallMs: us / 1_000 });
}

function readInhibitors(reply: Reading<readonly BusValue[]>): Reading<readonly InhibitorLock[]> {
  if (!reply.known) return reply;
  const [list] = reply.value;
  if (!Array.isArray(list)) return unknown('malformed', 'ListInhibitors', 'not a list');
  const locks: InhibitorLock[] = [];
  for (const entry of list) {
    const [what, who, why, mode, uid, pid] = Array.isArray(entry) ? entry : [];
    if (typeof uid !== 'number' || typeof pid !== 'number') {
      return unknown('malformed', 'ListInhibitors', 'a lock without an owner');
    }
    locks.push({ what: String(what), who: String(who), why: String(why), mode: String(mode), uid, pid });
  }
  return known(locks);
}

function isNamed(name: string, properties: BusValue | undefined): boolean {
  if (Array.isArray(properties)) return properties.includes(name);
  return typeof properties === 'object' && name in properties;
}

function typeIn(metadata: BusValue | undefined): string {
  if (typeof metadata !== 'object' || Array.isArray(metadata) || isVariant(metadata)) return '';
  const type = Object.entries(metadata).find(([key]) => key === 'type')?.[1];
  return isVariant(type) && typeof type.value === 'string' ? type.value : '';
}
