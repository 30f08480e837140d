import type { PodUid } from '../../core/pod/pod.ts';
import type { Unknown } from '../../core/reading.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { isCommand } from '../../host/systemd/transient.ts';
import { isAutoRestart, type UnitState, type UnitTies } from '../../host/systemd/unit-facts.ts';
import type { BoundPod, Clock, PodSource } from '../../ports.ts';
import { createAwaitedAnswer, isAnswer } from './awaited-answer.ts';
import { createTieGraph, HANGS_ON, runs, type TieGraph, unitsAround } from './tie-graph.ts';
import { withTies } from './with-ties.ts';

type TiesNeeds = {
  readonly clock: Clock;
  readonly systemd: Pick<
    Systemd,
    'ties' | 'stopCommands' | 'whenJobBegins' | 'whenJobEnds' | 'whenStateChanges' | 'whenReloading' | 'whenUp' | 'isUp'
  >;
  /** By its own name; null: the pod has none. */
  readonly unitOf: (uid: PodUid) => string | null;
  readonly wake: () => void;
  /** Pods are chosen although systemd has not said how things are with their units; false: it has, after all. */
  readonly missing?: (isMissing: boolean) => void;
};
export type Ties = {
  /**
   * D13: until systemd has answered about the units of all pods given last, or has had its time. Asked anew of one that is new,
   * and of all after a reload of the unit files, or an outage.
   */
  readonly unsettled: () => ReturnType<NonNullable<PodSource['unsettled']>>;
  /** systemd has answered about all of them. */
  readonly isTold: () => boolean;
  /** The pods with what systemd would stop along with them, and in which order. Sends no query. */
  readonly tied: (pods: readonly BoundPod[]) => readonly BoundPod[];
  /** Its unit is active without processes and has something to do when it stops (RemainAfterExit=, ExecStop=). */
  readonly isIdle: (uid: PodUid) => boolean;
  /** Whether systemd is about to start its unit again is not known, until it says so anew. */
  readonly doubtRestart: (uid: PodUid) => void;
  /** Running units that are not pods and would be stopped along with it. */
  readonly others: (unit: string) => readonly string[];
  /** Pods that would be stopped along with this pod's unit, running or not. */
  readonly podsWith: (unit: string) => readonly PodUid[];
  /** Units of this pod's slice that are active, or that systemd is about to start again: they may have no process, and so no cgroup. */
  readonly upIn: (slice: string) => readonly string[];
  /** By systemd's last word: it runs, and nobody is stopping it, or is about to start again. */
  readonly runsNow: (unit: string) => boolean;
  /** systemd is about to start it again, by its last word. */
  readonly isBetweenRuns: (unit: string) => boolean;
  /** The same, or a job is to start it once it is down, such as an operator's restart. */
  readonly isToStart: (unit: string) => boolean;
  readonly close: () => void;
};

/** The wait after a change, for others that come with it. */
const SETTLE_MS = 100;
const RETRY_MS = 5_000;
/** So few that none is given up because of those before it, and that the queries of others come in between. */
const AT_ONCE = 16;
/** The maximum number of queried units: pods and the units that depend on them. */
const MAX_UNITS = 4_096;
/**
 * Other units that started: at most this many are checked within the time for a dependency on a pod's unit. If there were
 * more, everything is queried again when it is over.
 */
const MAX_STRANGERS = 20;
const STRANGERS_MS = 10_000;

/**
 * D16 and the order of stops: how the pods' units depend on each other, queried from systemd beside the loop when
 * something changes.
 */
