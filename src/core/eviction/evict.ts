import type { CoreConfig } from '../core-config.ts';
import type { Decision, Difference } from '../decision.ts';
import type { Observation } from '../observation.ts';
import { effectiveGraceMs, graceOf, HARD_GRACE_SECONDS } from '../pod/grace.ts';
import type { PodView } from '../pod/pod.ts';
import type { Reason } from '../reason.ts';
import { type ReclaimCall, reclaimCalls } from '../reclaim/calls.ts';
import { tiesOf } from '../shutdown/chain.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../signal.ts';
import type { Eviction, Reclaim, State } from '../state/state.ts';
import { least, nextId, type Step, victimOf, waiting, withDecision, withReason } from '../step.ts';
import { attribute } from './attribution.ts';
import { guardAfter, orderUnproven } from './candidate.ts';
import { isNotAsked } from './comparator.ts';
import { CONDITIONS } from './condition.ts';
import {
  atChoiceOf,
  cleanUpOf,
  enoughComing,
  holderOf,
  isFor,
  joinedOf,
  VICTIM_PACE_MS,
  waitFor,
  waitOrHasten,
  wasHeldBack,
  withHeldBack,
} from './hold-back.ts';
import { overLimits } from './over-limit.ts';
import { evictionMessage } from './pod-status.ts';
import { type Look, questionOf, stateAt } from './question.ts';
import { type Shortage, shortageOf, shortfallOf } from './shortage.ts';
import { compareRipe, firstSignal, type MetThreshold, type Threshold } from './threshold.ts';
import { type Timers, timersNow } from './thresholds-met.ts';
import { actOf, evictionsOf, sentByMs, settleEvictions } from './under-way.ts';
import { isReclaimOver, isReclaimVain, isStillShort, withReclaimed } from './vain-reclaim.ts';

type Thresholds = { readonly now: readonly Threshold[]; readonly all: readonly Threshold[] };
type EvictDecision = Extract<Decision, { kind: 'evict' }>;
/** `isAsking`: it has asked for the pods and waits for them. */
type Acted = Step & { readonly isAsking: boolean };

/** A reclaim ends within the operator's own timeouts; this ends the wait if its outcome is lost. */
const RECLAIM_DEADLINE_MS = 600_000;
/** While a soft timer runs, looks are less than a second apart, so that one unmet look is not a recovery (D2). */
const TIMER_PACE_MS = 250;
const SAMPLE_PACE_MS = 100;
const NOBODY_PACE_MS = 1_000;
/** Somebody may be chosen as soon as more is known of a pod. */
const AWAITED_PACE_MS = 100;

/** kubelet-eviction.md section 4, one pass, with the differences of product.md section 6. */
export function stepEviction(state: State, observation: Observation, config: CoreConfig, thresholds: Thresholds): Step {
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const look: Look = { observation, config, layout };
  const timers = timersNow(state, observation, thresholds.now);
  const isAnyOver = state.reclaims.some((reclaim) => isReclaimOver(reclaim, observation));
  const judged = isAnyOver ? judgeReclaim(state, look, timers, thresholds.all) : null;
  // D3: while it waits for what a disk needs to know of the pods, the other resources do not.
  if (judged !== null && !(judged.isAsking && config.isLive)) return judged;
  const looked = conditionStep({ ...state, reclaims: judged?.state.reclaims ?? state.reclaims }, look, timers);
  const over = overLimitStep(looked.state, look);
  // kubelet-eviction.md 4.6: a look that evicts for a local storage limit does nothing else.
  const isOver = over.decisions.length > 0;
  const step = isOver ? { ...over, isAsking: false } : pressureStep(over.state, look, timers, state.lastSample);
  return {
    // A look that waits for the pods has not consumed its samples: the look that brings the pods uses them.
    state: step.isAsking ? { ...step.state, lastSample: state.lastSample } : step.state,
    decisions: [...looked.decisions, ...step.decisions],
    reasons: [...timers.reasons, ...looked.reasons, ...(judged?.reasons ?? []), ...step.reasons],
    pods: step.isAsking ? step.pods : (judged?.pods ?? step.pods),
    heldToMs: least(least(step.heldToMs, looked.heldToMs), judged?.heldToMs ?? null),
    ...(isDiskShort(step.state, look, timers) ? { isDiskShort: true } : {}),
  };
}

function isDiskShort(state: State, { observation, layout }: Look, { ripe }: Timers): boolean {
  return ripe.some((met) => isDisk(met.signal) && holderOf(state, observation, layout, [met]) === null);
}

