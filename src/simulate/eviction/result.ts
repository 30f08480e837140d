import type { Decision, StorageLimit } from '../../core/decision.ts';
import { trueConditions } from '../../core/eviction/condition.ts';
import { evictedStatus } from '../../core/eviction/pod-status.ts';
import { rank } from '../../core/eviction/rank.ts';
import type { MetThreshold, ThresholdId } from '../../core/eviction/threshold.ts';
import { namesOf, type PodView, podName } from '../../core/pod/pod.ts';
import type { Reason } from '../../core/reason.ts';
import { type ReclaimCall, reclaimCalls } from '../../core/reclaim/calls.ts';
import {
  type FsLayout,
  type NodeCondition,
  type Resource,
  SIGNAL_FACTS,
  SIGNALS,
  type Signal,
} from '../../core/signal.ts';
import type { State } from '../../core/state/state.ts';

export type Eviction = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;
export const isEviction = (decision: Decision): decision is Eviction =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';
type EvictedPod = {
  /** `namespace/name` */
  readonly pod: string;
  readonly signal: Signal | `${StorageLimit}.limit`;
  readonly gracePeriodSeconds: number;
  readonly reason: string;
  readonly disruptionTarget: boolean;
  readonly killFailed: boolean;
  readonly message: string;
  readonly annotations: { readonly [key: string]: string };
};
/** scenarios.md 6.3: the result of one look. Every key is always present, in the order of 4.1; sets are sorted. */
export type EvictionResult = {
  readonly thresholdsObserved: readonly string[];
  readonly thresholdsMet: readonly string[];
  readonly conditions: readonly NodeCondition[];
  readonly reclaiming: { readonly signal: Signal; readonly soft: boolean; readonly resource: Resource } | null;
  readonly nodeReclaim: readonly ReclaimCall[];
  readonly ranking: readonly string[];
  readonly evicted: readonly EvictedPod[];
};

/** The observed values before any action. */
type Observed = Pick<EvictionResult, 'thresholdsObserved' | 'thresholdsMet' | 'conditions'>;
export const NOTHING_OBSERVED: Observed = { thresholdsObserved: [], thresholdsMet: [], conditions: [] };
export const NOTHING_DONE: Omit<EvictionResult, keyof Observed> = {
  reclaiming: null,
  nodeReclaim: [],
  ranking: [],
  evicted: [],
};

export function reclaimSignals(layout: FsLayout): readonly Signal[] {
  return SIGNALS.filter((signal) => reclaimCalls(signal, layout).length > 0);
}

/** `isHard`: for every threshold that acts in this layout. `reasons` and `state` are those after the first reading. */
export function observedOf(
  reasons: readonly Reason[],
  state: State,
  isHard: ReadonlyMap<ThresholdId, boolean>,
): Observed {
  const observed = new Set<string>();
  const met = new Set<string>();
  for (const reason of reasons) {
    const id = observedIn(reason);
    if (id === null) continue;
    const name = `${id.split('/')[0]}/${isHard.get(id) ? 'hard' : 'soft'}`;
    observed.add(name);
    if (reason.code !== 'grace-running') met.add(name);
  }
  return {
    thresholdsObserved: [...observed].toSorted(),
    thresholdsMet: [...met].toSorted(),
    conditions: trueConditions(state.conditionLastMetMs).toSorted(),
  };
}

function observedIn(reason: Reason): ThresholdId | null {
  switch (reason.code) {
    case 'below-threshold':
      return reason.threshold.id;
    case 'grace-running':
    case 'min-reclaim-pending':
      return reason.threshold;
    default:
      return null;
  }
}

type Done = {
  /** From both readings, if there were two. */
  readonly decisions: readonly Decision[];
  readonly reasons: readonly Reason[];
  readonly pods: readonly PodView[];
  readonly layout: FsLayout;
  readonly fails: (name: string) => boolean;
};

export function doneOf(done: Done): typeof NOTHING_DONE {
  const { decisions, reasons, layout } = done;
  const reclaim = decisions.find(({ kind }) => kind === 'reclaim');
  const threshold = actedOn(decisions, reasons);
  return {
    reclaiming:
      threshold === null
        ? null
        : { signal: threshold.signal, soft: !threshold.isHard, resource: SIGNAL_FACTS[threshold.signal].resource },
    nodeReclaim: reclaim === undefined || threshold === null ? [] : reclaimCalls(threshold.signal, layout),
    ranking: rankingOf(done),
    evicted: decisions.filter(isEviction).map((decision) => evictedBy(decision, done.fails)),
  };
}

/** scenarios.md 3, step 7. */
function actedOn(decisions: readonly Decision[], reasons: readonly Reason[]): MetThreshold | null {
  const acted =
    decisions.find((decision) => decision.kind === 'reclaim' || decision.kind === 'evict') ??
    reasons.find((reason) => reason.code === 'no-candidate');
  return acted?.threshold ?? null;
}

function rankingOf({ decisions, reasons, pods, layout }: Done): readonly string[] {
  const nameOf = namesOf(pods);
  for (const decision of decisions)
    if (decision.kind === 'evict') return decision.ranking.map(({ uid }) => nameOf(uid));
  const none = reasons.find((reason) => reason.code === 'no-candidate');
  // Also ranked, but none of them may be evicted.
  return none === undefined ? [] : rank(none.signal, pods, layout).map(({ pod }) => podName(pod));
}

function evictedBy(decision: Eviction, fails: Done['fails']): EvictedPod {
  const { victim, message, graceSeconds } = decision;
  const pod = podName(victim);
  const isPressure = decision.kind === 'evict';
  const status = evictedStatus(message, isPressure ? 'node-pressure' : 'over-limit');
  return {
    pod,
    signal: isPressure ? decision.threshold.signal : `${decision.limit}.limit`,
    gracePeriodSeconds: graceSeconds,
    reason: status.reason,
    disruptionTarget: status.conditions.length > 0,
    killFailed: fails(pod),
    message,
    annotations: isPressure ? decision.annotations : {},
  };
}
