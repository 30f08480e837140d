import type { StorageLimit } from '../core/decision.ts';
import type { Signal } from '../core/signal.ts';

/** Counted since the agent started; what happened before is in the record. */
export type Counts = {
  readonly sinceWallMs: number;
  /** How long the samples took. */
  readonly looks: Histogram;
  /** Only evictions that ended their pod. */
  readonly evictions: readonly (EvictedFor & { readonly count: number })[];
  /** From the first signal until no process was left. */
  readonly evictionTimes: Histogram;
  /** Only what was measured. */
  readonly reclaimedBytes: { readonly [S in ReclaimedBy]: number };
  /** With those that it found at its start, from a time without an agent. */
  readonly kernelOomKills: number;
  /** The last one, even of an earlier boot; `endWallMs` null: it has not ended. Null: none is known. */
  readonly shutdown: ShutdownTimes | null;
};
export type ShutdownTimes = { readonly startWallMs: number; readonly endWallMs: number | null };
export type EvictedFor = { readonly signal: Signal | `${StorageLimit}.limit`; readonly kind: 'hard' | 'soft' };
/**
 * `eviction`: memory that victims freed; `reclaim`: disk space freed before any eviction; `scratch`: directories
 * emptied afterwards.
 */
export type ReclaimedBy = 'eviction' | 'reclaim' | 'scratch';
export type Histogram = {
  readonly count: number;
  readonly sumMs: number;
  /** How many took at most `mostMs`, including the shorter ones. */
  readonly buckets: readonly { readonly mostMs: number; readonly count: number }[];
};