/** Updates timers, conditions and the outcomes of earlier victims in the state. */
function conditionStep(state: State, look: Look, timers: Timers): Step {
  const { observation, config } = look;
  const { atMs } = observation;
  const now = stateAt(state, look, timers);
  let step: Step = {
    state: now,
    decisions: [],
    reasons: [],
    pods: null,
    heldToMs: Object.keys(timers.kept.firstMetMs).length > 0 ? TIMER_PACE_MS : null,
  };
  for (const { decision, victim, signalledMs, settledMs } of evictionsOf(now)) {
    if (signalledMs === undefined && settledMs !== null)
      step = withReason(step, { code: 'not-signalled', eviction: decision, uid: victim.uid });
  }
  for (const condition of CONDITIONS) {
    const lastMs = now.conditionLastMetMs[condition];
    const status = lastMs !== undefined;
    if (status !== (state.conditionLastMetMs[condition] !== undefined)) {
      step = withDecision(step, atMs, { kind: 'set-condition', condition, status });
    }
    if (lastMs !== undefined && lastMs !== atMs) {
      const remainingMs = config.pressureTransitionMs - (atMs - lastMs);
      step = withReason(step, { code: 'transition-period', condition, remainingMs });
      step = { ...step, heldToMs: least(step.heldToMs, remainingMs) };
    }
  }
  return step;
}

/** kubelet-eviction.md 4.6: every pod over a local storage limit, at once. */
function overLimitStep(state: State, { observation, config, layout }: Look): Step {
  if (config.localStorageLimits !== 'enforce' || !observation.pods.known) return waiting(state, null);
  const underWay = evictionsOf(state).map(({ victim }) => victim.uid);
  const all = overLimits(observation.pods.value, layout).filter(({ pod }) => !underWay.includes(pod.uid));
  const dryOverLimit = state.dryOverLimit.filter((uid) => all.some(({ pod }) => pod.uid === uid));
  let step = waiting({ ...state, dryOverLimit }, VICTIM_PACE_MS);
  for (const { pod, limit, message } of all.filter(({ pod }) => !dryOverLimit.includes(pod.uid))) {
    const eviction = newEviction(step.state, observation, pod, HARD_GRACE_SECONDS * 1_000, {
      kind: 'over-limit',
      limit,
    });
    step = withDecision(withEviction(step, eviction), observation.atMs, {
      kind: 'evict-over-limit',
      victim: victimOf(pod),
      limit,
      graceSeconds: HARD_GRACE_SECONDS,
      message,
    });
  }
  return step;
}

/** kubelet-eviction.md 4.7 to 4.12: which threshold to act on, and how. */
function pressureStep(state: State, look: Look, timers: Timers, lastSample: State['lastSample']): Acted {
  const { observation } = look;
  const stale = timers.ripe.filter(({ signal }) => !isNewSample(observation, signal, lastSample));
  const ripe = timers.ripe
    .filter((threshold) => !stale.includes(threshold) && !state.dryDropped.includes(threshold.id))
    .toSorted(compareRipe);
  const reasons = stale.map(({ signal }): Reason => {
    return { code: 'sample-not-new', signal, sampledAtMs: lastSample[signal]?.sampledAtMs ?? observation.atMs };
  });
  // While it waits for a sample, it keeps asking for the pods, so that the walk of their directories continues.
  const idle: Step =
    stale[0] === undefined
      ? waiting(state, timers.ripe.length > 0 ? NOBODY_PACE_MS : null)
      : { ...waiting(state, SAMPLE_PACE_MS), pods: stale[0].signal };
  const acted = ripe.length === 0 ? { ...idle, isAsking: false } : actOn(state, look, ripe);
  return { ...acted, reasons: [...reasons, ...acted.reasons] };
}

/**
 * At most one decision. The kubelet acts only on the first threshold; on a live node each shortage has its turn until one of
 * them decides, because no shortage waits for another (D3).
 */
