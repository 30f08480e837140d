import type { MachineAction, PodUid } from '../../core/pod/pod.ts';
import { isShutdown, takesMachineDown, type UnitTies } from '../../host/systemd/unit-facts.ts';

type PodTies = {
  /** Pods that are stopped with it, running or not. */
  readonly pods: readonly PodUid[];
  /** Pods that are stopped once it has ended, for what systemd starts then. */
  readonly displaced: readonly PodUid[];
  /** Running units that are not pods and are stopped with it. */
  readonly units: readonly string[];
  /** Pods that are stopped before it if both are stopped. */
  readonly after: readonly PodUid[];
  /** The same for units that are not pods and would be stopped along with one. */
  readonly afterUnits: readonly string[];
  /** `FailureAction=reboot of web.service`, or the like of another unit that runs and may be stopped with it; absent: none. */
  readonly machineAction?: MachineAction;
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
  /** The units in the slice of a pod, running or not. */
  readonly within: (slice: string) => readonly string[];
};

/** By what a unit itself declares that it stops with another one, and by what that one lists it. */
const STOP_LISTED_BY = {
  Requires: 'RequiredBy',
  Requisite: 'RequisiteOf',
  BindsTo: 'BoundBy',
  PartOf: 'ConsistsOf',
  StopPropagatedFrom: 'PropagatesStopTo',
};
/** With what systemd stops a unit. */
export const STOPS_FROM: readonly string[] = Object.keys(STOP_LISTED_BY);
/** What systemd stops when it stops a unit. */
const STOPS_WITH = Object.values(STOP_LISTED_BY);
/** The same with what keeps another one running. */
const LISTED_BY = { ...STOP_LISTED_BY, Wants: 'WantedBy', Upholds: 'UpheldBy' };
export const HANGS_ON: readonly string[] = Object.keys(LISTED_BY);
const OTHER_ENDS = Object.entries({ ...LISTED_BY, After: 'Before', Conflicts: 'ConflictedBy' });
/** What systemd starts when a unit has ended. Whether it will have failed is not foreseeable. */
const STARTED_AT_END = ['OnSuccess', 'OnFailure'];
/** What systemd counts as a need of a unit with StopWhenUnneeded=, from both ends. */
const NEEDED_BY = ['RequiredBy', 'RequisiteOf', 'WantedBy', 'BoundBy', 'UpheldBy'];
/** What systemd starts along with a unit. */
export const STARTS_WITH = ['Requires', 'BindsTo', 'Wants', 'Upholds'];
const NEEDS = [...STARTS_WITH, 'Requisite'];
/** Units in conflict with it according to systemd: starting one stops the others. */
export const CONFLICTS = ['Conflicts', 'ConflictedBy'];
const RUNS: readonly string[] = ['active', 'activating', 'reloading', 'deactivating'];
const NOTHING: readonly string[] = [];

const listed = (ties: UnitTies | undefined, lists: readonly string[]): readonly string[] =>
  ties === undefined ? [] : lists.flatMap((list) => ties.relations[list] ?? []);
/** Excludes one that is down, and stays so: a stop of what it depends on cancels its start. */
export const runs = (ties: UnitTies | undefined): boolean =>
  RUNS.includes(ties?.activeState ?? '') || ties?.isToStart === true;
export const stopsWith = (ties: UnitTies | undefined): readonly string[] => listed(ties, STOPS_WITH);
/** Those that it needs: one with StopWhenUnneeded= may be stopped with it. */
const needsOf = (ties: UnitTies | undefined): readonly string[] => listed(ties, NEEDS);
/** Those that keep it running; none without StopWhenUnneeded=. */
const neededBy = (ties: UnitTies | undefined): readonly string[] =>
  ties?.stopsUnneeded === true ? [...new Set(listed(ties, NEEDED_BY))].toSorted() : NOTHING;

