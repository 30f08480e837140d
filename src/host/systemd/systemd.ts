import { ifKnown, known, type Reading, unknown } from '../../core/reading.ts';
import { isNumber, isText } from '../../core/shape.ts';
import { busProperties, busProperty, PROPERTIES, type SystemBus } from './bus.ts';
import { type BusValue, type BusVariant, isObjectPath } from './bus-value.ts';
import { createStopTimes, durationOf } from './stop-times.ts';
import { factsIn, hexOf, jobWhileDown, stateIn, type UnitFacts, type UnitState, type UnitTies } from './unit-facts.ts';
import { isOfProcesses, UNIT_TYPES, unitName, unitPath, unitType } from './unit-name.ts';
import { createUnitStates, type UnitStates } from './unit-states.ts';

export type JobEnd = {
  readonly unit: string;
  readonly job: string;
  readonly result: string;
  readonly isOurs: () => boolean;
};
/** How a service ended, including an operator's command; read before the unit is released. */
type ServiceEnd = { readonly result: string; readonly exitStatus: number };
/** Directories that systemd makes for a service, as absolute paths. */
type UnitDirectories = {
  readonly state: readonly string[];
  readonly logs: readonly string[];
  readonly cache: readonly string[];
};
export type Systemd = {
  /** The units that are active, by their own names. */
  readonly activeUnits: () => Promise<Reading<readonly string[]>>;
  readonly directories: (service: string) => Promise<Reading<UnitDirectories>>;
  /** Also for a unit that is not running or does not exist: see `loadState`. */
  readonly unit: (name: string) => Promise<Reading<UnitFacts>>;
  /** Its dependencies and its state, for a unit of any type. One call, and one about its job if it is down. */
  readonly ties: (name: string) => Promise<Reading<UnitTies>>;
  /** The ID of its current run, or of the last one if it is down; '' if it has not run since it was loaded. */
  readonly invocationId: (name: string) => Promise<Reading<string>>;
  /** Its state alone; simultaneous queries share one call, which comes before all other waiting calls. */
  readonly activeState: (name: string) => Promise<Reading<string>>;
  /** Resolves when the job is queued, not when it is done; comes before all other waiting calls. The default deadline is 5 s. */
  readonly stop: (name: string, deadlineMs?: number) => Promise<Reading<true>>;
  /** The same out of turn: a stop that waits for others begins, and stays the only one. */
  readonly stopNow: (name: string, deadlineMs?: number) => Promise<Reading<true>>;
  /** Cancels a stop that waits for others to stop first; a stop that has begun continues. */
  readonly cancelStop: (name: string) => Promise<Reading<true>>;
  readonly start: (name: string) => Promise<Reading<true>>;
  /** Its starts so far do not count towards its start limit (StartLimitBurst=) any more. */
  readonly resetStarts: (name: string) => Promise<Reading<true>>;
  /** How many commands its stop runs (ExecStop=). */
  readonly stopCommands: (name: string) => Promise<Reading<number>>;
  /** KillMode=: which processes its stop signals. */
  readonly killMode: (name: string) => Promise<Reading<string>>;
  /** SIGKILL to all its processes, including a command of its stop. */
  readonly kill: (name: string) => Promise<Reading<true>>;
  /** KillSignal= without a job, to all processes; only to the main one if its stop would kill the others (KillMode=mixed). */
  readonly signalStop: (name: string) => Promise<Reading<true>>;
  /** Starts a transient service that stays loaded until `unref`, and resolves with the job. */
  readonly startTransient: (name: string, properties: readonly UnitProperty[]) => Promise<Reading<string>>;
  readonly serviceEnd: (name: string) => Promise<Reading<ServiceEnd>>;
  /** OOMScoreAdjust=, or systemd's own value if it is not set. */
  readonly oomScoreAdjust: (name: string) => Promise<Reading<number>>;
  readonly unref: (name: string) => Promise<void>;
  /**
   * How long it waits after asking a service or scope to stop, before it kills what is left; infinity: no limit.
   * A slice has none: `not-applicable`.
   */
  readonly stopTimeoutMs: (name: string) => Promise<Reading<number>>;
  /** The same for units that set no time of their own. */
  readonly defaultStopTimeoutMs: () => Promise<Reading<number>>;
  /** The same for the service that this process belongs to; `not-applicable` if it belongs to none. */
  readonly ownStopTimeoutMs: () => Promise<Reading<number>>;
  /** Makes systemd start the service of this process again once it has stopped. */
  readonly startOwn: () => Promise<Reading<true>>;
  /** The name of that service. */
  readonly ownName: () => Promise<Reading<string>>;
  /** How long ago this user space began: with the boot, or with the last soft-reboot (254 and later). */
  readonly userspaceAgeMs: () => Promise<Reading<number>>;
  /** `running`, `degraded`, `stopping` and so on. */
  readonly systemState: () => Promise<Reading<string>>;
  /** `enabled`, `disabled`, `masked` and so on; '' if it has no file. */
  readonly unitFileState: (name: string) => Promise<Reading<string>>;
  /** A start or stop of any unit was queued, by anyone: from now on, systemd knows the unit's cgroup. */
  readonly whenJobBegins: (run: (unit: string) => void) => () => void;
  /** A start or stop of any unit has ended, whoever queued it. */
  readonly whenJobEnds: (run: (end: JobEnd) => void) => () => void;
  /** Any unit's state is another one, also without a job: its processes ended by themselves. */
  readonly whenStateChanges: (run: (unit: string, state: UnitState) => void) => () => void;
  /** The unit files are being reloaded (true), and then were (false). */
  readonly whenReloading: (run: (isReloading: boolean) => void) => () => void;
  readonly whenUp: (run: () => void) => () => void;
  readonly isUp: () => boolean;
  /** Whether the bus is there, and may be up in a moment: also between two attempts to connect. */
  readonly isConnecting: () => boolean;
};
export type UnitProperty = { readonly name: string; readonly value: BusVariant };

