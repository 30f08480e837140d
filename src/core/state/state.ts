import type { ShutdownPhase } from '../core-config.ts';
import type { DecisionId, StorageLimit } from '../decision.ts';
import type { Shortage } from '../eviction/shortage.ts';
import type { MetThreshold, ThresholdId } from '../eviction/threshold.ts';
import type { PodUid, Victim } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';
import type { StopChain } from '../shutdown/chain.ts';
import type { Assigned } from '../shutdown/plan.ts';
import type { NodeCondition, Signal, SignalSample } from '../signal.ts';

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
  /** Of each shortage at most one is waited for (D3). */
  readonly act: { readonly kind: 'idle' } | { readonly kind: 'evicting'; readonly evictions: readonly Eviction[] };
  /** Node-level reclaims under way, at most one of each file system. */
  readonly reclaims: readonly Reclaim[];
  /** D15: the last kill of each shortage that was proven, for as long as its clean-up is waited for. */
  readonly proofs: { readonly [S in Shortage]?: Proof };
  /** When D15 last held an eviction for the shortage back. Absent: never. */
  readonly heldBackMs?: { readonly [S in Shortage]?: MonoMs };
  /** The last 3 s of the signals of a shortage that is acted on, oldest first; at most 31 of each. */
  readonly trail: { readonly [S in Signal]?: readonly Point[] };
  readonly ownerKills: readonly { readonly ownerKey: string; readonly atMs: MonoMs }[];
  /** Stops for a shutdown that are under way, of every phase: they outlast a shutdown that was cancelled. */
  readonly stops: readonly ShutdownStop[];
  readonly shutdown:
    | { readonly kind: 'unarmed'; readonly why: string }
    | { readonly kind: 'armed'; readonly delayMaxMs: number }
    | ({ readonly kind: 'stopping' } & Stopping)
    | { readonly kind: 'released'; readonly atMs: MonoMs };
};
/** kubelet-shutdown.md section 5, in the middle of it. */
export type Stopping = {
  readonly startedMs: MonoMs;
  /** Those in force when the signal came: a reload does not change a shutdown under way. */
  readonly phases: readonly ShutdownPhase[];
  /** What logind granted; null = the lock was lost. */
  readonly delayMaxMs: number | null;
  /** Why it runs: logind's signal, or the agent is stopped while the machine goes down without one. */
  readonly tier: 'logind' | 'stop';
  /** The phases shrink so that all of them end before it (D11); null = they have the time they want. */
  readonly mustEndMs: MonoMs | null;
  /** Pods that were started again after their stop, and how many times they were stopped again. */
  readonly again: { readonly [uid: PodUid]: number };
  /** The phases of the pods that ran as it began: no pod is lost if its priority changes or the pod that lent it ends. */
  readonly assigned?: Assigned;
  /** A cancel that is handled after the last phase (D10); null = none. */
  readonly cancelledMs: MonoMs | null;
  /** The phase that runs, or ran last; counted from 1, 0 before the first. */
  readonly phase: number;
  readonly phaseStartedMs: MonoMs;
  readonly phaseEndsMs: MonoMs;
  /** Pods of the phase whose stop is waited for. */
  readonly pending: readonly PodUid[];
  /** All pods of the phase. */
  readonly group: readonly PodUid[];
  /** `next`: no phase runs, the pods for the next one are wanted. `volumes`: since the stops were waited for. */
  readonly wait:
    | { readonly kind: 'next' }
    | { readonly kind: 'stops' }
    | { readonly kind: 'volumes'; readonly sinceMs: MonoMs; readonly lookMs: MonoMs }
    /** Before the first phase. */
    | { readonly kind: 'announce'; readonly untilMs: MonoMs }
    /** After the last one. */
    | { readonly kind: 'confirm'; readonly sinceMs: MonoMs };
  /**
   * Of two tiers the first: how long what was stopped is confirmed where the phases use all of their time or nobody can be
   * asked, and when that is over at the latest. Absent: not at all.
   */
  readonly confirm?: { readonly ms: number; readonly latestMs: MonoMs };
  /** The kubelet stops the pods. `holds`: while it has its lock. */
  readonly byKubelet?: 'holds' | 'released';
};
export type ShutdownStop = {
  readonly decision: DecisionId;
  readonly decidedMs: MonoMs;
  readonly uid: PodUid;
  /** When its grace is over. */
  readonly graceEndsMs: MonoMs;
  /** kubelet-shutdown.md 5.2: when its phase no longer waits for it. */
  readonly waitEndsMs: MonoMs;
  readonly tier?: 'stop';
  /** As in the decision; of one in a chain alone. */
  readonly graceSeconds?: number;
  readonly endsMs?: MonoMs;
  readonly chain?: StopChain;
};
export type Reclaim = {
  readonly decision: DecisionId;
  readonly threshold: MetThreshold;
  readonly deadlineMs: MonoMs;
};
export type Point = { readonly atMs: MonoMs; readonly available: number };
/** `available`: of each signal of the shortage, at the proof. */
export type Proof = {
  readonly decision: DecisionId;
  readonly atMs: MonoMs;
  readonly available: { readonly [S in Signal]?: number };
};
export type Eviction = {
  readonly decision: DecisionId;
  readonly decidedMs: MonoMs;
  readonly victim: Victim;
  /** What there was of the signal that chose it, and what it held of that itself; absent: over a limit, or not known. */
  readonly atChoice?: { readonly signal: Signal; readonly available: number; readonly held: number };
  /** When its first request to end, and its first SIGKILL, went out; absent: not yet. */
  readonly signalledMs?: MonoMs;
  readonly killedMs?: MonoMs;
  /** Counts from the first signal; until that went out, as if it went out with the decision. */
  readonly graceEndsMs: MonoMs;
  /** The deadline: of its first signal until that is sent, then of the proof of its end. */
  readonly deadlineMs: MonoMs;
  /** D3: when it had given back or was out of time, so that the next victim may be chosen; null while it is waited for. */
  readonly settledMs: MonoMs | null;
  readonly cause:
    | { readonly kind: 'threshold'; readonly threshold: MetThreshold }
    | { readonly kind: 'over-limit'; readonly limit: StorageLimit };
  /** Met meanwhile, of other shortages, for which it would have been chosen too: they wait for it. */
  readonly alsoFor?: readonly MetThreshold[];
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
    reclaims: [],
    proofs: {},
    trail: {},
    ownerKills: [],
    stops: [],
    shutdown: { kind: 'unarmed', why: 'not started' },
  };
}