function actOn(state: State, look: Look, ripe: readonly MetThreshold[]): Acted {
  const groups = new Map<Shortage, MetThreshold[]>();
  for (const threshold of ripe) {
    const shortage = shortageOf(threshold.signal, look.layout);
    groups.set(shortage, [...(groups.get(shortage) ?? []), threshold]);
  }
  let acted: Acted = { ...waiting(state, null), isAsking: false };
  for (const group of look.config.isLive ? groups.values() : [...groups.values()].slice(0, 1)) {
    const next = actOnShortage(acted.state, look, group);
    const isFirst = acted.heldToMs === null;
    // Two shortages that need different facts about the pods must not keep each other from waiting.
    const heldToMs = next.isAsking && !isFirst ? Math.max(next.heldToMs ?? 0, VICTIM_PACE_MS) : next.heldToMs;
    acted = {
      state: next.state,
      decisions: next.decisions,
      reasons: [...acted.reasons, ...next.reasons],
      pods: acted.isAsking ? acted.pods : (next.pods ?? acted.pods),
      heldToMs: least(acted.heldToMs, heldToMs),
      isAsking: acted.isAsking || next.isAsking,
    };
    if (next.decisions.length > 0) break;
  }
  return acted;
}

/** `ripe`: thresholds of one shortage, never empty. */
function actOnShortage(state: State, look: Look, ripe: readonly MetThreshold[]): Acted {
  const { observation, config, layout } = look;
  const first = ripe[0];
  if (first === undefined) return { ...waiting(state, null), isAsking: false };
  const shortage = shortageOf(first.signal, layout);
  const waits = (step: Step): Acted => ({ ...step, isAsking: false });
  const inWay = holderOf(state, observation, layout, ripe);
  if (inWay !== null) return waits(waitOrHasten(state, observation, inWay, ripe));
  const inProgress = state.reclaims.find(({ threshold }) => shortageOf(threshold.signal, layout) === shortage);
  if (inProgress !== undefined) {
    const { decision, deadlineMs, threshold } = inProgress;
    const running = { code: 'reclaim-running', decision, remainingMs: deadlineMs - observation.atMs } as const;
    const step = { ...waiting(state, TIMER_PACE_MS), pods: threshold.signal };
    return waits(running.remainingMs > 0 ? withReason(step, running) : step);
  }
  const cleanUp = config.isLive ? cleanUpOf(state, observation, shortage, ripe) : null;
  if (cleanUp !== null) {
    const pace = cleanUpPaceMs(shortage, cleanUp.remainingMs);
    return waits(withReason(waiting(withHeldBack(state, shortage, observation), pace), cleanUp));
  }
  const calls = config.hasRuntime ? reclaimCalls(first.signal, layout) : [];
  if (calls.length === 0 && !config.reclaimSignals.includes(first.signal)) return evictFor(state, look, first);
  const underWay = evictionsOf(state).find((eviction) => isFor(eviction, shortage, layout) || isOverLimit(eviction));
  if (underWay !== undefined) return waits(waitFor(state, observation, underWay));
  const reclaim = waits(reclaimFor(state, observation, first, calls));
  if (!config.isLive || !isReclaimVain(state, shortage, observation)) return reclaim;
  const without = evictFor(state, look, first);
  return without.decisions.length > 0 ? reclaim : without;
}

type Calls = readonly ReclaimCall[];
function reclaimFor(state: State, observation: Observation, threshold: MetThreshold, calls: Calls): Step {
  const reclaim = { decision: nextId(state), threshold, deadlineMs: observation.atMs + RECLAIM_DEADLINE_MS };
  const reclaims = [...state.reclaims, reclaim];
  const step = { ...waiting({ ...state, reclaims }, TIMER_PACE_MS), pods: threshold.signal };
  return withDecision(step, observation.atMs, { kind: 'reclaim', threshold, ...(calls.length === 0 ? {} : { calls }) });
}

/**
 * kubelet-eviction.md 6.3: judges the reading after a reclaim. It was enough only if no threshold of any signal is met with
 * its min reclaim, whatever its grace period. Timers do not change (6.4).
 */