/** The same with what only one end has said: a unit does not list those that were not loaded when it was asked. */
function fromBothEnds(asked: ReadonlyMap<string, UnitTies>): ReadonlyMap<string, UnitTies> {
  const added = new Map<string, Map<string, Set<string>>>();
  for (const [name, { relations }] of asked) {
    for (const [said, list] of OTHER_ENDS) {
      for (const other of relations[said] ?? []) {
        if (!asked.has(other)) continue;
        const lists = added.get(other) ?? new Map<string, Set<string>>();
        const names = lists.get(list) ?? new Set(asked.get(other)?.relations[list]);
        added.set(other, lists.set(list, names.add(name)));
      }
    }
  }
  const of = (name: string) => [...(added.get(name) ?? [])].map(([list, names]) => [list, [...names]] as const);
  return new Map(
    [...asked].map(([name, ties]) => [
      name,
      { ...ties, relations: { ...ties.relations, ...Object.fromEntries(of(name)) } },
    ]),
  );
}

type Starts = {
  /** What does not run and is started at the ends of all units so far. */
  readonly started: ReadonlySet<string>;
  /** What is in conflict with what is started at the end of this unit, and at no earlier one. */
  readonly rivalsAtEnd: (unit: string) => readonly string[];
};
/** Of several units that end, each start is followed once. */
function createStarts(asked: ReadonlyMap<string, UnitTies>): Starts {
  const started = new Set<string>();
  return {
    started,
    rivalsAtEnd: (unit) => {
      const rivals: string[] = [];
      const open = [...listed(asked.get(unit), STARTED_AT_END)];
      for (const name of open) {
        const ties = asked.get(name);
        if (started.has(name) || runs(ties)) continue;
        started.add(name);
        // It stops every unit of the machine, and says enough by itself.
        if (takesMachineDown(name)) continue;
        const conflicts = listed(ties, CONFLICTS);
        const upheld = listed(ties, ['Upholds']);
        // systemd does not start the two together, and by default each unit is in conflict with a shutdown. What it upholds
        // is started once it runs.
        const isRefused = (other: string): boolean =>
          isShutdown(other) && conflicts.includes('shutdown.target') && !upheld.includes(other);
        for (const other of listed(ties, STARTED_AT_END)) open.push(other);
        for (const other of listed(ties, STARTS_WITH)) if (!isRefused(other)) open.push(other);
        // Also if it then fails because a unit that has to run already (Requisite=) does not: they are stopped all the same.
        for (const other of conflicts) rivals.push(other);
      }
      return rivals;
    },
  };
}

type Around = {
  /** The units of pods, and what may stop with one. */
  readonly reached: ReadonlySet<string>;
  /** What is of interest only for those. */
  readonly beside: ReadonlySet<string>;
};
/** All that a graph has to know, as far as this is known already. */
export function unitsAround(units: Iterable<string>, said: ReadonlyMap<string, UnitTies>): Around {
  const asked = fromBothEnds(said);
  const reached = new Set(units);
  const seen = new Set<string>();
  const { started, rivalsAtEnd } = createStarts(asked);
  for (const name of reached) {
    const ties = asked.get(name);
    const around = [...needsOf(ties), ...neededBy(ties)];
    const rivals = rivalsAtEnd(name);
    for (const other of [...around, ...rivals]) seen.add(other);
    const unneeded = around.filter((other) => asked.get(other)?.stopsUnneeded === true);
    const displaced = rivals.filter((other) => runs(asked.get(other)));
    for (const other of [...stopsWith(ties), ...unneeded, ...displaced]) reached.add(other);
  }
  return { reached, beside: new Set([...seen, ...started].filter((name) => !reached.has(name))) };
}

/**
 * `said`: every unit of a pod and everything that may be stopped along with one, with what is around these, by its own name.
 */
