import type { RankRow, RankValue } from '../decision.ts';
import type { PodView } from '../pod/pod.ts';
import { type FsLayout, isDisk, SIGNAL_FACTS, type Signal } from '../signal.ts';
import { COMPARATORS, type Comparator, measuredUsage, TIES } from './comparator.ts';
import { isAtLeast, isCutShort, unattributedOf } from './relief.ts';

export type Ranked = { readonly pod: PodView; readonly row: RankRow };

/**
 * The eviction order of the pods: first is evicted first. Total and independent of the order given.
 * A missing number of a pod with statistics counts as 0, a pod without any statistics comes first (5.5); the row
 * says that the value is unknown.
 */
export function rank(signal: Signal, pods: readonly PodView[], layout: FsLayout): readonly Ranked[] {
  const rules: readonly Comparator[] = SIGNAL_FACTS[signal].rankedBy;
  const width = rules.length;
  const ties = TIES.map((by, i): Tie => ({ at: width + i, sign: COMPARATORS[by].first === 'highest' ? -1 : 1 }));
  // One block: an array for each of 10,000 pods would be the largest cost of a ranking.
  const keys = new Float64Array(pods.length * width);
  const entries = pods.map((pod, place): Entry => {
    const isBound = isAtLeast(signal, pod);
    const isUnknown = pod.usage.containers.known && !measuredUsage(signal, pod, layout).known;
    const isMissing = isUnknown && !(isBound && isDisk(signal));
    const values: RankValue[] = [];
    for (const by of rules) {
      const value = COMPARATORS[by].compare(pod, signal, layout);
      const { isMeasured } = COMPARATORS[by];
      const isOpen = isBound && isMeasured && !(value.known && value.value === true);
      const entry: RankValue = {
        ...{ by, value },
        ...(isOpen ? { isAtLeast: true } : {}),
        ...(isMissing && isMeasured && value.known ? { isMissing } : {}),
      };
      keys[place * width + values.length] = sortKey(entry);
      values.push(entry);
    }
    for (const by of TIES) values.push({ by, value: COMPARATORS[by].compare(pod, signal, layout) });
    return { pod, values, place: place * width, settledBy: NO_TIES };
  });
  /** The index of the first rule by which they differ; `width`: none. */
  const differAt = (a: Entry, b: Entry): number => {
    let at = 0;
    while (at < width && keys[a.place + at] === keys[b.place + at]) at++;
    return at;
  };
  // Stable; ties are settled below, independent of the input order.
  const sorted = entries.toSorted((a, b) => {
    const at = differAt(a, b);
    return at === width ? 0 : compare(keys[a.place + at] ?? 0, keys[b.place + at] ?? 0);
  });
  const order: Entry[] = [];
  for (let start = 0; start < sorted.length; ) {
    const first = sorted[start];
    let end = start + 1;
    for (let next = sorted[end]; first && next && differAt(first, next) === width; next = sorted[end]) end++;
    if (end - start === 1 && first) order.push(first);
    else order.push(...settleTies(sorted.slice(start, end), ties));
    start = end;
  }
  const deciding = (entry: Entry, next: Entry): Comparator | null => {
    const at = differAt(entry, next);
    const by = at < width ? at : (entry.settledBy.find((tie) => compareBy(tie, entry, next) !== 0)?.at ?? LAST);
    return entry.values.at(by)?.by ?? null;
  };
  return order.map((entry, i) => {
    const next = order[i + 1];
    const decidedBy = next === undefined ? null : deciding(entry, next);
    return { pod: entry.pod, row: { uid: entry.pod.uid, values: entry.values, decidedBy } };
  });
}
type Entry = {
  readonly pod: PodView;
  /** Of the rules, then of TIES. */
  readonly values: RankRow['values'];
  /** The index of its keys, one per rule. */
  readonly place: number;
  /** What orders it among its equals; empty: it has no equals. */
  settledBy: readonly Tie[];
};
/** An index into the values. */
type Tie = { readonly at: number; readonly sign: 1 | -1 };
const NO_TIES: readonly Tie[] = [];
const LAST = -1;

/** A tie is settled only by values that all equals have: otherwise the order would not be total. */
function settleTies(equals: readonly Entry[], ties: readonly Tie[]): readonly Entry[] {
  const settledBy = ties.filter((tie) => equals.every((entry) => valueFor(tie, entry)?.known));
  for (const entry of equals) entry.settledBy = settledBy;
  return equals.toSorted((a, b) => {
    for (const tie of settledBy) {
      const way = compareBy(tie, a, b);
      if (way !== 0) return way;
    }
    return 0;
  });
}

/** 0 unless both are known. */
function compareBy(tie: Tie, a: Entry, b: Entry): number {
  const [one, other] = [valueFor(tie, a), valueFor(tie, b)];
  return one?.known && other?.known ? tie.sign * compare(one.value, other.value) : 0;
}
const valueFor = ({ at }: Tie, { values }: Entry) => values[at]?.value;

/** Of a rule, not of a tie. Smaller comes first. A pod without statistics comes before all others. */
function sortKey({ by, value }: RankValue): number {
  if (!value.known) return Number.NEGATIVE_INFINITY;
  const { first } = COMPARATORS[by];
  const amount = Number(value.value);
  return first === 'lowest' ? amount : -amount;
}

/**
 * Whether the true amounts could rank the first of the two above the other, although the known ones do not. Only lower
 * bounds may be higher; for the other, only what is proven counts.
 */
export function mightPrecede(signal: Signal, { pod, row }: Ranked, other: Ranked): boolean {
  if (row.values.every((entry) => entry.isAtLeast === undefined)) return false;
  const more = isDisk(signal) && !isCutShort(pod) ? unattributedOf(signal, pod) : Number.POSITIVE_INFINITY;
  for (const entry of row.values.filter(({ by }) => !COMPARATORS[by].isTie)) {
    const most = entry.isAtLeast === undefined ? sortKey(entry) : mostKey(entry, more);
    const against = other.row.values.find(({ by }) => by === entry.by) ?? entry;
    const way = compare(most, sortKey(against));
    if (way !== 0) return way < 0;
  }
  return true;
}

/** The key of an amount that may be that much higher. */
const mostKey = (entry: RankValue, more: number): number =>
  COMPARATORS[entry.by].first === 'true'
    ? sortKey({ ...entry, value: { known: true, value: true } })
    : sortKey(entry) - more;

/** Not by subtraction: two infinities are equal. */
const compare = <V extends number | string | boolean>(a: V, b: V): number => (a < b ? -1 : a > b ? 1 : 0);
