import type { PodUid } from '../core/pod/pod.ts';
import type { UnitTies } from '../host/unit-facts.ts';

type PodTies = {
  /** Pods that are stopped with it, running or not. */
  readonly pods: readonly PodUid[];
  /** Running units that are not pods and are stopped with it. */
  readonly units: readonly string[];
  /** Pods that are stopped before it if both are stopped. */
  readonly after: readonly PodUid[];
  /** The same for units that are not pods and would be stopped along with one. */
  readonly afterUnits: readonly string[];
};
/** A unit with StopWhenUnneeded= that is stopped with the last of several. */
type Shared = {
  /** It and the pods that are stopped with it. */
  readonly pods: readonly PodUid[];
  /** For each unit that needs it: the pods that stop that unit. While one of these units runs, nothing happens to it. */
  readonly heldBy: readonly (readonly PodUid[])[];
};
export type TieGraph = {
  readonly isEmpty: boolean;
  readonly shared: readonly Shared[];
  /** Null: it has no ties. */
  readonly of: (uid: PodUid) => PodTies | null;
  readonly others: (unit: string) => readonly string[];
};

/** What systemd stops when it stops a unit. */
const STOPS_WITH = ['RequiredBy', 'RequisiteOf', 'BoundBy', 'ConsistsOf', 'PropagatesStopTo'];
/** What systemd counts as a need of a unit with StopWhenUnneeded=, from both ends. */
const NEEDED_BY = ['RequiredBy', 'RequisiteOf', 'WantedBy', 'BoundBy', 'UpheldBy'];
const NEEDS = ['Requires', 'Requisite', 'Wants', 'BindsTo', 'Upholds'];
const RUNS: readonly string[] = ['active', 'activating', 'reloading', 'deactivating'];
const NOTHING: readonly string[] = [];

const listed = (ties: UnitTies | undefined, lists: readonly string[]): readonly string[] =>
  ties === undefined ? [] : lists.flatMap((list) => ties.relations[list] ?? []);
export const stopsWith = (ties: UnitTies | undefined): readonly string[] => listed(ties, STOPS_WITH);
/** Those that it needs: one with StopWhenUnneeded= may be stopped with it. */
export const needsOf = (ties: UnitTies | undefined): readonly string[] => listed(ties, NEEDS);
/** Those that keep it running; none without StopWhenUnneeded=. */
export const neededBy = (ties: UnitTies | undefined): readonly string[] =>
  ties?.stopsUnneeded === true ? [...new Set(listed(ties, NEEDED_BY))].toSorted() : NOTHING;

/**
 * `asked`: every unit of a pod and everything that is stopped along with one, with what these need and what else needs that,
 * by its own name.
 */
export function createTieGraph(asked: ReadonlyMap<string, UnitTies>, podUnits: ReadonlyMap<string, PodUid>): TieGraph {
  const runs = (name: string): boolean => RUNS.includes(asked.get(name)?.activeState ?? '');
  const stranger = (name: string): boolean => !podUnits.has(name);
  // One that could not be asked about may run.
  const needing = (name: string): readonly string[] =>
    runs(name) ? neededBy(asked.get(name)).filter((other) => !asked.has(other) || runs(other)) : NOTHING;
  const closures = new Map([...podUnits.keys()].map((unit) => [unit, stoppedWith(unit, asked, needing)]));
  /** Units between pods: they get a stop job, too. */
  const between = new Set(
    [...closures.values()].flatMap((names) => [...names].filter((name) => stranger(name) && runs(name))),
  );
  const before = (name: string): readonly string[] => asked.get(name)?.relations['Before'] ?? [];
  const ties = new Map<PodUid, PodTies>();
  const othersOf = new Map<string, readonly string[]>();
  for (const [unit, uid] of podUnits) {
    const along = [...(closures.get(unit) ?? [])];
    const others = along.filter((name) => stranger(name) && !unit.endsWith('.slice') && runs(name));
    // Units in a slice require it, but they are the pod itself.
    othersOf.set(unit, others);
    // Through units that are not pods, to the first pods on each path.
    const first = closure(unit, (name) =>
      name === unit || between.has(name)
        ? before(name).filter((next) => podUnits.has(next) || between.has(next))
        : NOTHING,
    );
    const uidsOf = (names: Iterable<string>): readonly PodUid[] =>
      [...names].flatMap((name) => podUnits.get(name) ?? []);
    const made = { pods: uidsOf(along), units: others, after: uidsOf(first), afterUnits: [...first].filter(stranger) };
    if (made.pods.length + made.units.length + made.after.length + made.afterUnits.length > 0) ties.set(uid, made);
  }
  const shared = [...asked.keys()].flatMap((name): readonly Shared[] => {
    const needs = needing(name);
    if (needs.length < 2) return [];
    const holders = [...closures].filter(([unit]) => unit !== name);
    const heldBy = needs.map((need) =>
      holders.flatMap(([unit, along]) => (unit === need || along.has(need) ? (podUnits.get(unit) ?? []) : [])),
    );
    const along = [name, ...stoppedWith(name, asked, needing)].flatMap((unit) => podUnits.get(unit) ?? []);
    return along.length > 0 && heldBy.every((pods) => pods.length > 0) ? [{ pods: along, heldBy }] : [];
  });
  return {
    isEmpty: ties.size === 0 && shared.length === 0,
    shared,
    of: (uid) => ties.get(uid) ?? null,
    others: (unit) => othersOf.get(unit) ?? NOTHING,
  };
}

/** What is stopped with it, and then is no longer needed. */
function stoppedWith(
  unit: string,
  asked: ReadonlyMap<string, UnitTies>,
  needing: (name: string) => readonly string[],
): ReadonlySet<string> {
  const next = (name: string): readonly string[] => stopsWith(asked.get(name));
  const stopped = new Set([unit, ...closure(unit, next)]);
  const isUnneeded = (name: string): boolean => {
    const needs = needing(name);
    return !stopped.has(name) && needs.length > 0 && needs.every((other) => stopped.has(other));
  };
  const unneeded = (): string | undefined => [...stopped].flatMap((name) => needsOf(asked.get(name))).find(isUnneeded);
  for (let name = unneeded(); name !== undefined; name = unneeded()) {
    for (const other of [name, ...closure(name, next)]) stopped.add(other);
  }
  stopped.delete(unit);
  return stopped;
}

/** All that systemd stops with it, as far as it is known what that stops in turn. */
export const allStoppedWith = (unit: string, asked: ReadonlyMap<string, UnitTies>): ReadonlySet<string> =>
  closure(unit, (name) => stopsWith(asked.get(name)));

/** Everything that can be reached, without the start. */
function closure(from: string, next: (name: string) => readonly string[]): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [from];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    for (const other of next(name)) {
      if (other === from || found.has(other)) continue;
      found.add(other);
      open.push(other);
    }
  }
  return found;
}
