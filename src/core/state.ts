import type { DecisionId, StorageLimit } from './decision.ts';
import type { PodUid, Victim } from './pod.ts';
import type { MonoMs } from './reading.ts';
import type { NodeCondition, Signal, SignalSample } from './signal.ts';
import type { MetThreshold, ThresholdId } from './threshold.ts';

/** The whole memory of the core. Plain JSON, bounded: no function, Map, Date, bigint or undefined. */
export type State = {
  readonly schema: 1;
  /** Every MonoMs below belongs to this boot. */
  readonly bootId: string;
  readonly nextDecision: number;
  readonly firstMetMs: { readonly [T in ThresholdId]?: MonoMs };
  /** A soft threshold whose timer runs, while it is unmet: recovered after 1 s of it (D2). */
  readonly unmetSinceMs: { readonly [T in ThresholdId]?: MonoMs };
  readonly lastLookMs: MonoMs | null;
  readonly unresolved: readonly ThresholdId[];
  readonly conditionLastMetMs: { readonly [C in NodeCondition]?: MonoMs };
  readonly lastSample: { readonly [S in Signal]?: SignalSample };
  readonly failedLooks: { readonly [S in Signal]?: { readonly count: number; readonly sinceMs: MonoMs } };
  /** D2's minute, at most 61 entries. */
  readonly spent: readonly { readonly atMs: MonoMs; readonly cpuMs: number }[];
  /** Dropped by dry run; silent until unmet. */
  readonly dryDropped: readonly ThresholdId[];
  /** Pods over a local storage limit whose eviction dry run dropped; silent until they are below it. */
  readonly dryOverLimit: readonly PodUid[];
  readonly act:
    | { readonly kind: 'idle' }
    | {
        readonly kind: 'reclaiming';
        readonly decision: DecisionId;
        readonly threshold: MetThreshold;
        readonly deadlineMs: MonoMs;
      }
    /** At most one of them has a threshold (D3). */
    | { readonly kind: 'evicting'; readonly evictions: readonly Eviction[] };
  readonly ownerKills: readonly { readonly ownerKey: string; readonly atMs: MonoMs }[];
  readonly shutdown:
    | { readonly kind: 'unarmed'; readonly why: string }
    | { readonly kind: 'armed'; readonly delayMaxMs: number }
    | {
        readonly kind: 'stopping';
        readonly startedMs: MonoMs;
        readonly phase: number;
        readonly phaseEndsMs: MonoMs;
        readonly pending: readonly PodUid[];
      }
    | { readonly kind: 'released'; readonly atMs: MonoMs };
};
export type Eviction = {
  readonly decision: DecisionId;
  readonly decidedMs: MonoMs;
  readonly victim: Victim;
  readonly graceEndsMs: MonoMs;
  readonly deadlineMs: MonoMs;
  /** D3: when it had given back or was out of time, so that the next victim may be chosen; null while it is waited for. */
  readonly settledMs: MonoMs | null;
  readonly cause:
    | { readonly kind: 'threshold'; readonly threshold: MetThreshold }
    | { readonly kind: 'over-limit'; readonly limit: StorageLimit };
};

export function initialState(bootId: string): State {
  return {
    schema: 1,
    bootId,
    nextDecision: 1,
    firstMetMs: {},
    unmetSinceMs: {},
    lastLookMs: null,
    unresolved: [],
    conditionLastMetMs: {},
    lastSample: {},
    failedLooks: {},
    spent: [],
    dryDropped: [],
    dryOverLimit: [],
    act: { kind: 'idle' },
    ownerKills: [],
    shutdown: { kind: 'unarmed', why: 'not started' },
  };
}
