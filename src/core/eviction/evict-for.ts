import type { Decision, Difference } from '../decision.ts';
import type { Observation } from '../observation.ts';
import { effectiveGraceMs, graceOf } from '../pod/grace.ts';
import type { PodView } from '../pod/pod.ts';
import type { Reason } from '../reason.ts';
import { tiesOf } from '../shutdown/chain.ts';
import { isDisk, SIGNAL_FACTS } from '../signal.ts';
import type { Eviction, State } from '../state/state.ts';
import { nextId, type Step, victimOf, waiting, withDecision } from '../step.ts';
import { attribute } from './attribution.ts';
import { orderUnproven } from './candidate.ts';
import { isNotAsked } from './comparator.ts';
import { atChoiceOf, enoughComing, joinedOf, VICTIM_PACE_MS, waitFor, waitOrHasten, wasHeldBack } from './hold-back.ts';
import { guardAfter } from './loop-guard.ts';
import { evictionMessage } from './pod-status.ts';
import { isOtherDisk, isUnknownForDisk, type Look, podsFor, questionOf } from './question.ts';
import { shortageOf, shortfallOf } from './shortage.ts';
import { firstSignal, type MetThreshold } from './threshold.ts';
import { actOf, evictionsOf, sentByMs } from './under-way.ts';

/** While it waits for more of the pods to be known. */
const ASKING_PACE_MS = 250;
export const NOBODY_PACE_MS = 1_000;
/** Somebody may be chosen as soon as more is known of a pod. */
const AWAITED_PACE_MS = 100;

type EvictDecision = Extract<Decision, { kind: 'evict' }>;
/**
 * `isAsking`: it has asked for the pods and waits for them. `nobodyBy`: nobody is evicted for the threshold, nor being stopped
 * for it, by these differences, but somebody may be for another one of the resource.
 */
export type Acted = Step & { readonly isAsking: boolean; readonly nobodyBy?: readonly Difference[] };

/** kubelet-eviction.md 4.10 to 4.12: rank, choose, decide. `nobodyBy`: of the thresholds before it. */
export function evictFor(
  state: State,
  look: Look,
  threshold: MetThreshold,
  nobodyBy: readonly Difference[] = [],
): Acted {
  const { observation, config } = look;
  const { atMs } = observation;
  const pods = podsFor(observation, threshold.signal);
  const asked: Acted = { ...waiting(state, NOBODY_PACE_MS), pods: threshold.signal, isAsking: true };
  // A shutdown that needs all pods has precedence: asking for others at once would get the same pods again.
  if (pods.known && isOtherDisk(look, threshold))
    return { ...asked, heldToMs: observation.podsFor === 'all' ? ASKING_PACE_MS : 0 };
  if (pods.known && pods.value.some((pod) => isNotAsked(pod, threshold.signal))) return { ...asked, heldToMs: 0 };
  if (!pods.known) {
    if (pods.why === 'not-asked' || isUnknownForDisk(observation, threshold)) return { ...asked, heldToMs: 0 };
    return { ...asked, heldToMs: ASKING_PACE_MS, reasons: [{ code: 'pods-unknown', unknown: pods }] };
  }
  const done = (step: Step): Acted => ({ ...step, isAsking: false });
  const question = questionOf(state, look, shortfallOf(threshold));
  const ranking = question.ranked(pods.value);
  const { victim, passedOver, differences, unproven, unmeasured, isNobodyLeft, nobody: why } = question.choose(ranking);
  if (config.isLive) {
    const joined = joinedOf(state, look, threshold, ranking, question.guarded);
    if (joined !== null) return done(waitOrHasten(joined.state, observation, joined.eviction, [threshold]));
    const coming = enoughComing(state, observation, threshold);
    if (coming !== null) return done(waitFor(state, observation, coming));
  }
  if (victim === null) {
    const { signal } = threshold;
    const because = { ...(why === null ? {} : { because: why }), ...(unmeasured === null ? {} : { unmeasured }) };
    const nobody: Reason =
      unproven === null
        ? { code: 'no-candidate', signal, threshold, ...because, ...growthOf(observation, threshold) }
        : orderUnproven(signal, unproven);
    const isAwaited =
      why === 'awaited' || why === 'manifest-unread' || why === 'escaped' || (unproven !== null && !isDisk(signal));
    const heldToMs = isAwaited ? AWAITED_PACE_MS : NOBODY_PACE_MS;
    const step = done({ ...asked, heldToMs, reasons: [...passedOver, nobody] });
    // D14: who frees no bytes may have made the files. Thresholds of memory are about the same, and what spares pods for this
    // one (D3, C9) is not known for each of them.
    if (!isDisk(signal) && !isNobodyLeft) return step;
    return { ...step, nobodyBy: [...nobodyBy, ...differences, ...(unproven === null ? [] : (['D13'] as const))] };
  }
  const graceSeconds = graceOf(threshold, victim, config);
  const eviction = newEviction(state, observation, victim, effectiveGraceMs(threshold, graceSeconds), {
    kind: 'threshold',
    threshold,
  });
  const ownerKills = guardAfter(state.ownerKills, victim, config.guard, atMs);
  const step = withEviction(waiting({ ...state, ownerKills }, VICTIM_PACE_MS), eviction);
  return done(
    withDecision({ ...step, reasons: passedOver }, atMs, {
      kind: 'evict',
      threshold,
      victim: victimOf(victim),
      ranking: ranking.map(({ row }) => row),
      graceSeconds,
      ...evictionMessage(threshold, victim),
      differences: [...new Set([...nobodyBy, ...differences, ...differencesInTime(state, look, threshold)])],
      ...growthOf(observation, threshold),
      ...tiesOf(victim),
    }),
  );
}

/** Differences that affect when, how or for what a pod is stopped, not which one. */
function differencesInTime(state: State, look: Look, threshold: MetThreshold): readonly Difference[] {
  const { observation, layout } = look;
  const { difference } = SIGNAL_FACTS[threshold.signal];
  const isHeldBack = wasHeldBack(state, shortageOf(threshold.signal, layout), observation);
  return [
    ...(firstSignal(threshold) === 'sigkill' ? (['D12'] as const) : []),
    ...(isHeldBack ? (['D15'] as const) : []),
    ...(difference === null ? [] : [difference]),
  ];
}

/** product.md section 8; only for node memory. */
function growthOf({ memoryGrowth }: Observation, { signal }: MetThreshold): Pick<EvictDecision, 'growth'> {
  return signal === 'memory.available' && memoryGrowth !== undefined ? { growth: attribute(memoryGrowth) } : {};
}

export function newEviction(
  state: State,
  observation: Observation,
  pod: PodView,
  graceMs: number,
  cause: Eviction['cause'],
): Eviction {
  return {
    decision: nextId(state),
    decidedMs: observation.atMs,
    victim: victimOf(pod),
    ...(cause.kind === 'threshold' ? atChoiceOf(cause.threshold, pod) : {}),
    graceEndsMs: observation.atMs + graceMs,
    deadlineMs: sentByMs({ cause }, observation.atMs),
    settledMs: null,
    cause,
  };
}

export function withEviction(step: Step, eviction: Eviction): Step {
  return { ...step, state: { ...step.state, act: actOf([...evictionsOf(step.state), eviction]) } };
}