export function createTies({ clock, systemd, unitOf, wake, missing = () => undefined }: TiesNeeds): Ties {
  /**
   * The last answers: that of a unit that has changed since counts until it answers again, except for its state, of which each
   * change is reported.
   */
  const asked = new Map<string, UnitTies>();
  /** Units that have not changed since they answered. */
  const current = new Set<string>();
  /** Units that are being queried, and had no job since. */
  const inFlight = new Set<string>();
  /** Units that had a job while they were queried: the answer may be older, so they are queried again. */
  const outdated = new Set<string>();
  /** Only their state and StopWhenUnneeded= matter: they do not stop with a pod. */
  let beside: ReadonlySet<string> = new Set();
  let graph: TieGraph = createTieGraph(new Map(), new Map());
  /** By unit, while the unit is known. */
  const stopCommands = new Map<string, boolean>();
  let idle: ReadonlySet<PodUid> = new Set();
  let podUnits: ReadonlyMap<string, PodUid> = new Map();
  /** Units of pods of which, and of all that they reach, systemd has said what it knows. */
  let told: ReadonlySet<string> = new Set();
  let key = '';
  let isReading = false;
  /** What systemd says in between is of no use: it may be older than the files. */
  let isReloading = false;
  /** Reloads and outages: what was said before may no longer be so. */
  let resets = 0;
  let isDirty = false;
  let isClosed = false;
  let strangers = 0;
  let strangersSinceMs = Number.NEGATIVE_INFINITY;
  let cancelTimer: (() => void) | null = null;
  let readsMs = Number.POSITIVE_INFINITY;
  let cancelForget: (() => void) | null = null;
  const answer = createAwaitedAnswer({ clock, wake, missing });
  const areTold = (): boolean => [...podUnits.keys()].every((unit) => told.has(unit));
  const settle = (): void => (areTold() ? answer.came() : answer.ask());

  /** The earliest one counts. */
  function readIn(ms: number): void {
    const atMs = clock.monoMs() + ms;
    if (isReading) isDirty = true;
    if (isReading || atMs >= readsMs) return;
    cancelTimer?.();
    readsMs = atMs;
    cancelTimer = clock.after(ms, () => {
      readsMs = Number.POSITIVE_INFINITY;
      void read();
    });
  }

  async function read(): Promise<void> {
    isReading = true;
    isDirty = false;
    for (const name of outdated) current.delete(name);
    outdated.clear();
    const units = podUnits;
    const before = resets;
    const failed = await askAll();
    const found = await idlePods();
    isReading = false;
    if (isClosed) return;
    idle = found;
    graph = createTieGraph(asked, podUnits);
    if (failed.every(isAnswer) && before === resets && !isReloading) told = new Set(units.keys());
    settle();
    wake();
    if (isDirty) readIn(units === podUnits && before === resets ? SETTLE_MS : 0);
    else if (failed.length > 0 && systemd.isUp()) readIn(RETRY_MS);
  }

  /** Queries what is not known yet about the pods' units and everything that may stop with them. Returns what was not said. */
  async function askAll(): Promise<readonly Unknown[]> {
    const tried = new Set<string>();
    const failed: Unknown[] = [];
    const ask = async (name: string): Promise<boolean> => {
      if (current.has(name)) return true;
      inFlight.add(name);
      const ties = await systemd.ties(name);
      if (!inFlight.delete(name)) outdated.add(name);
      if (!ties.known) failed.push(ties);
      else {
        asked.set(name, ties.value);
        current.add(name);
      }
      return ties.known || isAnswer(ties);
    };
    let around = unitsAround(podUnits.keys(), asked);
    const next = (): readonly string[] =>
      [...around.reached, ...around.beside].filter((name) => !tried.has(name)).slice(0, MAX_UNITS - tried.size);
    for (let names = next(); names.length > 0 && !isClosed; names = next()) {
      for (const name of names) tried.add(name);
      for (const rest = [...names]; rest.length > 0 && !isClosed; ) {
        const answered = await Promise.all(rest.splice(0, AT_ONCE).map(ask));
        // It is silent: the rest is asked with the next attempt.
        if (!answered.includes(true)) break;
      }
      around = unitsAround(podUnits.keys(), asked);
    }
    beside = around.beside;
    for (const name of asked.keys()) {
      if (around.reached.has(name) || beside.has(name)) continue;
      asked.delete(name);
      current.delete(name);
    }
    return failed;
  }

  async function idlePods(): Promise<ReadonlySet<PodUid>> {
    const found = new Set<PodUid>();
    for (const [unit, uid] of podUnits) {
      const ties = asked.get(unit);
      if (ties?.activeState !== 'active' || ties.subState !== 'exited' || isClosed) continue;
      if (!stopCommands.has(unit)) {
        const has = await systemd.stopCommands(unit);
        if (has.known) stopCommands.set(unit, has.value > 0);
      }
      if (stopCommands.get(unit) === true) found.add(uid);
    }
    for (const unit of stopCommands.keys()) if (!podUnits.has(unit)) stopCommands.delete(unit);
    return found;
  }

  const isBetweenRuns = (unit: string): boolean => isAutoRestart(asked.get(unit)?.subState ?? '');
  const isToStart = (unit: string): boolean => isBetweenRuns(unit) || asked.get(unit)?.isToStart === true;

  /** Null: none, or its unit is another pod's. */
  function ownUnit(uid: PodUid): string | null {
    const unit = unitOf(uid);
    return unit !== null && podUnits.get(unit) === uid ? unit : null;
  }

  function withState(pod: BoundPod): BoundPod {
    const { cgroup, declared } = pod;
    if (idle.has(declared.uid)) return { ...pod, isIdle: true };
    // Nothing else is known to be wrong with its binding.
    const unit = cgroup.known || cgroup.why !== 'absent' || !systemd.isUp() ? null : ownUnit(declared.uid);
    return unit !== null && isBetweenRuns(unit) ? { ...pod, isBetweenRuns: true } : pod;
  }

  /** It runs, or systemd will start it again and may not have said so yet: a stop of what it depends on keeps it down. */
  function isUp({ declared: { uid }, cgroup, isIdle }: BoundPod): boolean {
    if (cgroup.known || isIdle === true) return true;
    const unit = ownUnit(uid);
    const said = unit === null ? undefined : asked.get(unit);
    // A slice without processes, and a unit without any that has nothing to do when it stops, lose nothing.
    return said !== undefined && runs(said) && said.subState !== 'exited' && unit?.endsWith('.slice') === false;
  }

  function jobOf(unit: string): void {
    if (forget(unit)) readIn(SETTLE_MS);
    else void checkStranger(unit);
  }

  /** Also without a job. With one, most changes are known by now. */
  function stateOf(unit: string, { activeState, subState }: UnitState): void {
    const said = asked.get(unit);
    const isKnown = said?.activeState === activeState && said.subState === subState;
    if (isKnown && current.has(unit)) return;
    if (said !== undefined)
      asked.set(unit, { ...said, activeState: activeState || said.activeState, subState: subState || said.subState });
    if (forget(unit)) readIn(SETTLE_MS);
  }

  /** False: nothing was known about it, and no query is in progress. */
  function forget(unit: string): boolean {
    return current.delete(unit) || inFlight.delete(unit) || outdated.has(unit);
  }

  /** A unit that was not loaded before may still depend on a pod's unit. */
  async function checkStranger(unit: string): Promise<void> {
    if (podUnits.size === 0 || isCommand(unit)) return;
    if (clock.monoMs() - strangersSinceMs > STRANGERS_MS) {
      strangers = 0;
      strangersSinceMs = clock.monoMs();
    }
    strangers += 1;
    if (strangers > MAX_STRANGERS) {
      cancelForget ??= clock.after(strangersSinceMs + STRANGERS_MS - clock.monoMs(), () => {
        cancelForget = null;
        forgetAll(SETTLE_MS);
      });
      return;
    }
    const ties = await systemd.ties(unit);
    if (!ties.known) return;
    const on = HANGS_ON.flatMap((list) => ties.value.relations[list] ?? []).filter(
      (name) => !beside.has(name) && forget(name),
    );
    if (on.length > 0) readIn(SETTLE_MS);
  }

  function forgetAll(ms: number): void {
    current.clear();
    inFlight.clear();
    stopCommands.clear();
    readIn(ms);
  }

  function untell(): void {
    resets += 1;
    told = new Set();
  }

  function reload(isBegun: boolean): void {
    isReloading = isBegun;
    untell();
    settle();
    if (!isBegun) forgetAll(SETTLE_MS);
  }

  const ends = [
    systemd.whenJobBegins(jobOf),
    systemd.whenJobEnds(({ unit }) => jobOf(unit)),
    systemd.whenStateChanges(stateOf),
    systemd.whenReloading(reload),
    systemd.whenUp(() => {
      isReloading = false;
      untell();
      if (!areTold()) answer.askAgain();
      forgetAll(0);
    }),
  ];
  return {
    unsettled: answer.unsettled,
    isTold: answer.isHere,
    tied: (pods) => {
      const units = unitsOf(pods, unitOf);
      const now = [...units].join(' ');
      if (now !== key) {
        key = now;
        podUnits = units;
        told = new Set([...told].filter((unit) => units.has(unit)));
        graph = createTieGraph(asked, podUnits);
        settle();
        readIn(0);
      }
      const stated = pods.map(withState);
      return graph.isEmpty ? stated : withTies(stated, graph, isUp);
    },
    isIdle: (uid) => idle.has(uid),
    doubtRestart: (uid) => {
      const unit = unitOf(uid);
      const said = unit === null ? undefined : asked.get(unit);
      if (unit === null || said === undefined || !isBetweenRuns(unit)) return;
      asked.set(unit, { ...said, subState: '' });
      if (forget(unit)) readIn(SETTLE_MS);
    },
    others: (unit) => graph.others(unit),
    podsWith: (unit) => graph.of(podUnits.get(unit) ?? '')?.pods ?? [],
    upIn: (slice) =>
      graph.within(slice).filter((name) => !name.endsWith('.slice') && (isToStart(name) || runs(asked.get(name)))),
    isBetweenRuns,
    isToStart,
    runsNow: (unit) => isToStart(unit) || (asked.get(unit)?.activeState !== 'deactivating' && runs(asked.get(unit))),
    close: () => {
      isClosed = true;
      cancelTimer?.();
      cancelForget?.();
      answer.close();
      for (const end of ends) end();
    },
  };
}

/** If two pods claim one unit, the second is refused: it takes nothing from the first. */
function unitsOf(pods: readonly BoundPod[], unitOf: TiesNeeds['unitOf']): ReadonlyMap<string, PodUid> {
  const units = new Map<string, PodUid>();
  const placed = new Set<string>();
  for (const { declared, cgroup } of pods) {
    const unit = unitOf(declared.uid);
    if (unit === null || placed.has(unit) || (units.has(unit) && !cgroup.known)) continue;
    units.set(unit, declared.uid);
    if (cgroup.known) placed.add(unit);
  }
  return units;
}
