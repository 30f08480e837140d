import type { Attribution } from './eviction/attribution.ts';
import type { Comparator } from './eviction/comparator.ts';
import type { MetThreshold } from './eviction/threshold.ts';
import type { PodUid, Victim } from './pod/pod.ts';
import type { MonoMs, Reading } from './reading.ts';
import type { ReclaimCall } from './reclaim/calls.ts';
import type { StopChain, Ties } from './shutdown/chain.ts';
import type { NodeCondition } from './signal.ts';

export type DecisionId = string;
export type Decision = { readonly id: DecisionId; readonly atMs: MonoMs } & (
  | {
      readonly kind: 'reclaim';
      readonly threshold: MetThreshold;
      /** What the container runtime is asked to remove, in this order; absent: nothing. */
      readonly calls?: readonly ReclaimCall[];
    }
  | ({
      readonly kind: 'evict';
      readonly threshold: MetThreshold;
      readonly victim: Victim;
      readonly ranking: readonly RankRow[];
      readonly graceSeconds: number;
      readonly message: string;
      readonly annotations: { readonly [key: string]: string };
      readonly differences: readonly Difference[];
      /** For node memory only: what grew. Absent if not determined. */
      readonly growth?: Reading<Attribution>;
    } & Ties)
  | ({
      readonly kind: 'evict-over-limit';
      readonly victim: Victim;
      readonly limit: StorageLimit;
      readonly graceSeconds: 1;
      readonly message: string;
    } & Pick<Ties, 'takesAlong'>)
  | {
      readonly kind: 'hasten';
      readonly eviction: DecisionId;
      readonly threshold: MetThreshold;
      readonly graceSeconds: number;
      /** Absent in records of earlier versions. */
      readonly differences?: readonly Difference[];
    }
  | { readonly kind: 'set-condition'; readonly condition: NodeCondition; readonly status: boolean }
  | ({
      readonly kind: 'stop-for-shutdown';
      readonly victim: Victim;
      /** Position among the configured phases, counted from 1, including those without pods. */
      readonly phase: number;
      /** As requested (kubelet-shutdown.md 4.5). May be 0 or less, which 4.6 raises to the minimum. */
      readonly graceSeconds: number;
      /** When its phase is over; absent in records of earlier versions. */
      readonly endsMs?: MonoMs;
      /** Absent: it waits for no pod, and no pod waits for it. */
      readonly chain?: StopChain;
      /** It is stopped because the agent itself is being stopped; absent: after logind's signal. */
      readonly tier?: 'stop';
    } & Ties)
  /** `totalMs`: the longest delay of logind; `byKubelet`: the kubelet stops the pods. */
  | { readonly kind: 'announce-shutdown'; readonly totalMs: number; readonly byKubelet: boolean }
  | { readonly kind: 'take-lock' }
  /** A cancelled shutdown: the pods that it stopped may run again once their stop has ended. */
  | { readonly kind: 'undo-stops' }
  | { readonly kind: 'release-lock'; readonly why: 'all-phases-done' | 'out-of-time' }
);
/** Local storage limits: no threshold, no ranking, several pods in one look. */
export type StorageLimit = 'emptydirfs' | 'ephemeralpodfs' | 'ephemeralcontainerfs';
/** The deliberate differences of product 6. */
export type Difference =
  | 'D1'
  | 'D2'
  | 'D3'
  | 'D4'
  | 'D5'
  | 'D6'
  | 'D7'
  | 'D8'
  | 'D9'
  | 'D10'
  | 'D11'
  | 'D12'
  | 'D13'
  | 'D14'
  | 'D15'
  | 'D16'
  | 'D17'
  | 'D18';
export type RankValue = {
  readonly by: Comparator;
  readonly value: Reading<number | string | boolean>;
  /** A lower bound: the number may be higher, and false may be true. */
  readonly isAtLeast?: true;
  /** What was measured is missing: the value counts it as 0 (kubelet-eviction.md 5.5). */
  readonly isMissing?: true;
};
export type RankRow = {
  readonly uid: PodUid;
  readonly values: readonly RankValue[];
  /** The comparator that ranks this row before the next one; null in the last row. */
  readonly decidedBy: Comparator | null;
};
