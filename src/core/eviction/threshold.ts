import type { MonoMs } from '../reading.ts';
import { type FsLayout, realFileSystem, SIGNAL_FACTS, type Signal, signalsOf } from '../signal.ts';
import { type Quantity, quantityOfBytes } from '../units/quantity.ts';
import type { Margin } from './margin.ts';

type PlainValue =
  | { readonly kind: 'quantity'; readonly amount: Quantity }
  /** float32 as the kubelet holds it: Math.fround(Math.fround(percent) / 100). */
  | { readonly kind: 'fraction'; readonly fraction: number };
export type ThresholdValue =
  | PlainValue
  /** The kubelet's, raised by a margin that depends on a capacity. */
  | { readonly kind: 'raised'; readonly of: PlainValue; readonly margin: Margin };
/** Without a margin. */
export const plainOf = (value: ThresholdValue): PlainValue => (value.kind === 'raised' ? value.of : value);
/** Key of every timer; survives a reload that leaves the threshold alone. An explicit allocatable threshold and its derived twin are two. */
export type ThresholdId = `${Signal}/${'evictionHard' | 'evictionSoft'}${'' | '/twin'}`;
// Every id begins with its signal.
export const signalOf = (id: ThresholdId): Signal => id.split('/', 1)[0] as Signal;
export const isSoft = (id: ThresholdId): boolean => id.includes('/evictionSoft');
export type Threshold = {
  readonly id: ThresholdId;
  readonly signal: Signal;
  readonly value: ThresholdValue;
  /** 0 makes a threshold hard, wherever it was written. */
  readonly graceMs: number;
  readonly minReclaim: ThresholdValue | null;
};
/** A threshold at the moment it was met, with its value resolved. */
export type MetThreshold = {
  readonly id: ThresholdId;
  readonly signal: Signal;
  /** A soft threshold with grace 0 is hard. */
  readonly isHard: boolean;
  /** Without min reclaim: what the message names. */
  readonly limit: Quantity;
  /** What D9 compares with: limit, plus min reclaim where that holds it. */
  readonly target: Quantity;
  readonly available: number;
  /** For a signal in ms: the length of its window. Absent: another unit. */
  readonly windowMs?: number;
  readonly sinceMs: MonoMs;
};

export const ZERO_QUANTITY: Quantity = quantityOfBytes(0, 'binary');

/** D12: the first signal to the victim's processes. The API still gets the kubelet's grace period. */
export function firstSignal({ signal, isHard }: Pick<MetThreshold, 'signal' | 'isHard'>): 'sigterm' | 'sigkill' {
  return isHard ? SIGNAL_FACTS[signal].firstWhenHard : 'sigterm';
}

/** D1: memory first, hard before soft, then the fixed order of signals. */
export function compareRipe(a: MetThreshold, b: MetThreshold): number {
  const [one, other] = [SIGNAL_FACTS[a.signal].order, SIGNAL_FACTS[b.signal].order];
  return (
    one.class - other.class || Number(b.isHard) - Number(a.isHard) || one.place - other.place || (a.id < b.id ? -1 : 1)
  );
}

/** Computed once: every look needs them. */
const CONTAINERFS = signalsOf('containerfs').map((to) => {
  const { unit } = SIGNAL_FACTS[to];
  return { to, sources: { nodefs: signalsOf('nodefs', unit)[0], imagefs: signalsOf('imagefs', unit)[0] } };
});

/**
 * kubelet-eviction.md 3.4: thresholds of containerfs are copies of those of the file system that it aliases.
 * `atOnce`: those that apply in the first look, which does not see appended copies yet (a quirk of the kubelet).
 */
export function withContainerfs(
  configured: readonly Threshold[],
  layout: FsLayout,
): { readonly all: readonly Threshold[]; readonly atOnce: readonly Threshold[] } {
  const appended: Threshold[] = [];
  const replaced = new Map<Threshold, Threshold | null>();
  for (const { to, sources } of CONTAINERFS) {
    const from = sources[realFileSystem('containerfs', layout)];
    for (const isHard of [true, false]) {
      const ofKind = (signal: Signal) =>
        configured.filter((threshold) => threshold.signal === signal && (threshold.graceMs === 0) === isHard);
      // With several of a kind (a soft one with grace 0 is hard) the kubelet keeps the last.
      const source = from === undefined ? undefined : ofKind(from).at(-1);
      const own = ofKind(to);
      const entry = own.at(-1);
      if (entry !== undefined) {
        replaced.set(entry, source === undefined ? null : { ...source, id: entry.id, signal: to });
      }
      if (source !== undefined && own.length === 0) {
        const id: ThresholdId = `${to}/${isHard ? 'evictionHard' : 'evictionSoft'}`;
        // A soft entry written by hand without grace is hard and has this name: two thresholds never share their timers.
        appended.push({ ...source, id: configured.some((own) => own.id === id) ? `${id}/twin` : id, signal: to });
      }
    }
  }
  const atOnce = configured.flatMap((threshold) => {
    const copy = replaced.get(threshold);
    return copy === undefined ? [threshold] : copy === null ? [] : [copy];
  });
  return { all: [...atOnce, ...appended], atOnce };
}
