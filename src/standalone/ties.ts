import { type Inherited, type PodUid, podName } from '../core/pod/pod.ts';
import type { Systemd } from '../host/systemd.ts';
import { isAutoRestart, type UnitState, type UnitTies } from '../host/unit-facts.ts';
import type { BoundPod, Clock } from '../ports.ts';
import { createTieGraph, neededBy, needsOf, stopsWith, type TieGraph } from './tie-graph.ts';

type TiesNeeds = {
  readonly clock: Clock;
  readonly systemd: Pick<
    Systemd,
    'ties' | 'stopCommands' | 'whenJobBegins' | 'whenJobEnds' | 'whenStateChanges' | 'whenReloaded' | 'whenUp' | 'isUp'
  >;
  /** By its own name; null: the pod has none. */
  readonly unitOf: (uid: PodUid) => string | null;
  readonly wake: () => void;
};
export type Ties = {
  /** The pods with what systemd would stop along with them, and in which order. Sends no query. */
  readonly tied: (pods: readonly BoundPod[]) => readonly BoundPod[];
  /** Its unit is active without processes and has something to do when it stops (RemainAfterExit=, ExecStop=). */
  readonly isIdle: (uid: PodUid) => boolean;
  /** Whether systemd is about to start its unit again is not known, until it says so anew. */
  readonly doubtRestart: (uid: PodUid) => void;
  /** Running units that are not pods and would be stopped along with it. */
  readonly others: (unit: string) => readonly string[];
  /** Pods that would be stopped along with it, running or not. */
  readonly podsWith: (uid: PodUid) => readonly PodUid[];
  readonly close: () => void;
};

/** The wait after a change, for others that come with it. */
const SETTLE_MS = 100;
const RETRY_MS = 5_000;
/** The maximum number of queried units: pods and the units that depend on them. */
const MAX_UNITS = 4_096;
/**
 * Other units that started: at most this many are checked within the time for a dependency on a pod's unit. If there were
 * more, everything is queried again when it is over.
 */
const MAX_STRANGERS = 20;
const STRANGERS_MS = 10_000;
/** Properties by which a unit itself declares that it stops with another one, or keeps it running. */
const HANGS_ON = ['Requires', 'Requisite', 'BindsTo', 'PartOf', 'StopPropagatedFrom', 'Wants', 'Upholds'];

/**
 * D16 and the order of stops: how the pods' units depend on each other, queried from systemd beside the loop when
 * something changes.
 */