export function createTieGraph(said: ReadonlyMap<string, UnitTies>, podUnits: ReadonlyMap<string, PodUid>): TieGraph {
  const asked = fromBothEnds(said);
  const isUp = (name: string): boolean => runs(asked.get(name));
  const stranger = (name: string): boolean => !podUnits.has(name);
  // One that could not be asked about may run.
  const needing = (name: string): readonly string[] =>
    isUp(name) ? neededBy(asked.get(name)).filter((other) => !asked.has(other) || isUp(other)) : NOTHING;
  const closures = new Map([...podUnits.keys()].map((unit) => [unit, stoppedWith(unit, asked, needing)]));
  /** Units between pods: they get a stop job, too. */
  const between = new Set(
    [...closures.values()].flatMap((names) => [...names].filter((name) => stranger(name) && isUp(name))),
  );
  const before = (name: string): readonly string[] => asked.get(name)?.relations['Before'] ?? [];
  const ties = new Map<PodUid, PodTies>();
  const othersOf = new Map<string, readonly string[]>();
  const ownOf = new Map<string, readonly string[]>();
  for (const [unit, uid] of podUnits) {
    const along = [...(closures.get(unit) ?? [])];
    // Units in a slice require it, but they are the pod itself.
    const own = closure(unit, (name) => unitsOfSlice(name, asked));
    const others = along.filter((name) => stranger(name) && !own.has(name) && isUp(name));
    othersOf.set(unit, others);
    ownOf.set(unit, [...own]);
    // Through units that are not pods, to the first pods on each path.
    const first = closure(unit, (name) =>
      name === unit || between.has(name)
        ? before(name).filter((next) => podUnits.has(next) || between.has(next))
        : NOTHING,
    );
    const uidsOf = (names: Iterable<string>): readonly PodUid[] =>
      [...names].flatMap((name) => podUnits.get(name) ?? []);
    const { more, started } = stoppedAfter(unit, along, asked);
    const made = {
      pods: uidsOf(along),
      displaced: uidsOf([...more].filter((name) => closures.get(unit)?.has(name) !== true)),
      units: others,
      after: uidsOf(first),
      afterUnits: [...first].filter(stranger),
    };
    const machineAction = machineActionOf(unit, [...more].filter(isUp), asked, started);
    const count = Object.values(made).flat().length;
    if (machineAction !== null) ties.set(uid, { ...made, machineAction });
    else if (count > 0) ties.set(uid, made);
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
    within: (slice) => ownOf.get(slice) ?? NOTHING,
  };
}

/** None for a unit of another type. Below systemd 249, also what requires the slice from outside. */
function unitsOfSlice(name: string, asked: ReadonlyMap<string, UnitTies>): readonly string[] {
  const relations = name.endsWith('.slice') ? asked.get(name)?.relations : undefined;
  return relations?.['SliceOf'] ?? relations?.['RequiredBy'] ?? NOTHING;
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

/** What is stopped with it, and once that has ended, for what systemd starts then; and what that is. */
function stoppedAfter(
  unit: string,
  along: readonly string[],
  asked: ReadonlyMap<string, UnitTies>,
): { readonly more: ReadonlySet<string>; readonly started: ReadonlySet<string> } {
  const isUp = (name: string): boolean => runs(asked.get(name));
  const { started, rivalsAtEnd } = createStarts(asked);
  const more = new Set([unit, ...along]);
  for (const name of more) {
    for (const other of stopsWith(asked.get(name))) more.add(other);
    // Of the others, only what runs now is known to end, and to start something then.
    if (name !== unit && !isUp(name)) continue;
    for (const other of rivalsAtEnd(name)) if (isUp(other)) more.add(other);
  }
  more.delete(unit);
  return { more, started };
}

/** An action on the machine that the stop of this unit, of one that stops along, or what is started then may trigger; null: none. */
export function machineActionOf(
  unit: string,
  along: readonly string[],
  asked: ReadonlyMap<string, UnitTies>,
  started: Iterable<string> = [],
): MachineAction | null {
  const of = (name: string): readonly MachineAction[] => {
    const action = asked.get(name)?.machineAction;
    return action === undefined ? [] : [{ ...action, what: `${action.what} of ${name}` }];
  };
  const ofStarted = (name: string): readonly Pick<MachineAction, 'what'>[] =>
    takesMachineDown(name) ? [{ what: `the start of ${name}` }] : of(name);
  // No grace period limits how long the stop or the start of another unit takes.
  const others = [...along.flatMap(of), ...[...started].flatMap(ofStarted)];
  const all = [...of(unit), ...others.map((action) => ({ ...action, afterMs: 0 }))];
  return all.find(({ afterMs }) => afterMs === 0) ?? all[0] ?? null;
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
