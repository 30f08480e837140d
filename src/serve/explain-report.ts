import type { Decision, RankRow } from '../core/decision.ts';
import { orderUnproven } from '../core/eviction/candidate.ts';
import { podsFor } from '../core/eviction/question.ts';
import { timersNow } from '../core/eviction/thresholds-met.ts';
import {
  type Candidate,
  counterfactuals,
  type ExplainedLook,
  type Explanation,
  explain,
  signalOf,
  thresholdsOf,
  type WhatIf,
} from '../core/explain.ts';
import { type PodUid, type PodView, saidPriority } from '../core/pod/pod.ts';
import type { Reading, Unknown } from '../core/reading.ts';
import type { Reason } from '../core/reason.ts';
import { type Ties, tiesOf } from '../core/shutdown/chain.ts';
import { SIGNALS, type Signal } from '../core/signal.ts';
import { sayReason, sayUnproven } from '../words/reason.ts';
import { namesOf } from './pod-names.ts';
import { type NodeFacts, requestFor, type SignalStatus, signalStatus } from './status.ts';

/** The origin of the look. */
export type LookSource =
  | ({ readonly kind: 'live'; readonly node: string; readonly atWallMs: number } & Pick<NodeFacts, 'mode' | 'dryRun'>)
  | {
      readonly kind: 'scenario';
      readonly file: string;
      readonly name: string;
      readonly step: number;
      readonly at: number;
    };
/** What `explain -o json` prints; docs/json.md describes every field. */
export type ExplainReport = {
  readonly schema: 1;
  readonly source: LookSource;
  /** The signal that this look acts on or waits for, else the first whose threshold is met; null: none is met. */
  readonly actsOn: Signal | null;
  readonly signal: SignalStatus;
  readonly decisions: readonly Decision[];
  /** `signal`: the one that it is about; null: none. */
  readonly reasons: readonly { readonly code: string; readonly signal: Signal | null; readonly text: string }[];
  readonly comparators: Explanation['comparators'];
  readonly podsUnknown: Unknown | null;
  readonly pods: readonly ExplainedRow[];
  readonly victim: PodUid | null;
  /** Why there is no victim although a pod could be evicted; null: that is not so. */
  readonly unproven: string | null;
  readonly whatIf: WhatIf | null;
};
export type ExplainedRow = Pick<PodView, 'uid' | 'namespace' | 'name' | 'qos' | 'isProtected' | 'evictFor'> &
  Ties & {
    /** null: unknown. */
    readonly priority: number | null;
    readonly usage: Reading<number>;
    /** null: the signal has no request. */
    readonly request: number | null;
    readonly values: RankRow['values'];
    readonly decidedBy: RankRow['decidedBy'];
    readonly candidate: Candidate;
  };

/** `of` selects the pod in question; null: the pod that is or would be evicted. */
export function explainReport(
  look: ExplainedLook,
  source: LookSource,
  asked: { readonly signal: Signal | null; readonly of: PodUid | null },
): ExplainReport {
  const { observation, state } = look;
  const actsOn = signalOf(look);
  const signal = asked.signal ?? actsOn ?? 'memory.available';
  const thresholds = thresholdsOf(look);
  const pods = podsFor(observation, signal);
  const explanation = explain(look, signal);
  const { victim = null, unproven = null } = explanation ?? {};
  const subject = asked.of ?? victim?.uid ?? null;
  const nameOf = namesOf(observation);
  return {
    schema: 1,
    source,
    actsOn,
    signal: signalStatus(signal, observation, timersNow(state, observation, thresholds).kept, thresholds),
    decisions: look.decisions,
    reasons: look.reasons.map((reason) => ({
      code: reason.code,
      signal: signalOfReason(reason),
      text: sayReason(reason, nameOf),
    })),
    comparators: explanation?.comparators ?? [],
    podsUnknown: pods.known ? null : pods,
    pods: explanation?.pods.map((entry) => rowOf(signal, entry)) ?? [],
    victim: victim?.uid ?? null,
    unproven: unproven && sayUnproven(orderUnproven(signal, unproven), nameOf),
    whatIf: subject === null ? null : counterfactuals(look, signal, subject),
  };
}

function signalOfReason(reason: Reason): Signal | null {
  if ('signal' in reason) return reason.signal;
  if (!('threshold' in reason)) return null;
  const { threshold } = reason;
  if (typeof threshold !== 'string') return threshold.signal;
  return SIGNALS.find((signal) => threshold.startsWith(`${signal}/`)) ?? null;
}

function rowOf(signal: Signal, { pod, row, usage, candidate }: Explanation['pods'][number]): ExplainedRow {
  const { uid, namespace, name, qos, isProtected, evictFor } = pod;
  const { values, decidedBy } = row;
  const request = requestFor(signal, pod);
  const own = {
    uid,
    namespace,
    name,
    qos,
    priority: saidPriority(pod),
    isProtected,
    ...(evictFor === undefined ? {} : { evictFor }),
    ...tiesOf(pod),
  };
  return { ...own, usage, request, values, decidedBy, candidate };
}
