import type { StorageLimit } from '../core/decision.ts';
import type { Signal } from '../core/signal.ts';

/** Counted since the agent started; what happened before is in the record. */
export type Counts = {
  readonly sinceWallMs: number;
  /** How long the samples took. */
  readonly looks: Histogram;
  /** Those that ended their pod. */
  readonly evictions: readonly (EvictedFor & { readonly count: number })[];
  /** From the first signal until no process was left. */
  readonly evictionTimes: Histogram;
  /** As far as it was measured. */
  readonly reclaimedBytes: { readonly [S in ReclaimedBy]: number };
  readonly kernelOomKills: number;
  /** The last one, of an earlier boot too; `endWallMs` null: it has not come to its end. Null: none is known. */
  readonly shutdown: ShutdownTimes | null;
};
export type ShutdownTimes = { readonly startWallMs: number; readonly endWallMs: number | null };
export type EvictedFor = { readonly signal: Signal | `${StorageLimit}.limit`; readonly kind: 'hard' | 'soft' };
/** `eviction`: memory that victims gave back; `reclaim`: disk space before any pod went; `scratch`: directories emptied afterwards. */
export type ReclaimedBy = 'eviction' | 'reclaim' | 'scratch';
export type Histogram = {
  readonly count: number;
  readonly sumMs: number;
  /** How many took at most so long, the shorter ones included. */
  readonly buckets: readonly { readonly mostMs: number; readonly count: number }[];
};
