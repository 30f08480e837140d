import type { DecisionId } from './decision.ts';
import type { Attribution } from './eviction/attribution.ts';
import type { MetThreshold, ThresholdId } from './eviction/threshold.ts';
import type { Unconfirmed } from './observation.ts';
import type { CandidateLimit, PodUid } from './pod/pod.ts';
import type { MonoMs, Reading, Unknown } from './reading.ts';
import type { NodeCondition, Signal } from './signal.ts';
import type { Quantity } from './units/quantity.ts';

/** Why something was or was not decided: a code and facts, no prose. */
export type Reason =
  | { readonly code: 'below-threshold'; readonly threshold: MetThreshold }
  | { readonly code: 'grace-running'; readonly threshold: ThresholdId; readonly remainingMs: number }
  | {
      readonly code: 'min-reclaim-pending';
      readonly threshold: ThresholdId;
      readonly available: number;
      readonly target: Quantity;
    }
  | {
      readonly code: 'signal-unknown';
      readonly signal: Signal;
      readonly unknown: Unknown;
      readonly failedLooks: number;
    }
  | { readonly code: 'pods-unknown'; readonly unknown: Unknown }
  | { readonly code: 'sample-not-new'; readonly signal: Signal; readonly sampledAtMs: MonoMs }
  | { readonly code: 'transition-period'; readonly condition: NodeCondition; readonly remainingMs: number }
  | { readonly code: 'waiting-for-victim'; readonly eviction: DecisionId; readonly remainingMs: number }
  /** Its first signal could not be sent in time, for example without CPU time: nothing waits for it any more. */
  | { readonly code: 'not-signalled'; readonly eviction: DecisionId; readonly uid: PodUid }
  /**
   * D15: after a proven kill the signal is not getting worse; `eviction`: that kill. `isEmptying`: the scratch of its victim is
   * being emptied; `remainingMs` counts anew whenever something comes back.
   */
  | {
      readonly code: 'clean-up-wait';
      readonly signal: Signal;
      readonly eviction: DecisionId;
      readonly remainingMs: number;
      readonly isEmptying?: true;
    }
  | { readonly code: 'reclaim-running'; readonly decision: DecisionId; readonly remainingMs: number }
  | { readonly code: 'reclaim-sufficed'; readonly signal: Signal }
  /** It is over a local storage limit, but `spares` would stop with it (D7, D16). Both as namespace/name. */
  | { readonly code: 'limit-spared'; readonly uid: PodUid; readonly pod: string; readonly spares: string }
  | {
      readonly code: 'passed-over';
      readonly uid: PodUid;
      readonly because:
        | 'static-critical'
        | 'protected'
        /** D7: it must not be chosen for this resource. */
        | 'evict-for'
        | 'daemonset-within-request'
        | 'guard'
        | 'terminating'
        /** D3: it is within its request, and pods that others have deleted will free enough. */
        | 'others-end'
        /** D3: it is not known to be to blame, and what victims or others hold (heldOf) would be enough. */
        | 'escaped'
        /** C9: it is not known to exceed its request, and another pod may. */
        | 'not-over-request'
        /** D6, C9, D18: it exceeds its request, but cannot stand in for the pod that is passed over. */
        | 'too-little'
        /** C9: its request is not known, and another pod may be the one to blame. */
        | 'declaration-unknown'
        /** C9: neither the request nor anything else that the API says of it is known. */
        | 'undeclared-holds-less'
        /** D18: a budget has refused another pod, and this one does not exceed its request. */
        | 'budget-innocent'
        /** D14: its end is not known to free or save anything. */
        | 'no-relief'
        /** D17: it stalls in its own memory limit, which makes no other pod short of memory. */
        | 'own-limit'
        | 'between-runs'
        | CandidateLimit;
    }
  | {
      readonly code: 'no-candidate';
      readonly signal: Signal;
      readonly threshold: MetThreshold;
      /**
       * D7: pods could be stopped, but not for this resource. D14: no pod's end is known to free enough. C9: what is lacking
       * is held by pods of which more is to come, and no other pod is known to be to blame. D3: the same is held by victims
       * outside their cgroups. D13: no pod is known to be to blame, and a manifest is not read.
       */
      readonly because?: 'evict-for' | 'no-relief' | 'awaited' | 'escaped' | 'manifest-unread';
      /** With `no-relief`: it might free something, but is not fully measured. */
      readonly unmeasured?: PodUid;
      /** As in a decision to evict. */
      readonly growth?: Reading<Attribution>;
    }
  /**
   * `uid` would be chosen, but `against` is not measured, or only in part, and may use more. `isShared`: it is measured, but of
   * some of its files it is not known whether they are another pod's. `isMaybeEmpty`: it is not known whether it has processes.
   */
  | {
      readonly code: 'order-unproven';
      readonly signal: Signal;
      readonly uid: PodUid;
      readonly against: PodUid;
      readonly isShared?: true;
      readonly isMaybeEmpty?: true;
    }
  /** `pods`: how many the phase waits for. */
  | { readonly code: 'shutdown-phase'; readonly phase: number; readonly remainingMs: number; readonly pods: number }
  | {
      readonly code: 'shutdown-phase-over';
      readonly phase: number;
      readonly startedMs: MonoMs;
      readonly by: PhaseEnd;
      /** How long it waited for volumes after its pods. */
      readonly volumesMs: number;
      /** Pods of the phase whose stop has not ended, and ended ones with mounted volumes. */
      readonly running: readonly PodUid[];
      readonly mounted: readonly PodUid[];
    }
  /** kubelet-shutdown.md 5.2: its stop continues, but the phase no longer waits for it. */
  | { readonly code: 'shutdown-wait-exceeded'; readonly phase: number; readonly uid: PodUid }
  /** D11: the phase gets less time than it needs. */
  | {
      readonly code: 'shutdown-shortened';
      readonly phase: number;
      readonly periodMs: number;
      readonly wantedMs: number;
    }
  /** It was started again after its stop. `times`: how many stops there were before this one; at 3 it is left running. */
  | { readonly code: 'shutdown-started-again'; readonly uid: PodUid; readonly times: number }
  | { readonly code: 'shutdown-cancelled'; readonly phase: number; readonly policy: 'promptly' | 'afterPhases' }
  /** beside-a-kubelet.md E4. `detail` null: there was no answer in time. */
  | { readonly code: 'shutdown-announced'; readonly detail: string | null }
  /** E17: the wait after the last phase is over; `left` null: what is left is unknown. */
  | { readonly code: 'shutdown-confirmed'; readonly tookMs: number; readonly left: Unconfirmed | null }
  | { readonly code: 'shutdown-not-armed'; readonly why: string };
/** kubelet-shutdown.md 5.1: the wait for pods and volumes ended, the period was over, or volumes took 123 s. */
export type PhaseEnd = 'done' | 'period' | 'volume-timeout' | 'cancelled';
