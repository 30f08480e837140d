import type { ShutdownPhase } from '../core-config.ts';
import type { DecisionId, StorageLimit } from '../decision.ts';
import type { Shortage } from '../eviction/shortage.ts';
import type { MetThreshold, ThresholdId } from '../eviction/threshold.ts';
import type { Escaped } from '../outcome.ts';
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
  /** What the samples are made of: the cgroup, the file systems, how memory is counted. Absent: an older version did not say. */
  readonly measured?: string;
  readonly firstMetMs: { readonly [T in ThresholdId]?: MonoMs };
  /** Of each of these, the value that was met: with another value, it starts anew. */
  readonly metValues: { readonly [T in ThresholdId]?: string };
  /** Since when a soft threshold with a running timer has been unmet: after 1 s it has recovered (D2). */
  readonly unmetSinceMs: { readonly [T in ThresholdId]?: MonoMs };
  readonly lastLookMs: MonoMs | null;
  readonly unresolved: readonly ThresholdId[];
  readonly conditionLastMetMs: { readonly [C in NodeCondition]?: MonoMs };
  readonly lastSample: { readonly [S in Signal]?: SignalSample };
  readonly failedLooks: { readonly [S in Signal]?: { readonly count: number; readonly sinceMs: MonoMs } };
  /** D2's minute, at most 61 entries. */
  readonly spent: readonly { readonly atMs: MonoMs; readonly cpuMs: number }[];
  /** Thresholds whose eviction dry run dropped; silent until they are unmet. */
  readonly dryDropped: readonly ThresholdId[];
  /** Pods over a local storage limit whose eviction dry run dropped; silent until they are below it. */
  readonly dryOverLimit: readonly PodUid[];
  /** Pods over a local storage limit whose stop would also stop another one that must not go for it. Absent: none. */
  readonly limitSpared?: readonly LimitSpared[];
  /** At most one for each shortage is awaited (D3). */
  readonly act: { readonly kind: 'idle' } | { readonly kind: 'evicting'; readonly evictions: readonly Eviction[] };
  /** Node-level reclaims in progress, at most one per file system. */
  readonly reclaims: readonly Reclaim[];
  /** The last reclaims that freed nothing: none is repeated before `untilMs`, unless a pod would be evicted. Absent: none. */
  readonly vainReclaims?: { readonly [S in Shortage]?: { readonly untilMs: MonoMs; readonly pauseMs: number } };
  /** D15: the last proven kill of each shortage, kept while its cleanup is awaited. */
  readonly proofs: { readonly [S in Shortage]?: Proof };
  /** When D15 last held an eviction for the shortage back. Absent: never. */
  readonly heldBackMs?: { readonly [S in Shortage]?: MonoMs };
  /** The last 3 s of the signals of shortages being acted on, oldest first; at most 31 points each. */
  readonly trail: { readonly [S in Signal]?: readonly Point[] };
  /** What victims still hold outside their cgroups, or by their unreaped dead, as long as it is anything; the last 16. */
  readonly escaped: readonly EscapedFrom[];
  readonly ownerKills: readonly OwnerKill[];
  /** Stops for a shutdown in progress, of every phase. They outlast a cancelled shutdown. */
  readonly stops: readonly ShutdownStop[];
  readonly shutdown:
    | { readonly kind: 'unarmed'; readonly why: string }
    | { readonly kind: 'armed'; readonly delayMaxMs: number }
    | ({ readonly kind: 'stopping' } & Stopping)
    /** `phases`: its own, for the second tier. Absent: an older version wrote it. */
    | { readonly kind: 'released'; readonly atMs: MonoMs; readonly phases?: readonly ShutdownPhase[] };
};
/** A shutdown in progress (kubelet-shutdown.md section 5). */
export type Stopping = {
  readonly startedMs: MonoMs;
  /** The phases in force when the signal came: a reload does not change a shutdown in progress. */
  readonly phases: readonly ShutdownPhase[];
  /** What logind granted; null = the lock was lost. */
  readonly delayMaxMs: number | null;
  /** The trigger: logind's signal, or the agent was stopped while the machine goes down without one. */
  readonly tier: 'logind' | 'stop';
  /** The phases are shortened so that all of them end before this (D11); null = there is enough time. */
  readonly mustEndMs: MonoMs | null;
  /** Pods that were started again after their stop, with the number of further stops. */
  readonly again: { readonly [uid: PodUid]: number };
  /** The phases of the pods at its start: no pod is missed if its priority changes, or the pod it inherited it from ends. */
  readonly assigned?: Assigned;
  /** A cancel that is handled after the last phase (D10); null = none. */
  readonly cancelledMs: MonoMs | null;
  /** After a pause of the agent: until then, no deadline counts. Absent: there was none. */
  readonly hearUntilMs?: MonoMs;
  /** The current or last phase, counted from 1; 0 before the first. */
  readonly phase: number;
  readonly phaseStartedMs: MonoMs;
  readonly phaseEndsMs: MonoMs;
  /** Pods of the phase whose stop is awaited. */
  readonly pending: readonly PodUid[];
  /** All pods of the phase. */
  readonly group: readonly PodUid[];
  /** `next`: no phase is running, and the pods for the next one are needed. `volumes`: waiting for volumes after the stops. */
  readonly wait:
    | { readonly kind: 'next' }
    | { readonly kind: 'stops' }
    | { readonly kind: 'volumes'; readonly sinceMs: MonoMs; readonly lookMs: MonoMs }
    /** Before the first phase, for the answer to `decision`. Absent: an older version wrote it; only the time ends it. */
    | { readonly kind: 'announce'; readonly decision?: DecisionId; readonly untilMs: MonoMs }
    /** After the last one. */
    | { readonly kind: 'confirm'; readonly sinceMs: MonoMs };
  /**
   * In the first of two tiers: how long to confirm the stops if the phases use all of their time or the API cannot be asked,
   * and when that must end. Absent: not at all.
   */
  readonly confirm?: { readonly ms: number; readonly latestMs: MonoMs };
  /** The kubelet stops the pods. `holds`: while it has its lock. */
  readonly byKubelet?: 'holds' | 'released';
};
export type ShutdownStop = {
  readonly decision: DecisionId;
  readonly decidedMs: MonoMs;
  readonly uid: PodUid;
  /** When its grace period is over; the end of its phase for one that waits for its turn. */
  readonly graceEndsMs: MonoMs;
  /** kubelet-shutdown.md 5.2: when its phase no longer waits for it. */
  readonly waitEndsMs: MonoMs;
  readonly tier?: 'stop';
  /** As in the decision; only for a pod that waits for its turn. */
  readonly graceSeconds?: number;
  /** When its phase is over. Absent: an older version wrote it. */
  readonly endsMs?: MonoMs;
  readonly chain?: StopChain;
};
export type Reclaim = {
  readonly decision: DecisionId;
  readonly threshold: MetThreshold;
  readonly deadlineMs: MonoMs;
};
/** D6. `spared`: this pod was chosen, and could not be asked to stop. Absent: one was asked. */
export type OwnerKill = { readonly ownerKey: string; readonly atMs: MonoMs; readonly spared?: PodUid };
/** `pod` and `spares` as namespace/name. */
export type LimitSpared = { readonly uid: PodUid; readonly pod: string; readonly spares: string };
export type Point = { readonly atMs: MonoMs; readonly available: number };
/** `available`: the value of each signal of the shortage at the proof, or the first one after it that could be read. */
export type Proof = {
  readonly decision: DecisionId;
  readonly atMs: MonoMs;
  readonly available: { readonly [S in Signal]?: number };
  /** The highest values since, while a victim's scratch was being emptied, and when one last rose. Absent: none did. */
  readonly risen?: { readonly atMs: MonoMs; readonly available: { readonly [S in Signal]?: number } };
  /** What the kill gave back. Absent: not known. */
  readonly releasedBytes?: number;
};
/** `isUnreaped`: it has ended, and only its dead processes hold process IDs, until their parent reaps them. */
export type EscapedFrom = Escaped & { readonly decision: DecisionId; readonly isUnreaped?: true };
export type Eviction = {
  readonly decision: DecisionId;
  readonly decidedMs: MonoMs;
  readonly victim: Victim;
  /** What was available of the signal it was chosen for, and how much it held itself; absent: over a limit, or unknown. */
  readonly atChoice?: { readonly signal: Signal; readonly available: number; readonly held: number };
  /** When its first request to end and its first SIGKILL were sent; absent: not yet. */
  readonly signalledMs?: MonoMs;
  readonly killedMs?: MonoMs;
  /** Since when only the unmount of its memory volumes is awaited; absent: it is not known to have ended. */
  readonly deadMs?: MonoMs;
  /** Counts from the first signal or, until that is sent, from the decision. */
  readonly graceEndsMs: MonoMs;
  /** The deadline for its first signal; once that is sent, for the proof of its end. */
  readonly deadlineMs: MonoMs;
  /** D3: when it had freed its memory or its time was over, so that the next victim may be chosen; null while it is awaited. */
  readonly settledMs: MonoMs | null;
  readonly cause:
    | { readonly kind: 'threshold'; readonly threshold: MetThreshold }
    | { readonly kind: 'over-limit'; readonly limit: StorageLimit };
  /** Thresholds of other shortages, met meanwhile, for which it would have been chosen too: they wait for it. */
  readonly alsoFor?: readonly MetThreshold[];
};

export function initialState(bootId: string): State {
  return {
    schema: 1,
    bootId,
    nextDecision: 1,
    firstMetMs: {},
    metValues: {},
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
    escaped: [],
    ownerKills: [],
    stops: [],
    shutdown: { kind: 'unarmed', why: 'not started' },
  };
}
