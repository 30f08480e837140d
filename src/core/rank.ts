import type { Comparator, RankRow, RankValue } from './decision.ts';
import type { DiskUsage, PodView } from './pod.ts';
import { known, type Reading, unknown } from './reading.ts';
import { isAtLeast } from './relief.ts';
import { type FsLayout, SIGNAL_FACTS, type Signal } from './signal.ts';
import { priorityOf } from './stop-chain.ts';

type Value = number | string | boolean;
/** The kubelet's comparators; the others of Comparator settle ties. */
type Rule = Exclude<Comparator, 'younger' | 'name' | 'uid'>;

/** kubelet-eviction.md 5.1, then D1. The lists are data, so that every value can be shown. */
export function comparatorsOf(signal: Signal): readonly Rule[] {
  return signal === 'pid.available' ? ['priority', 'usage'] : ['over-request', 'priority', 'usage-over-request'];
}

export type Ranked = { readonly pod: PodView; readonly row: RankRow };

/**
 * The eviction order of the pods: first is evicted first. Total and independent of the order given.
 * A missing number of a pod with statistics counts as 0, a pod without any statistics comes first (5.5); the row
 * shows the value as unknown.
 */
export function rank(signal: Signal, pods: readonly PodView[], layout: FsLayout): readonly Ranked[] {
  const rules = comparatorsOf(signal);
  const keyed = pods.map((pod): Keyed => {
    const isBound = isAtLeast(signal, pod);
    const values = rules.map((by): RankValue => {
      const value = comparedValue(by, pod, signal, layout);
      const isOpen = isBound && by !== 'priority' && !(value.known && value.value === true);
      return isOpen ? { by, value, isAtLeast: true } : { by, value };
    });
    const [key1 = 0, key2 = 0, key3 = 0] = values.map(sortKey);
    return { pod, name: nameOf(pod), values, key1, key2, key3, isByAge: false };
  });
  // Stable; equals are settled below, whatever order they come in.
  const sorted = keyed.toSorted(compareKeys);
  const order: Keyed[] = [];
  for (let start = 0; start < sorted.length; ) {
    const first = sorted[start];
    let end = start + 1;
    for (let next = sorted[end]; first && next && compareKeys(first, next) === 0; next = sorted[end]) end++;
    if (end - start === 1 && first) order.push(first);
    else order.push(...settleTies(sorted.slice(start, end)));
    start = end;
  }
  return order.map((entry, i) => {
    const next = order[i + 1];
    const decidedBy = next === undefined ? null : deciding(rules, entry, next);
    return { pod: entry.pod, row: { uid: entry.pod.uid, values: shownValues(entry), decidedBy } };
  });
}
/** A pod with what its place in the order follows from, computed once. */
type Keyed = {
  readonly pod: PodView;
  readonly name: string;
  readonly values: RankRow['values'];
  readonly key1: number;
  readonly key2: number;
  readonly key3: number;
  /** Has equals, and age may decide among them. */
  isByAge: boolean;
};

/** Among equals the later start first, but only where every one of them names a start: else no order would be total. */
function settleTies(pods: readonly Keyed[]): readonly Keyed[] {
  const isByAge = pods.every(({ pod }) => pod.startedAtWallMs !== null);
  const sorted = pods.toSorted(
    (a, b) =>
      (isByAge ? (b.pod.startedAtWallMs ?? 0) - (a.pod.startedAtWallMs ?? 0) : 0) ||
      compare(a.name, b.name) ||
      compare(a.pod.uid, b.pod.uid),
  );
  for (const entry of sorted) entry.isByAge = isByAge;
  return sorted;
}

function shownValues({ pod, name, values }: Keyed): RankRow['values'] {
  const started: Reading<Value> =
    pod.startedAtWallMs === null
      ? unknown('absent', 'creationTimestamp', 'the pod names no start')
      : known(pod.startedAtWallMs);
  return [
    ...values,
    { by: 'younger', value: started },
    { by: 'name', value: known(name) },
    { by: 'uid', value: known(pod.uid) },
  ];
}

function deciding(rules: readonly Comparator[], entry: Keyed, next: Keyed): Comparator {
  const rule = rules[entry.key1 !== next.key1 ? 0 : entry.key2 !== next.key2 ? 1 : entry.key3 !== next.key3 ? 2 : 3];
  if (rule !== undefined) return rule;
  if (entry.isByAge && entry.pod.startedAtWallMs !== next.pod.startedAtWallMs) return 'younger';
  return entry.name !== next.name ? 'name' : 'uid';
}