export function createTies({ clock, systemd, unitOf, wake }: TiesNeeds): Ties {
  /** The last answers: that of a unit that has changed since counts until it answers again. */
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
  /** Units that systemd is about to start again, by its last word. */
  const restarting = new Set<string>();
  let podUnits: ReadonlyMap<string, PodUid> = new Map();
  let key = '';
  let isReading = false;
  let isDirty = false;
  let isClosed = false;
  let strangers = 0;
  let strangersSinceMs = Number.NEGATIVE_INFINITY;
  let cancelTimer: (() => void) | null = null;
  let cancelForget: (() => void) | null = null;

  function readIn(ms: number): void {
    if (isReading) isDirty = true;
    else
      cancelTimer ??= clock.after(ms, () => {
        cancelTimer = null;
        void read();
      });
  }

  async function read(): Promise<void> {
    isReading = true;
    isDirty = false;
    for (const name of outdated) current.delete(name);
    outdated.clear();
    const isWhole = await askAll();
    const found = await idlePods();
    isReading = false;
    if (isClosed) return;
    idle = found;
    graph = createTieGraph(asked, podUnits);
    wake();
    if (isDirty) readIn(SETTLE_MS);
    else if (!isWhole && systemd.isUp()) readIn(RETRY_MS);
  }

  /** Queries what is not known yet about the pods' units and everything that would stop with them. */
  async function askAll(): Promise<boolean> {
    const reached = new Set<string>(podUnits.keys());
    const seen = new Set<string>();
    let isWhole = true;
    const ask = async (names: readonly string[]): Promise<void> => {
      await Promise.all(
        names.map(async (name) => {
          if (current.has(name)) return;
          inFlight.add(name);
          const ties = await systemd.ties(name);
          if (!inFlight.delete(name)) outdated.add(name);
          if (!ties.known) isWhole = false;
          else {
            asked.set(name, ties.value);
            noteSubState(name, ties.value.subState);
            current.add(name);
          }
        }),
      );
    };
    const addTo = (set: Set<string>, names: readonly string[]): readonly string[] => {
      const fresh = [...new Set(names)].filter((name) => !set.has(name)).slice(0, MAX_UNITS - set.size);
      for (const name of fresh) set.add(name);
      return fresh;
    };
    let next: readonly string[] = [...reached];
    while (next.length > 0 && !isClosed) {
      await ask(next);
      const around = next.map((name) => asked.get(name)).flatMap((ties) => [...needsOf(ties), ...neededBy(ties)]);
      const looked = addTo(seen, around);
      await ask(looked);
      const unneeded = looked.filter((name) => asked.get(name)?.stopsUnneeded === true);
      next = addTo(reached, [...next.flatMap((name) => stopsWith(asked.get(name))), ...unneeded]);
    }
    beside = new Set([...seen].filter((name) => !reached.has(name)));
    for (const name of asked.keys()) {
      if (reached.has(name) || seen.has(name)) continue;
      asked.delete(name);
      restarting.delete(name);
      current.delete(name);
    }
    return isWhole;
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

  function noteSubState(unit: string, subState: string): void {
    if (isAutoRestart(subState)) restarting.add(unit);
    else restarting.delete(unit);
  }

  /** Its unit is not another pod's, and nothing else is known to be wrong with its binding. */
  function isBetweenRuns({ declared: { uid }, cgroup }: BoundPod): boolean {
    const unit = cgroup.known || cgroup.why !== 'absent' || !systemd.isUp() ? null : unitOf(uid);
    return unit !== null && restarting.has(unit) && podUnits.get(unit) === uid;
  }

  function jobOf(unit: string): void {
    if (forget(unit)) readIn(SETTLE_MS);
    else void checkStranger(unit);
  }

  /** Also without a job. With one, most changes are known by now. */
  function stateOf(unit: string, { activeState, subState }: UnitState): void {
    if (podUnits.has(unit) && subState !== '') noteSubState(unit, subState);
    const known = current.has(unit) ? asked.get(unit) : undefined;
    if (known?.activeState === activeState && known.subState === subState) return;
    if (forget(unit)) readIn(SETTLE_MS);
  }

  /** False: nothing was known about it, and no query is in progress. */
  function forget(unit: string): boolean {
    return current.delete(unit) || inFlight.delete(unit) || outdated.has(unit);
  }

  /** A unit that was not loaded before may still depend on a pod's unit. */
  async function checkStranger(unit: string): Promise<void> {
    if (podUnits.size === 0) return;
    if (clock.monoMs() - strangersSinceMs > STRANGERS_MS) {
      strangers = 0;
      strangersSinceMs = clock.monoMs();
    }
    strangers += 1;
    if (strangers > MAX_STRANGERS) {
      cancelForget ??= clock.after(strangersSinceMs + STRANGERS_MS - clock.monoMs(), () => {
        cancelForget = null;
        forgetAll();
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

  function forgetAll(): void {
    current.clear();
    inFlight.clear();
    stopCommands.clear();
    readIn(SETTLE_MS);
  }

  const ends = [
    systemd.whenJobBegins(jobOf),
    systemd.whenJobEnds(({ unit }) => jobOf(unit)),
    systemd.whenStateChanges(stateOf),
    systemd.whenReloaded(forgetAll),
    systemd.whenUp(forgetAll),
  ];
  return {
    tied: (pods) => {
      const units = unitsOf(pods, unitOf);
      const now = [...units].join(' ');
      if (now !== key) {
        key = now;
        podUnits = units;
        readIn(0);
      }
      const tied = graph.isEmpty ? pods : withTies(pods, graph, idle);
      if (idle.size === 0 && restarting.size === 0) return tied;
      return tied.map((pod) => {
        const { uid } = pod.declared;
        if (idle.has(uid)) return { ...pod, isIdle: true };
        return isBetweenRuns(pod) ? { ...pod, isBetweenRuns: true } : pod;
      });
    },
    isIdle: (uid) => idle.has(uid),
    doubtRestart: (uid) => {
      const unit = unitOf(uid);
      if (unit !== null && restarting.delete(unit) && forget(unit)) readIn(SETTLE_MS);
    },
    others: (unit) => graph.others(unit),
    podsWith: (uid) => graph.of(uid)?.pods ?? [],
    close: () => {
      isClosed = true;
      cancelTimer?.();
      cancelForget?.();
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

function withTies(pods: readonly BoundPod[], graph: TieGraph, idle: ReadonlySet<PodUid>): readonly BoundPod[] {
  const byUid = new Map(pods.map((pod) => [pod.declared.uid, pod]));
  const running = (uids: readonly PodUid[]): readonly BoundPod['declared'][] =>
    uids.flatMap((uid) => {
      const found = byUid.get(uid);
      return found !== undefined && (found.cgroup.known || found.isIdle === true || idle.has(uid))
        ? [found.declared]
        : [];
    });
  const inherited = inheritance(pods, graph, running);
  return pods.map((pod) => {
    const { uid } = pod.declared;
    const ties = graph.of(uid);
    const from = inherited.get(uid);
    if (ties === null && from === undefined) return pod;
    const along = running(ties?.pods ?? []);
    const takesAlong = [...along.map(podName), ...(ties?.units ?? [])];
    const stopsAfter = ties?.after.filter((other) => byUid.has(other)) ?? [];
    const stopsAfterUnits = ties?.afterUnits ?? [];
    return {
      ...pod,
      declared: {
        ...pod.declared,
        // A pod whose stop also stops a pod that must not be chosen, or only last, must not be chosen before that one.
        isStaticCritical: pod.declared.isStaticCritical || along.some(({ isStaticCritical }) => isStaticCritical),
        isProtected: pod.declared.isProtected || along.some(({ isProtected }) => isProtected),
        ...narrowest([pod.declared, ...along]),
        ...(from === undefined ? {} : { inherited: from }),
        ...(takesAlong.length === 0 ? {} : { takesAlong }),
        ...(stopsAfter.length === 0 ? {} : { stopsAfter }),
        ...(stopsAfterUnits.length === 0 ? {} : { stopsAfterUnits }),
      },
    };
  });
}

/**
 * D16, also for a pod that is stopped with the last of several: one of these has to outlast the others, the one that does
 * already, and so do the pods that would stop that one.
 */
function inheritance(
  pods: readonly BoundPod[],
  graph: TieGraph,
  running: (uids: readonly PodUid[]) => readonly BoundPod['declared'][],
): ReadonlyMap<PodUid, Inherited> {
  const found = new Map<PodUid, Inherited>();
  const own = new Map(pods.map(({ declared }) => [declared.uid, declared.priority]));
  const rank = (uid: PodUid): number => found.get(uid)?.priority ?? own.get(uid) ?? Number.NEGATIVE_INFINITY;
  const pass = (uids: readonly PodUid[], to: readonly PodUid[]): boolean => {
    let isNew = false;
    for (const pod of running(uids)) {
      const given = found.get(pod.uid) ?? { priority: pod.priority, from: podName(pod) };
      for (const uid of to) {
        if (!own.has(uid) || given.priority <= rank(uid)) continue;
        found.set(uid, given);
        isNew = true;
      }
    }
    return isNew;
  };
  const lasts = (holders: readonly PodUid[]): number => Math.min(...holders.map(rank));
  const passAll = (): boolean => {
    const direct = pods.map(({ declared: { uid } }) => pass(graph.of(uid)?.pods ?? [], [uid]));
    const shared = graph.shared.map(({ pods: uids, heldBy }) => {
      const [last = []] = heldBy.toSorted((a, b) => lasts(b) - lasts(a));
      return pass(uids, last);
    });
    return [...direct, ...shared].includes(true);
  };
  while (passAll());
  return found;
}

/** The resources for which all of them may be evicted. */
function narrowest(pods: readonly BoundPod['declared'][]): Pick<BoundPod['declared'], 'evictFor'> {
  const lists = pods.flatMap(({ evictFor }) => (evictFor === undefined ? [] : [evictFor]));
  const [first] = lists;
  if (first === undefined) return {};
  return { evictFor: first.filter((resource) => lists.every((list) => list.includes(resource))) };
}