const NAME = 'org.freedesktop.systemd1';
const MANAGER = { destination: NAME, path: '/org/freedesktop/systemd1', interface: `${NAME}.Manager` };
/** A stop may wait for systemd to reload, or to start its generators. */
const JOB_MS = 5_000;
const SIGKILL = 9;
/** The agent's own jobs, remembered to distinguish them from those of others. */
const MAX_JOBS = 256;

/** The calls to systemd that this program makes, and no others. Each has a deadline. */
export function createSystemd(bus: SystemBus): Systemd {
  /** They share one subscription, because each signal has dozens of properties. */
  const stateRuns = new Set<(unit: string, state: UnitState) => void>();
  let forgetStates: (() => void) | null = null;
  const ours = new Set<string>();
  const subscribe = (): void => void bus.call({ ...MANAGER, member: 'Subscribe' });
  // Without this call, the manager sends no signals.
  bus.whenUp(subscribe);
  if (bus.state() === 'up') subscribe();

  async function queue(
    member: 'StartUnit' | 'StopUnit',
    name: string,
    deadlineMs = JOB_MS,
    mode: 'replace' | 'ignore-dependencies' = 'replace',
  ): Promise<Reading<true>> {
    const call = { ...MANAGER, member, signature: 'ss', body: [name, mode], deadlineMs };
    const job = remember(await bus.call(member === 'StopUnit' ? { ...call, isUrgent: true } : call));
    return ifKnown(job, () => known(true));
  }

  function remember(answer: Reading<readonly BusValue[]>): Reading<string> {
    if (!answer.known) return answer;
    const job = String(answer.value[0]);
    ours.add(job);
    for (const oldest of ours) if (ours.size > MAX_JOBS) ours.delete(oldest);
    return known(job);
  }

  const property = (path: string, type: string, name: string, urgent = {}): Promise<Reading<BusValue>> =>
    busProperty(bus, { destination: NAME, path, interface: `${NAME}.${type}` }, name, urgent);

  const stopTimes = createStopTimes(property);

  async function pathBy(member: 'LoadUnit' | 'GetUnitByPID', of: string | number): Promise<Reading<string>> {
    const signature = typeof of === 'string' ? 's' : 'u';
    const found = await bus.call({ ...MANAGER, member, signature, body: [of] });
    return ifKnown(found, ([path]) =>
      orMalformed(isText(path) && isObjectPath(path) ? path : null, member, 'an object path'),
    );
  }

  async function ownService(): Promise<Reading<{ readonly path: string; readonly name: string }>> {
    const path = await pathBy('GetUnitByPID', process.pid);
    if (!path.known) return path;
    const id = await property(path.value, 'Unit', 'Id');
    if (!id.known) return id;
    const name = String(id.value);
    if (name.endsWith('.service')) return known({ path: path.value, name });
    return unknown('not-applicable', name, 'this process does not run as a service');
  }

  const statesWith = createUnitStates(statesOf);
  async function statesOf(names: readonly string[]): Promise<Reading<UnitStates>> {
    const member = 'ListUnitsByNames';
    const answer = await bus.call({ ...MANAGER, member, signature: 'as', body: [names], isUrgent: true });
    if (!answer.known) return answer;
    const [units] = answer.value;
    // systemd keeps the order of the names, but returns each unit's own name, not an alias.
    const rows = Array.isArray(units) && units.length === names.length ? units : [];
    return known(new Map(rows.map((row, i) => [names[i] ?? '', String(Array.isArray(row) ? row[3] : '')])));
  }

  async function ties(name: string): Promise<Reading<Omit<UnitFacts, 'controlGroup' | 'slice'>>> {
    const all = await busProperties(bus, { destination: NAME, path: unitPath(name), interface: `${NAME}.Unit` });
    const read = ifKnown(all, ([first]) => orMalformed(factsIn(first), name, 'the properties of a unit'));
    const job = all.known ? jobWhileDown(all.value[0]) : null;
    const isToStart = job !== null && ['start', 'restart'].includes(textOf(await property(job, 'Job', 'JobType')));
    if (!read.known) return read;
    const machineAction = await stopTimes.soonest(name, read.value.machineAction);
    if (!machineAction.known) return machineAction;
    return known({ ...read.value, ...machineAction.value, ...(isToStart ? { isToStart } : {}) });
  }

  /** By its path alone: systemd then loads it, also under an alias. */
  async function unit(name: string): Promise<Reading<UnitFacts>> {
    const path = unitPath(name);
    if (!isOfProcesses(name))
      return ifKnown(await ties(name), (own) => known({ ...own, controlGroup: null, slice: null }));
    const [read, group, slice] = await Promise.all([
      ties(name),
      property(path, unitType(name), 'ControlGroup'),
      property(path, unitType(name), 'Slice'),
    ]);
    for (const reading of [group, slice]) if (!reading.known) return reading;
    if (!read.known) return read;
    const controlGroup = textOf(group);
    return known({
      ...read.value,
      controlGroup: controlGroup.startsWith('/') ? controlGroup : null,
      slice: /^[A-Za-z0-9:_.\\-]+\.slice$/.test(textOf(slice)) ? textOf(slice) : null,
    });
  }

  return {
    activeUnits: async () => {
      const answer = await bus.call({ ...MANAGER, member: 'ListUnitsFiltered', signature: 'as', body: [['active']] });
      return ifKnown(answer, ([units]) => {
        const rows = Array.isArray(units) ? units : [];
        return known(rows.flatMap((row) => (Array.isArray(row) && isText(row[0]) ? [row[0]] : [])));
      });
    },
    directories: async (name) => {
      const path = unitPath(name);
      const names = ['StateDirectory', 'LogsDirectory', 'CacheDirectory', 'DynamicUser'] as const;
      const [state, logs, cache, dynamic] = await Promise.all(names.map((fact) => property(path, 'Service', fact)));
      // For a user that exists only while the unit runs, systemd keeps them in a private place.
      const within = dynamic?.known && dynamic.value === true ? '/private' : '';
      const below = (root: string, read: Reading<BusValue> | undefined): readonly string[] =>
        read?.known && Array.isArray(read.value)
          ? read.value.flatMap((entry) => (isText(entry) ? [`${root}${within}/${entry}`] : []))
          : [];
      if (state !== undefined && !state.known) return state;
      return known({
        state: below('/var/lib', state),
        logs: below('/var/log', logs),
        cache: below('/var/cache', cache),
      });
    },
    unit,
    ties,
    activeState: async (name) => {
      const together = await statesWith(name);
      const listed = together.known ? together.value.get(name) : undefined;
      if (listed !== undefined) return known(listed);
      // The other way also works if systemd refuses to list one of them.
      if (!together.known && together.why !== 'unreadable') return together;
      return ifKnown(await property(unitPath(name), 'Unit', 'ActiveState'), (state) => known(String(state)));
    },
    invocationId: async (name) => {
      const read = await property(unitPath(name), 'Unit', 'InvocationID');
      return ifKnown(read, (id) => known(Array.isArray(id) ? hexOf(id) : ''));
    },
    stop: (name, deadlineMs) => queue('StopUnit', name, deadlineMs),
    stopNow: (name, deadlineMs) => queue('StopUnit', name, deadlineMs, 'ignore-dependencies'),
    cancelStop: async (name) => {
      const job = await property(unitPath(name), 'Unit', 'Job');
      if (!job.known) return job;
      const [id, path] = Array.isArray(job.value) ? job.value : [];
      if (typeof id !== 'number' || typeof path !== 'string' || id === 0) return known(true);
      const [type, state] = await Promise.all([property(path, 'Job', 'JobType'), property(path, 'Job', 'State')]);
      if (textOf(type) !== 'stop' || textOf(state) !== 'waiting') return known(true);
      return sent(bus.call({ ...MANAGER, member: 'CancelJob', signature: 'u', body: [id], isUrgent: true }));
    },
    start: (name) => queue('StartUnit', name),
    resetStarts: async (name) =>
      sent(bus.call({ ...MANAGER, path: unitPath(name), interface: `${NAME}.Unit`, member: 'ResetFailed' })),
    stopCommands: stopTimes.stopCommands,
    killMode: async (name) => {
      const mode = await property(unitPath(name), unitType(name), 'KillMode');
      return ifKnown(mode, () => known(textOf(mode)));
    },
    kill: (name) => {
      const body = [name, 'all', SIGKILL];
      return sent(bus.call({ ...MANAGER, member: 'KillUnit', signature: 'ssi', body, isUrgent: true }));
    },
    signalStop: async (name) => {
      const path = await pathBy('LoadUnit', name);
      if (!path.known) return path;
      const [mode, signal] = await Promise.all([
        property(path.value, unitType(name), 'KillMode'),
        property(path.value, unitType(name), 'KillSignal'),
      ]);
      if (!mode.known) return mode;
      if (!signal.known) return signal;
      // With process and none, systemd would leave the others running; here they are killed in the end, so signal them first.
      const whom = mode.value === 'mixed' ? 'main' : 'all';
      const body = [name, whom, signal.value];
      const call = { ...MANAGER, member: 'KillUnit', signature: 'ssi', body, deadlineMs: JOB_MS };
      return sent(bus.call({ ...call, isUrgent: true }));
    },
    startTransient: async (name, properties) =>
      remember(
        await bus.call({
          ...MANAGER,
          member: 'StartTransientUnit',
          signature: 'ssa(sv)a(sa(sv))',
          body: [name, 'fail', properties.map((entry) => [entry.name, entry.value]), []],
          deadlineMs: JOB_MS,
        }),
      ),
    serviceEnd: async (name) => {
      const [result, exitStatus] = await Promise.all([
        property(unitPath(name), 'Service', 'Result', { isUrgent: true }),
        property(unitPath(name), 'Service', 'ExecMainStatus', { isUrgent: true }),
      ]);
      if (!result.known) return result;
      if (!exitStatus.known) return exitStatus;
      return known({ result: String(result.value), exitStatus: Number(exitStatus.value) });
    },
    oomScoreAdjust: async (name) => {
      const read = await property(unitPath(name), unitType(name), 'OOMScoreAdjust');
      return ifKnown(read, (value) => orMalformed(isNumber(value) ? value : null, 'OOMScoreAdjust', 'a number'));
    },
    unref: async (name) => void (await bus.call({ ...MANAGER, member: 'UnrefUnit', signature: 's', body: [name] })),
    stopTimeoutMs: async (name) => {
      const path = await pathBy('LoadUnit', name);
      return path.known ? stopTimes.limitMs(path.value, unitType(name), name) : path;
    },
    defaultStopTimeoutMs: async () =>
      durationOf(await property(MANAGER.path, 'Manager', 'DefaultTimeoutStopUSec'), 'DefaultTimeoutStopUSec'),
    ownStopTimeoutMs: async () => {
      const own = await ownService();
      return own.known ? stopTimes.limitMs(own.value.path, UNIT_TYPES.service, own.value.name) : own;
    },
    startOwn: async () => {
      const own = await ownService();
      return own.known ? queue('StartUnit', own.value.name) : own;
    },
    ownName: async () => ifKnown(await ownService(), ({ name }) => known(name)),
    userspaceAgeMs: async () => {
      const name = 'UserspaceTimestampMonotonic';
      const beganUs = await property(MANAGER.path, 'Manager', name);
      if (!beganUs.known) return beganUs;
      // CLOCK_MONOTONIC, as here; 0 if unknown.
      return typeof beganUs.value === 'number' && beganUs.value > 0
        ? known((Number(process.hrtime.bigint()) - beganUs.value * 1e3) / 1e6)
        : unknown('malformed', name, 'not a time');
    },
    systemState: async () => {
      const read = await property(MANAGER.path, 'Manager', 'SystemState');
      return ifKnown(read, (state) => orMalformed(isText(state) ? state : null, 'SystemState', 'the name of a state'));
    },
    unitFileState: async (name) => {
      const state = await property(unitPath(name), 'Unit', 'UnitFileState');
      return ifKnown(state, () => known(textOf(state)));
    },
    whenJobBegins: (run) =>
      bus.subscribe({ sender: NAME, interface: MANAGER.interface, member: 'JobNew' }, ([, , name]) => {
        if (typeof name === 'string') run(name);
      }),
    whenJobEnds: (run) =>
      bus.subscribe({ sender: NAME, interface: MANAGER.interface, member: 'JobRemoved' }, ([, job, name, result]) => {
        // The answer that names the job may come after its end, so callers check `isOurs` later.
        const isOurs = (): boolean => ours.has(String(job));
        if (isText(name) && isText(result)) run({ unit: name, job: String(job), result, isOurs });
      }),
    whenStateChanges: (run) => {
      stateRuns.add(run);
      forgetStates ??= bus.subscribe(
        { sender: NAME, interface: PROPERTIES, member: 'PropertiesChanged', arg0: `${NAME}.Unit` },
        ([, changed], path) => {
          const unit = unitName(path);
          const state = stateIn(changed);
          if (unit !== null) for (const each of [...stateRuns]) each(unit, state);
        },
      );
      return () => {
        stateRuns.delete(run);
        if (stateRuns.size > 0) return;
        forgetStates?.();
        forgetStates = null;
      };
    },
    whenReloading: (run) =>
      bus.subscribe({ sender: NAME, interface: MANAGER.interface, member: 'Reloading' }, ([isReloading]) => {
        if (typeof isReloading === 'boolean') run(isReloading);
      }),
    whenUp: bus.whenUp,
    isUp: () => bus.state() === 'up',
    isConnecting: () => bus.state() === 'connecting',
  };
}

function orMalformed<T>(value: T | null, where: string, what: string): Reading<T> {
  return value === null ? unknown('malformed', where, `not ${what}`) : known(value);
}

const sent = async (call: ReturnType<SystemBus['call']>): Promise<Reading<true>> =>
  ifKnown(await call, () => known(true));

const textOf = (reading: Reading<BusValue>): string =>
  reading.known && typeof reading.value === 'string' ? reading.value : '';
