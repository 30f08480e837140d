import { Variant } from 'dbus-next';
import { createClock } from '../../src/host/clock.ts';
import { openSystemBus, type SystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd/systemd.ts';
import { unitName, unitPath } from '../../src/host/systemd/unit-name.ts';
import { type Answer, openPrivateBus, openService, type PrivateBus, type Service, until } from './private-bus.ts';

export type FakeUnit = {
  activeState: string;
  invocation: number;
  controlGroup: string;
  loadState: string;
  since?: number;
  /** TimeoutStopUSec; systemd's 90 s where absent. */
  stopUs?: bigint;
  /** `dead` where absent. */
  subState?: string;
  hasStopCommand?: boolean;
  hasPostCommand?: boolean;
  /** Its own name, where it is found under an alias. */
  id?: string;
  /** system.slice where absent. */
  slice?: string;
  unitFileState?: string;
  /** `FailureAction` and the like by their names; none where absent. */
  actions?: { readonly [name: string]: string };
  /** `JobTimeoutUSec` and the like by their names; infinity where absent. */
  timeouts?: { readonly [name: string]: bigint };
  /** As one that `systemd-run` made. */
  isTransient?: boolean;
  /** Lists of units by the name of the property. */
  stopsUnneeded?: boolean;
  /** A job for it is queued, of that type. */
  hasJob?: boolean | 'start' | 'stop' | 'restart';
  relations?: { readonly [name: string]: readonly string[] };
};
export type FakeSystemd = {
  readonly systemd: Systemd;
  readonly bus: SystemBus;
  readonly daemon: PrivateBus;
  readonly units: Map<string, FakeUnit>;
  /** `StopUnit web.service`, `ResetFailed web.service` and the like, in order. */
  readonly asked: () => readonly string[];
  /** As if a person, a socket or a timer did it: with a job that is not ours. */
  readonly byOthers: (what: 'start' | 'stop', unit: string) => void;
  /** The same for a stop that ends when the result is called. */
  readonly stopsSlowly: (unit: string) => () => void;
  /** A job of that unit is queued and does not end. */
  readonly begin: (unit: string) => void;
  /** It says that it reloads the unit files, or has done so. */
  readonly reload: (isReloading: boolean) => void;
  /** Its processes end, and no job tells of it. */
  readonly endsByItself: (unit: string) => void;
  readonly remove: () => Promise<void>;
};

const NAME = 'org.freedesktop.systemd1';
const MANAGER = '/org/freedesktop/systemd1';

/** org.freedesktop.systemd1 on a private bus, as far as this program asks it; shows what systemd does on demand. */
export async function openFakeSystemd(
  react: (member: string, unit: string, body: readonly unknown[], path: string) => Answer | null = () => null,
): Promise<FakeSystemd> {
  const daemon = await openPrivateBus();
  const units = new Map<string, FakeUnit>();
  let jobs = 0;
  const tellState = (name: string): void => {
    const state = {
      ActiveState: new Variant('s', units.get(name)?.activeState ?? 'inactive'),
      SubState: new Variant('s', units.get(name)?.subState ?? 'dead'),
      ActiveExitTimestampMonotonic: new Variant('t', process.hrtime.bigint() / 1_000n),
    };
    const iface = 'org.freedesktop.DBus.Properties';
    const body = [`${NAME}.Unit`, state, []];
    service.signal({ path: unitPath(name), iface, member: 'PropertiesChanged', signature: 'sa{sv}as', body });
  };
  /** As in systemd, a unit changes its state and its job ends in one go, and the first is told before the second. */
  const begun = (unit: string, change: () => void): { readonly job: string; readonly end: () => void } => {
    jobs += 1;
    const job = `${MANAGER}/job/${jobs}`;
    const body = [jobs, job, unit, 'done'];
    const removed = { path: MANAGER, iface: `${NAME}.Manager`, member: 'JobRemoved', signature: 'uoss', body };
    const queued = {
      path: MANAGER,
      iface: `${NAME}.Manager`,
      member: 'JobNew',
      signature: 'uos',
      body: body.slice(0, 3),
    };
    tellState(unit);
    service.signal(queued);
    const end = (): void => {
      change();
      try {
        tellState(unit);
        service.signal(removed);
      } catch {
        // The test has ended the bus meanwhile.
      }
    };
    return { job, end };
  };
  const done = (unit: string, change: () => void): string => {
    const { job, end } = begun(unit, change);
    setTimeout(end, 20);
    return job;
  };
  const change = (what: 'start' | 'stop', name: string): string => {
    const unit = units.get(name);
    const job = done(name, () => {
      if (unit === undefined) return;
      if (what === 'start' && unit.activeState !== 'active') unit.invocation += 1;
      unit.activeState = what === 'start' ? 'active' : 'inactive';
    });
    if (unit !== undefined && unit.activeState === 'active' && what === 'stop') unit.activeState = 'deactivating';
    return job;
  };
  const service: Service = await openService(daemon.address, NAME, (member, path, body): Answer => {
    const [first = ''] = body.map(String);
    const own = react(member, first, body, path);
    if (own !== null) return own;
    switch (member) {
      case 'LoadUnit':
        return { signature: 'o', body: [unitPath(first)] };
      case 'GetUnitByPID':
        return { signature: 'o', body: [unitPath(OWN_UNIT)] };
      case 'ListUnitsByNames':
        return { signature: 'a(ssssssouso)', body: [(body[0] as readonly string[]).map((name) => row(units, name))] };
      case 'StopUnit':
        return { signature: 'o', body: [change('stop', first)] };
      case 'StartUnit':
        return { signature: 'o', body: [change('start', first)] };
      case 'Get':
        return path === MANAGER
          ? managerProperty(String(body[1]))
          : hasInterface(path, first)
            ? property(unitAt(units, path), path, String(body[1]))
            : { error: 'org.freedesktop.DBus.Error.UnknownInterface' };
      case 'GetAll':
        return everything(units, path);
      case 'StartTransientUnit':
        return { signature: 'o', body: [done(first, () => undefined)] };
      default:
        return { signature: '', body: [] };
    }
  });
  const bus = openSystemBus(createClock(), daemon.env);
  await until(() => bus.state() === 'up');
  return {
    systemd: createSystemd(bus),
    bus,
    daemon,
    units,
    asked: () =>
      service.calls
        .filter(({ member }) => /^(Stop|Start|Reset)/.test(member))
        .map(({ member, path, body }) => `${member} ${String(body[0] ?? unitName(path))}`),
    byOthers: change,
    stopsSlowly: (name) => {
      const become = (activeState: string): void => void Object.assign(units.get(name) ?? {}, { activeState });
      const { end } = begun(name, () => become('inactive'));
      become('deactivating');
      return end;
    },
    begin: (unit) => {
      jobs += 1;
      const body = [jobs, `${MANAGER}/job/${jobs}`, unit];
      service.signal({ path: MANAGER, iface: `${NAME}.Manager`, member: 'JobNew', signature: 'uos', body });
    },
    reload: (isReloading) => {
      const body = [isReloading];
      service.signal({ path: MANAGER, iface: `${NAME}.Manager`, member: 'Reloading', signature: 'b', body });
    },
    endsByItself: (name) => {
      const unit = units.get(name);
      if (unit !== undefined) unit.activeState = 'inactive';
      tellState(name);
    },
    remove: async () => {
      bus.close();
      service.close();
      await daemon.remove();
    },
  };
}

const OF_UNIT = ['LoadState', 'ActiveState', 'SubState', 'ActiveEnterTimestamp', 'InvocationID'];

/** Only a service has that of services. */
function hasInterface(path: string, name: string): boolean {
  const type = name.slice(NAME.length + 1);
  const suffix = unitName(path)?.split('.').at(-1) ?? '';
  return !['Service', 'Scope', 'Slice'].includes(type) || type.toLowerCase() === suffix;
}

/** A unit that is not there has a name all the same. */
function everything(units: ReadonlyMap<string, FakeUnit>, path: string): Answer {
  const unit = unitAt(units, path);
  const all: { [name: string]: unknown } = { Id: new Variant('s', unit?.id ?? unitName(path)) };
  for (const fact of OF_UNIT) {
    const answer = property(unit, path, fact);
    if (typeof answer === 'object' && 'body' in answer) all[fact] = answer.body[0];
  }
  if (unit?.hasJob) all['Job'] = new Variant('(uo)', jobOf(unit));
  all['Transient'] = new Variant('b', unit?.isTransient === true);
  all['StopWhenUnneeded'] = new Variant('b', unit?.stopsUnneeded === true);
  const actions = { FailureAction: 'none', SuccessAction: 'none', ...unit?.actions };
  for (const [name, action] of Object.entries(actions)) all[name] = new Variant('s', action);
  const timeouts = { JobTimeoutUSec: INFINITY, JobRunningTimeoutUSec: INFINITY, ...unit?.timeouts };
  for (const [name, us] of Object.entries(timeouts)) all[name] = new Variant('t', us);
  for (const [list, names] of Object.entries(unit?.relations ?? {})) all[list] = new Variant('as', [...names]);
  return { signature: 'a{sv}', body: [all] };
}

const jobOf = (unit: FakeUnit | undefined): readonly unknown[] =>
  unit?.hasJob ? [1, `${MANAGER}/job/${unit.hasJob === true ? 1 : unit.hasJob}`] : [0, '/'];

function row(units: ReadonlyMap<string, FakeUnit>, name: string): readonly unknown[] {
  const { loadState = 'not-found', activeState = 'inactive' } = units.get(name) ?? {};
  return [name, '', loadState, activeState, '', '', unitPath(name), 0, '', '/'];
}

function unitAt(units: ReadonlyMap<string, FakeUnit>, path: string): FakeUnit | undefined {
  return [...units].find(([name]) => unitPath(name) === path)?.[1];
}

/** What every process belongs to here. */
export const OWN_UNIT = 'nodewarden.service';
const INFINITY = 2n ** 64n - 1n;
const DEFAULT_STOP_US = 90_000_000n;

function given(signature: string, value: unknown): Answer {
  return { signature: 'v', body: [new Variant(signature, value)] };
}

function managerProperty(name: string): Answer {
  switch (name) {
    case 'DefaultTimeoutStopUSec':
      return given('t', DEFAULT_STOP_US);
    case 'SystemState':
      return given('s', 'running');
    default:
      return { error: 'org.freedesktop.DBus.Error.UnknownProperty' };
  }
}

function property(unit: FakeUnit | undefined, path: string, name: string): Answer {
  switch (name) {
    case 'Id':
      return path === unitPath(OWN_UNIT) ? given('s', OWN_UNIT) : { error: 'org.freedesktop.DBus.Error.UnknownObject' };
    case 'TimeoutStopUSec':
      return given('t', unit?.stopUs ?? DEFAULT_STOP_US);
    case 'LoadState':
      return given('s', unit?.loadState ?? 'not-found');
    case 'ActiveState':
      return given('s', unit?.activeState ?? 'inactive');
    case 'UnitFileState':
      return unit?.unitFileState === undefined
        ? { error: 'org.freedesktop.DBus.Error.UnknownProperty' }
        : given('s', unit.unitFileState);
    case 'Job':
      return given('(uo)', jobOf(unit));
    case 'JobType':
      return given('s', path.slice(path.lastIndexOf('/') + 1));
    case 'SubState':
      return given('s', unit?.subState ?? 'dead');
    case 'ExecStop':
      return given('as', unit?.hasStopCommand === true ? ['drain'] : []);
    case 'ExecStopPost':
      return given('as', unit?.hasPostCommand === true ? ['tidy'] : []);
    case 'ActiveEnterTimestamp':
      return given('t', unit?.since ?? 0);
    case 'InvocationID':
      return given('ay', Buffer.from(unit === undefined ? [] : [unit.invocation]));
    case 'ControlGroup':
      if (path.endsWith('_2etarget')) return { error: 'org.freedesktop.DBus.Error.UnknownProperty' };
      return given('s', unit?.activeState === 'active' || unit?.hasJob === 'restart' ? unit.controlGroup : '');
    case 'Slice':
      return given('s', unit === undefined ? '' : (unit.slice ?? 'system.slice'));
    case 'Result':
      return given('s', 'exit-code');
    case 'ExecMainStatus':
      return given('i', 3);
    default:
      return { error: 'org.freedesktop.DBus.Error.UnknownProperty' };
  }
}