function judgeReclaim(before: State, look: Look, timers: Timers, all: readonly Threshold[]): Acted {
  const { observation, config, layout } = look;
  const { signals, atMs } = observation;
  // Each outcome arrives once: what this look does not judge, the next one must.
  const isOver = (reclaim: Reclaim): boolean => isReclaimOver(reclaim, observation);
  const reclaims = before.reclaims.map((reclaim) => (isOver(reclaim) ? { ...reclaim, deadlineMs: atMs } : reclaim));
  const state = {
    ...before,
    ...settleEvictions(before, observation, timers.met, layout, config.isLive),
    reclaims,
  };
  const judged = reclaims.find(isOver);
  if (judged === undefined) return { ...waiting(state, 0), isAsking: false };
  const [threshold, signal] = [judged.threshold, judged.threshold.signal];
  const shortage = shortageOf(signal, layout);
  const asked = config.isLive ? all.filter((other) => shortageOf(other.signal, layout) === shortage) : all;
  const isLeft = (reclaim: Reclaim): boolean => reclaim !== judged;
  const judgedState = withReclaimed({ ...state, reclaims: reclaims.filter(isLeft) }, shortage, judged, observation);
  const done = { ...waiting(judgedState, VICTIM_PACE_MS), isAsking: false };
  // D5: it may have freed enough.
  if (config.isLive && !signals[signal].known) return { ...done, reasons: timers.reasons };
  if (signals[signal].known && !isStillShort(observation, asked))
    return { ...done, reasons: [{ code: 'reclaim-sufficed', signal }] };
  // The kubelet keeps the reading from before its reclaim.
  const now = config.isLive ? timers.met.find(({ id }) => id === threshold.id) : undefined;
  const step = evictFor(judgedState, look, now ?? threshold);
  // Without the pods, this judgement is repeated once they are there.
  return step.isAsking ? { ...step, state } : step;
}

/** kubelet-eviction.md 4.10 to 4.12: rank, choose, decide. */
function evictFor(state: State, look: Look, threshold: MetThreshold): Acted {
  const { observation, config } = look;
  const { atMs, pods } = observation;
  const asked: Acted = { ...waiting(state, NOBODY_PACE_MS), pods: threshold.signal, isAsking: true };
  // A shutdown that needs all pods has precedence: asking for others at once would get the same pods again.
  if (pods.known && isOtherDisk(look, threshold))
    return { ...asked, heldToMs: observation.podsFor === 'all' ? TIMER_PACE_MS : 0 };
  if (pods.known && pods.value.some((pod) => isNotAsked(pod, threshold.signal))) return { ...asked, heldToMs: 0 };
  if (!pods.known) {
    if (pods.why === 'not-asked' || isUnknownForDisk(observation, threshold)) return { ...asked, heldToMs: 0 };
    return { ...asked, heldToMs: TIMER_PACE_MS, reasons: [{ code: 'pods-unknown', unknown: pods }] };
  }
  const done = (step: Step): Acted => ({ ...step, isAsking: false });
  const question = questionOf(state, look, shortfallOf(threshold));
  const ranking = question.ranked(pods.value);
  const { victim, passedOver, differences, unproven, unmeasured, nobody: why } = question.choose(ranking);
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
    const isAwaited = why === 'awaited' || why === 'manifest-unread' || (unproven !== null && !isDisk(signal));
    const heldToMs = isAwaited ? AWAITED_PACE_MS : NOBODY_PACE_MS;
    return done({ ...asked, heldToMs, reasons: [...passedOver, nobody] });
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
      differences: [...new Set([...differences, ...differencesInTime(state, look, threshold)])],
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

/** D14's facts are about the file system for which the pods were read. */
function isOtherDisk({ observation, layout }: Look, { signal }: MetThreshold): boolean {
  const asked = observation.podsFor;
  if (asked === undefined || !isDisk(signal)) return false;
  return asked === null || asked === 'all' || shortageOf(asked, layout) !== shortageOf(signal, layout);
}

/** D3: the walks of their directories are not awaited for another resource. */
function isUnknownForDisk({ podsFor = null }: Observation, { signal }: MetThreshold): boolean {
  return podsFor !== null && podsFor !== 'all' && isDisk(podsFor) && !isDisk(signal);
}

/** kubelet-eviction.md 1.4.4. */
function isNewSample(observation: Observation, signal: Signal, lastSample: State['lastSample']): boolean {
  const sample = observation.signals[signal];
  const before = lastSample[signal];
  if (!sample.known) return false;
  if (before === undefined || sample.value.isUntimed || before.isUntimed) return true;
  return sample.value.sampledAtMs > before.sampledAtMs;
}

function newEviction(
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

const isOverLimit = ({ cause }: Eviction): boolean => cause.kind === 'over-limit';

const cleanUpPaceMs = (shortage: Shortage, remainingMs: number): number =>
  Math.min(remainingMs, shortage === 'memory' || shortage === 'pids' ? VICTIM_PACE_MS : SAMPLE_PACE_MS);

function withEviction(step: Step, eviction: Eviction): Step {
  return { ...step, state: { ...step.state, act: actOf([...evictionsOf(step.state), eviction]) } };
}
