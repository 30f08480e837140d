import type { Quantity } from './quantity.ts';
import type { MonoMs } from './reading.ts';
import type { Signal } from './signal.ts';

export type ThresholdValue =
  | { readonly kind: 'quantity'; readonly amount: Quantity }
  /** float32 as the kubelet holds it: Math.fround(Math.fround(percent) / 100). */
  | { readonly kind: 'fraction'; readonly fraction: number };
/** Key of every timer; survives a reload that leaves the threshold alone. An explicit allocatable threshold and its derived twin are two. */
export type ThresholdId = `${Signal}/${'evictionHard' | 'evictionSoft'}${'' | '/twin'}`;
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
  readonly sinceMs: MonoMs;
};
