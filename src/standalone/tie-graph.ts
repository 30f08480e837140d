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
export type TieGraph = {
  readonly isEmpty: boolean;
  /** Null: it has no ties. */
  readonly of: (uid: PodUid) => PodTies | null;
  readonly others: (unit: string) => readonly string[];
};

/** What systemd stops when it stops a unit. */
const STOPS_WITH = ['RequiredBy', 'RequisiteOf', 'BoundBy', 'ConsistsOf', 'PropagatesStopTo'];
const RUNS: readonly string[] = ['active', 'activating', 'reloading', 'deactivating'];
const NOTHING: readonly string[] = [];

export const stopsWith = (ties: UnitTies | undefined): readonly string[] =>
  ties === undefined ? [] : STOPS_WITH.flatMap((list) => ties.relations[list] ?? []);

/** `asked`: every unit of a pod and everything that is stopped along with one, by its own name. */
export function createTieGraph(asked: ReadonlyMap<string, UnitTies>, podUnits: ReadonlyMap<string, PodUid>): TieGraph {
  const runs = (name: string): boolean => RUNS.includes(asked.get(name)?.activeState ?? '');
  const stranger = (name: string): boolean => !podUnits.has(name);
  const closures = new Map(
    [...podUnits.keys()].map((unit) => [unit, closure(unit, (name) => stopsWith(asked.get(name)))]),
  );
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
  return {
    isEmpty: ties.size === 0,
    of: (uid) => ties.get(uid) ?? null,
    others: (unit) => othersOf.get(unit) ?? NOTHING,
  };
}

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
