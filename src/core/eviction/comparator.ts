import { countedOf, type DiskUsage, type PodView, podName } from '../pod/pod.ts';
import { known, type Reading, type Unknown, unknown } from '../reading.ts';
import { priorityOf } from '../shutdown/chain.ts';
import {
  type FileSystemRole,
  type FsLayout,
  fileSystemOf,
  hasRequest,
  SIGNAL_FACTS,
  type Signal,
  type SignalFacts,
} from '../signal.ts';

type Compared = number | string | boolean;
type Row = {
  /** The value to compare. Unknown: the pod has no statistics, or its declaration is unknown. */
  readonly compare: (pod: PodView, signal: Signal, layout: FsLayout) => Reading<Compared>;
  /** Which value is evicted first. */
  readonly first: 'true' | 'lowest' | 'highest';
  /** Breaks ties among pods that all have a value. */
  readonly isTie: boolean;
  /** For a comparator that the kubelet lacks (kubelet-eviction.md 5.1): the difference that a decision by it names. */
  readonly difference: 'D1' | null;
  /** Derived from the pod's measured usage, which may be incomplete. */
  readonly isMeasured: boolean;
  /** The number is in the unit of what the signal counts of a pod. */
  readonly isUsage: boolean;
  /** "It comes first by ...". */
  readonly by: string;
  /** "This one and not that one: ...". */
  readonly because: string;
};

/** Every comparator of a ranking. Which of them rank for a signal, and in which order, is SIGNAL_FACTS; ties follow in this order. */
const ROWS = {
  'over-request': {
    compare: (pod, signal, layout) =>
      (hasRequest(signal) ? unsaidOf(pod, 'requests') : null) ??
      map(usageFor(signal, pod, layout), (used) => used > exceededRequest(signal, pod)),
    first: 'true',
    isTie: false,
    difference: null,
    isMeasured: true,
    isUsage: false,
    by: 'using more than its request',
    because: 'it uses more than its request; the other does not',
  },
  priority: {
    compare: (pod) => unsaidOf(pod, 'priority') ?? known(priorityOf(pod)),
    first: 'lowest',
    isTie: false,
    difference: null,
    isMeasured: false,
    isUsage: false,
    by: 'its lower priority',
    because: 'its priority is lower',
  },
  'usage-over-request': {
    compare: (pod, signal, layout) =>
      unsaidOf(pod, 'requests') ?? map(usageFor(signal, pod, layout), (used) => used - subtractedRequest(signal, pod)),
    first: 'highest',
    isTie: false,
    difference: null,
    isMeasured: true,
    isUsage: true,
    by: 'the highest usage relative to its request',
    because: 'at equal priority, its usage is higher relative to its request',
  },
  usage: {
    compare: (pod, signal, layout) => usageFor(signal, pod, layout),
    first: 'highest',
    isTie: false,
    difference: null,
    isMeasured: true,
    isUsage: true,
    by: 'the most usage',
    because: 'it uses more',
  },
  younger: {
    compare: ({ startedAtWallMs }) =>
      startedAtWallMs === null
        ? unknown('absent', 'creationTimestamp', 'the pod names no start')
        : known(startedAtWallMs),
    first: 'highest',
    isTie: true,
    difference: 'D1',
    isMeasured: false,
    isUsage: false,
    by: 'having started last',
    because: 'it started later',
  },
  name: {
    compare: (pod) => known(podName(pod)),
    first: 'lowest',
    isTie: true,
    difference: 'D1',
    isMeasured: false,
    isUsage: false,
    by: 'its name (all else is equal)',
    because: 'everything else is equal; its name sorts first',
  },
  uid: {
    compare: ({ uid }) => known(uid),
    first: 'lowest',
    isTie: true,
    difference: 'D1',
    isMeasured: false,
    isUsage: false,
    by: 'its uid (all else is equal)',
    because: 'everything else is equal; its uid sorts first',
  },
} as const satisfies { readonly [by in SignalFacts['rankedBy'][number]]: Row } & { readonly [tie: string]: Row };

