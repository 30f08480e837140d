import type { Comparator, RankRow } from './decision.ts';
import type { FsLayout } from './observation.ts';
import type { DiskUsage, PodView } from './pod.ts';
import { known, type Reading } from './reading.ts';
import { SIGNAL_FACTS, type Signal } from './signal.ts';

type Value = number | string | boolean;

/** kubelet-eviction.md 5.1, then D1. The lists are data, so that every value can be shown. */
export function comparatorsOf(signal: Signal): readonly Comparator[] {
  return signal === 'pid.available' ? ['priority', 'usage'] : ['over-request', 'priority', 'usage-over-request'];
}
const TIES: readonly Comparator[] = ['younger', 'name', 'uid'];

export type Ranked = { readonly pod: PodView; readonly row: RankRow };

/**
 * The eviction order of the pods: first is evicted first. Total and independent of the order given.
 * A missing number of a pod with statistics counts as 0, a pod without any statistics comes first (5.5); the row
 * shows the value as unknown.
 */
export function rank(signal: Signal, pods: readonly PodView[], layout: FsLayout): readonly Ranked[] {
  const rules = comparatorsOf(signal);
  const keyed = pods.map((pod) => ({
    pod,
    keys: rules.map((by) => sortKey(by, comparedValue(by, pod, signal, layout))),
  }));
  const compareRules = (a: Keyed, b: Keyed): number => firstDifference(a.keys, b.keys);
  const sorted = keyed.toSorted((a, b) => compareRules(a, b) || compareUid(a.pod, b.pod));
  const order: PodView[] = [];
  for (let start = 0; start < sorted.length; ) {
    const first = sorted[start];
    let end = start + 1;
    for (let next = sorted[end]; first && next && compareRules(first, next) === 0; next = sorted[end]) end++;
    order.push(...settleTies(sorted.slice(start, end).map((entry) => entry.pod)));
    start = end;
  }
  return withRows(order, signal, layout);
}
type Keyed = { readonly pod: PodView; readonly keys: readonly number[] };

/** Among equals the later start first, but only where every one of them names a start: else no order would be total. */
function settleTies(pods: readonly PodView[]): readonly PodView[] {
  const hasAges = pods.every((pod) => pod.startedAtWallMs !== null);
  return pods.toSorted(
    (a, b) =>
      (hasAges ? (b.startedAtWallMs ?? 0) - (a.startedAtWallMs ?? 0) : 0) ||
      compareText(nameOf(a), nameOf(b)) ||
      compareUid(a, b),
  );
}

function withRows(order: readonly PodView[], signal: Signal, layout: FsLayout): readonly Ranked[] {
  const rules = comparatorsOf(signal);
  const valuesOf = (pod: PodView): RankRow['values'] =>
    [...rules, ...TIES].map((by) => ({ by, value: comparedValue(by, pod, signal, layout) }));
  return order.map((pod, i) => {
    const values = valuesOf(pod);
    const next = order[i + 1];
    return {
      pod,
      row: { uid: pod.uid, values, decidedBy: next === undefined ? null : decidedBy(rules, pod, next, signal, layout) },
    };
  });
}

function decidedBy(
  rules: readonly Comparator[],
  pod: PodView,
  next: PodView,
  signal: Signal,
  layout: FsLayout,
): Comparator {
  const differs = (by: Comparator): boolean =>
    sortKey(by, comparedValue(by, pod, signal, layout)) !== sortKey(by, comparedValue(by, next, signal, layout));
  const rule = rules.find(differs);
  if (rule !== undefined) return rule;
  const younger = (pod.startedAtWallMs ?? -1) - (next.startedAtWallMs ?? -1);
  if (pod.startedAtWallMs !== null && next.startedAtWallMs !== null && younger > 0) return 'younger';
  return nameOf(pod) !== nameOf(next) ? 'name' : 'uid';
}

/** Smaller comes first. Without statistics: before everything, whatever the others use. */
function sortKey(by: Comparator, value: Reading<Value>): number {
  if (by === 'priority') return value.known && typeof value.value === 'number' ? value.value : 0;
  if (!value.known) return Number.NEGATIVE_INFINITY;
  if (typeof value.value === 'boolean') return value.value ? 0 : 1;
  return typeof value.value === 'number' ? -value.value : 0;
}

function comparedValue(by: Comparator, pod: PodView, signal: Signal, layout: FsLayout): Reading<Value> {
  switch (by) {
    case 'priority':
      return known(pod.priority);
    case 'over-request':
      return map(usageFor(signal, pod, layout), (used) => used > exceededRequest(signal, pod));
    case 'usage-over-request':
      return map(usageFor(signal, pod, layout), (used) => used - subtractedRequest(signal, pod));
    case 'usage':
      return usageFor(signal, pod, layout);
    case 'younger':
      return pod.startedAtWallMs === null
        ? { known: false, why: 'absent', where: 'creationTimestamp', detail: 'the pod names no start' }
        : known(pod.startedAtWallMs);
    case 'name':
      return known(nameOf(pod));
    case 'uid':
      return known(pod.uid);
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
const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const compareUid = (a: PodView, b: PodView): number => compareText(a.uid, b.uid);
const orZero = (reading: Reading<number>): Reading<number> => (reading.known ? reading : known(0));
const map = <A, B>(reading: Reading<A>, change: (value: A) => B): Reading<B> =>
  reading.known ? known(change(reading.value)) : reading;

function firstDifference(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) {
    const x = a[i] ?? 0;
    const y = b[i] ?? 0;
    if (x !== y) return x < y ? -1 : 1;
  }
  return 0;
}