function compareKeys(a: Keyed, b: Keyed): number {
  return compare(a.key1, b.key1) || compare(a.key2, b.key2) || compare(a.key3, b.key3);
}

/** Smaller comes first. Without statistics: before everything, whatever the others use. */
function sortKey({ by, value }: RankRow['values'][number]): number {
  if (by === 'priority') return value.known && typeof value.value === 'number' ? value.value : 0;
  if (!value.known) return Number.NEGATIVE_INFINITY;
  if (typeof value.value === 'boolean') return value.value ? 0 : 1;
  return typeof value.value === 'number' ? -value.value : 0;
}

/**
 * Could the true amounts put the first of the two above the other, although the known ones do not? Only what is a lower
 * bound may be more; the other is taken at what is proven of it.
 */
export function mightPrecede({ row }: Ranked, other: Ranked): boolean {
  if (row.values.every((entry) => entry.isAtLeast === undefined)) return false;
  for (const [i, entry] of row.values.entries()) {
    const against = other.row.values[i];
    if (against === undefined || TIES.includes(entry.by)) return true;
    const most =
      entry.isAtLeast === undefined ? sortKey(entry) : entry.by === 'over-request' ? 0 : Number.NEGATIVE_INFINITY;
    const key = sortKey(against);
    if (most !== key) return most < key;
  }
  return true;
}
const TIES: readonly Comparator[] = ['younger', 'name', 'uid'];

function comparedValue(by: Rule, pod: PodView, signal: Signal, layout: FsLayout): Reading<Value> {
  switch (by) {
    case 'priority':
      return known(priorityOf(pod));
    case 'over-request':
      return map(usageFor(signal, pod, layout), (used) => used > exceededRequest(signal, pod));
    case 'usage-over-request':
      return map(usageFor(signal, pod, layout), (used) => used - subtractedRequest(signal, pod));
    case 'usage':
      return usageFor(signal, pod, layout);
  }
}

/**
 * What the signal's ranking counts of a pod: bytes, inodes or processes. Unknown = the pod has no statistics.
 * A pod with statistics whose number is missing counts 0: the kubelet's rule (5.5), for ranking only.
 */
export function usageFor(signal: Signal, pod: PodView, layout: FsLayout): Reading<number> {
  if (!pod.usage.containers.known) return pod.usage.containers;
  const { resource } = SIGNAL_FACTS[signal];
  if (resource === 'memory') return orZero(pod.usage.workingSetBytes);
  if (resource === 'pids') return orZero(pod.usage.processes);
  const disk = pod.usage.disk;
  if (!disk.known) return known(0);
  return known(measuredDisk(signal, disk.value, layout));
}

/** kubelet-eviction.md 5.9: which kinds are measured, by layout. */
function measuredDisk(signal: Signal, disk: DiskUsage, layout: FsLayout): number {
  const isInodes = SIGNAL_FACTS[signal].unit === 'inodes';
  const root = isInodes ? disk.rootfsInodes : disk.rootfsBytes;
  const logs = isInodes ? disk.logsInodes : disk.logsBytes;
  const volumes = isInodes ? disk.volumesInodes : disk.volumesBytes;
  const isImagefs = signal.startsWith('imagefs');
  switch (layout) {
    case 'nodefs-only':
      return root + logs + volumes;
    case 'imagefs-separate':
      return signal.startsWith('nodefs') ? logs + volumes : root;
    case 'containerfs-separate':
      return isImagefs ? 0 : root + logs + volumes;
  }
}

/** "inodes" cannot be requested: there the first comparator only separates zero from non-zero (5.4). */
function exceededRequest(signal: Signal, pod: PodView): number {
  return SIGNAL_FACTS[signal].unit === 'inodes' ? 0 : subtractedRequest(signal, pod);
}

/** The inode ranking subtracts the ephemeral-storage request, in bytes, from a number of inodes: the kubelet's quirk (5.4). */
function subtractedRequest(signal: Signal, pod: PodView): number {
  return SIGNAL_FACTS[signal].resource === 'memory' ? pod.requests.memoryBytes : pod.requests.ephemeralStorageBytes;
}

const nameOf = (pod: PodView): string => `${pod.namespace}/${pod.name}`;
/** Not by subtraction: two infinities are equal. */
const compare = <V extends number | string>(a: V, b: V): number => (a < b ? -1 : a > b ? 1 : 0);
const orZero = (reading: Reading<number>): Reading<number> => (reading.known ? reading : known(0));
const map = <A, B>(reading: Reading<A>, change: (value: A) => B): Reading<B> =>
  reading.known ? known(change(reading.value)) : reading;