export type Comparator = keyof typeof ROWS;
export const COMPARATORS: { readonly [C in Comparator]: Row } = ROWS;
/** By a name from a record, which a failing disk may have changed; null: no such comparator. */
export const comparatorNamed = (name: string): Row | null =>
  Object.hasOwn(COMPARATORS, name) ? COMPARATORS[name as Comparator] : null;
// Object.keys loses the key type; the table has no other keys.
export const TIES: readonly Comparator[] = (Object.keys(ROWS) as Comparator[]).filter((by) => COMPARATORS[by].isTie);

/**
 * What the signal's ranking counts of a pod: bytes, inodes or processes. Unknown = the pod has no statistics.
 * A pod with statistics whose number is missing counts 0: the kubelet's rule (5.5), for ranking only.
 */
export function usageFor(signal: Signal, pod: PodView, layout: FsLayout): Reading<number> {
  const { containers } = pod.usage;
  if (!containers.known) return containers;
  const used = measuredUsage(signal, pod, layout);
  return used.known ? used : known(0);
}

/** The same for people: a missing number is unknown. */
export function measuredUsage(signal: Signal, pod: PodView, layout: FsLayout): Reading<number> {
  const { containers, disk } = pod.usage;
  if (!containers.known) return containers;
  const { counts } = SIGNAL_FACTS[signal];
  return counts === 'disk' ? map(disk, (used) => measuredDisk(signal, used, layout)) : countedOf(pod.usage, counts);
}

export const measuredDisk = (signal: Signal, used: DiskUsage, layout: FsLayout): number =>
  usedOn(fileSystemOf(signal), SIGNAL_FACTS[signal].unit === 'inodes' ? 'inodes' : 'bytes', used, layout);

/** kubelet-eviction.md 5.9: the kinds that are measured, by layout. Directories of a manifest have no kind. */
export function usedOn(
  role: FileSystemRole | null,
  what: 'bytes' | 'inodes',
  used: DiskUsage,
  layout: FsLayout,
): number {
  const isInodes = what === 'inodes';
  const root = isInodes ? used.rootfsInodes : used.rootfsBytes;
  const logs = isInodes ? used.logsInodes : used.logsBytes;
  const volumes = isInodes ? used.volumesInodes : used.volumesBytes;
  if (used.isOfFileSystem) return root + logs + volumes;
  switch (layout) {
    case 'nodefs-only':
      return root + logs + volumes;
    case 'imagefs-separate':
      return role === 'nodefs' ? logs + volumes : root;
    case 'containerfs-separate':
      return role === 'imagefs' ? 0 : root + logs + volumes;
  }
}

/** Inodes cannot be requested: for them, the first comparator only separates zero from non-zero (5.4). */
function exceededRequest(signal: Signal, pod: PodView): number {
  return hasRequest(signal) ? subtractedRequest(signal, pod) : 0;
}

/** The inode ranking subtracts the ephemeral-storage request, in bytes, from a number of inodes: the kubelet's quirk (5.4). */
function subtractedRequest(signal: Signal, pod: PodView): number {
  return SIGNAL_FACTS[signal].resource === 'memory' ? pod.requests.memoryBytes : pod.requests.ephemeralStorageBytes;
}

/** The `where` of a value that is unknown because of the declaration, not of the measurement. */
export const UNSAID = 'the declaration of the pod';
export const UNDECLARED = 'not yet known to the API';

function unsaidOf({ unsaid }: PodView, what: 'priority' | 'requests'): Unknown | null {
  if (unsaid === undefined || !unsaid[what]) return null;
  const detail = unsaid.why === 'undeclared' ? UNDECLARED : `its ${what} cannot be read`;
  return unknown('absent', UNSAID, detail);
}

const map = <A, B>(reading: Reading<A>, change: (value: A) => B): Reading<B> =>
  reading.known ? known(change(reading.value)) : reading;

/** The pods were read for another reason (a limit, a reader), and what this ranking compares was not measured. */
export function isNotAsked({ usage }: PodView, signal: Signal): boolean {
  const { counts } = SIGNAL_FACTS[signal];
  const compared = counts === 'disk' ? usage.disk : countedOf(usage, counts);
  return !compared.known && compared.why === 'not-asked';
}
