import { attribute } from './attribution.ts';
import { firstCandidate, guardAfter, isGuarded } from './candidate.ts';
import { CONDITIONS, conditionsNow } from './condition.ts';
import type { CoreConfig } from './core-config.ts';
import type { Decision, Difference } from './decision.ts';
import { evictionMessage } from './message.ts';
import type { Observation } from './observation.ts';
import { isEnd } from './outcome.ts';
import { overLimits } from './over-limit.ts';
import type { PodView } from './pod.ts';
import { rank } from './rank.ts';
import type { Reason } from './reason.ts';
import { actOf, PROOF_MS, settleEvictions } from './settle.ts';
import { type FsLayout, isDisk, SIGNALS, type Signal, type SignalSample } from './signal.ts';
import type { Eviction, State } from './state.ts';
import { least, nextId, type Step, victimOf, waiting, withDecision, withReason } from './step.ts';
import { tiesOf } from './stop-chain.ts';
import { compareRipe, firstSignal, isMetWithMinReclaim, type MetThreshold, type Threshold } from './threshold.ts';
import { type Timers, timersNow } from './timers.ts';

export type Thresholds = { readonly now: readonly Threshold[]; readonly all: readonly Threshold[] };
type EvictDecision = Extract<Decision, { kind: 'evict' }>;
type Look = { readonly observation: Observation; readonly config: CoreConfig; readonly layout: FsLayout };

/** A reclaim resolves within the operator's own time-outs; this ends the wait should its outcome be lost. */
const RECLAIM_DEADLINE_MS = 600_000;
/** kubelet-eviction.md 4.12: a soft grace of 0 or less ends up as the runtime's least, 2 s. */
const LEAST_SOFT_GRACE_MS = 2_000;
const HARD_GRACE_SECONDS = 1;
/** While a soft timer runs looks stay under a second apart, so that one unmet look is no recovery (D2). */
const TIMER_PACE_MS = 250;
const VICTIM_PACE_MS = 20;
const SAMPLE_PACE_MS = 100;
const NOBODY_PACE_MS = 1_000;

/** kubelet-eviction.md section 4, one pass, with the differences of product.md section 6. */
export function stepEviction(state: State, observation: Observation, config: CoreConfig, thresholds: Thresholds): Step {
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const look: Look = { observation, config, layout };
  if (state.act.kind === 'reclaiming' && isReclaimOver(state.act, observation)) {
    return judgeReclaim(state, state.act.threshold, look, thresholds.all);
  }
  const timers = timersNow(state, observation, thresholds.now);
  const looked = conditionStep(state, look, timers);
  const over = overLimitStep(looked.state, look);
  // kubelet-eviction.md 4.6: a look that evicts for a local storage limit does nothing else.
  const step = over.decisions.length > 0 ? over : pressureStep(over.state, look, timers, state.lastSample);
  const isAsking = step.heldToMs === 0 || step.reasons.some(({ code }) => code === 'pods-unknown');
  return {
    // A look that still waits for the pods has not used its samples up: they drive the look that brings the pods.
    state: isAsking ? { ...step.state, lastSample: state.lastSample } : step.state,
    decisions: [...looked.decisions, ...step.decisions],
    reasons: [...timers.reasons, ...looked.reasons, ...step.reasons],
    pods: step.pods,
    heldToMs: least(step.heldToMs, looked.heldToMs),
  };
}

/** Timers, conditions and what became of earlier victims, put into the state. */
function conditionStep(state: State, { observation, config }: Look, timers: Timers): Step {
  const { atMs, signals } = observation;
  const times = conditionsNow(
    state.conditionLastMetMs,
    timers.met.map(({ signal }) => signal),
    atMs,
    config.pressureTransitionMs,
  );
  const lastSample: { [S in Signal]?: SignalSample } = {};
  for (const signal of SIGNALS) {
    const sample = signals[signal];
    if (sample.known) lastSample[signal] = sample.value;
  }
  let step: Step = {
    state: {
      ...state,
      ...timers.kept,
      ...settleEvictions(state, observation, timers.met),
      ownerKills: guardAfter(state.ownerKills, null, config.guard, atMs),
      conditionLastMetMs: times,
      lastLookMs: atMs,
      lastSample,
    },
    decisions: [],
    reasons: [],
    pods: null,
    heldToMs: Object.keys(timers.kept.firstMetMs).length > 0 ? TIMER_PACE_MS : null,
  };
  for (const condition of CONDITIONS) {
    const lastMs = times[condition];
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
function pressureStep(state: State, look: Look, timers: Timers, lastSample: State['lastSample']): Step {
  const { observation } = look;
  const stale = timers.ripe.filter(({ signal }) => !isNewSample(observation, signal, lastSample));
  const ripe = timers.ripe
    .filter((threshold) => !stale.includes(threshold) && !state.dryDropped.includes(threshold.id))
    .toSorted(compareRipe);
  const reasons = stale.map(({ signal }): Reason => {
    return { code: 'sample-not-new', signal, sampledAtMs: lastSample[signal]?.sampledAtMs ?? observation.atMs };
  });
  // While a sample is waited for the pods stay asked for, so that their directories are walked on.
  const idle: Step =
    stale[0] === undefined
      ? waiting(state, timers.ripe.length > 0 ? NOBODY_PACE_MS : null)
      : { ...waiting(state, SAMPLE_PACE_MS), pods: stale[0].signal };
  const step = ripe.length === 0 ? idle : actOn(state, look, ripe);
  return { ...step, reasons: [...reasons, ...step.reasons] };
}

function actOn(state: State, look: Look, ripe: readonly MetThreshold[]): Step {
  const { observation, config } = look;
  const first = ripe[0];
  if (first === undefined) return waiting(state, null);
  const inWay = evictionsOf(state).find(({ cause, settledMs }) => cause.kind === 'threshold' && settledMs === null);
  if (inWay !== undefined) return waitOrHasten(state, observation, inWay, ripe);
  if (state.act.kind === 'reclaiming') {
    // A reclaim frees disk only: memory and pids do not wait for it.
    const other = ripe.find(({ signal }) => !config.reclaimSignals.includes(signal));
    if (other !== undefined) return evictFor(state, look, other);
    const { decision, deadlineMs, threshold } = state.act;
    const running = { code: 'reclaim-running', decision, remainingMs: deadlineMs - observation.atMs } as const;
    return withReason({ ...waiting(state, TIMER_PACE_MS), pods: threshold.signal }, running);
  }
  if (!config.reclaimSignals.includes(first.signal)) return evictFor(state, look, first);
  const underWay = evictionsOf(state)[0];
  if (underWay !== undefined) return waitFor(state, observation, underWay);
  return reclaimFor(state, observation, first);
}

function reclaimFor(state: State, observation: Observation, threshold: MetThreshold): Step {
  const deadlineMs = observation.atMs + RECLAIM_DEADLINE_MS;
  const act: State['act'] = { kind: 'reclaiming', decision: nextId(state), threshold, deadlineMs };
  const step = { ...waiting({ ...state, act }, TIMER_PACE_MS), pods: threshold.signal };
  return withDecision(step, observation.atMs, { kind: 'reclaim', threshold });
}

function isReclaimOver(act: Extract<State['act'], { kind: 'reclaiming' }>, observation: Observation): boolean {
  return (
    observation.atMs >= act.deadlineMs ||
    observation.outcomes.some((heard) => isEnd(heard) && heard.of === act.decision)
  );
}

/**
 * kubelet-eviction.md 6.3: the reading after a reclaim. It is enough only if no threshold of any signal is met with its
 * min reclaim, whatever its grace; nothing of the timers changes (6.4).
 */
function judgeReclaim(state: State, threshold: MetThreshold, look: Look, all: readonly Threshold[]): Step {
  const { signals, atMs } = look.observation;
  const isShort =
    !signals[threshold.signal].known ||
    all.some((other) => {
      const sample = signals[other.signal];
      return sample.known && isMetWithMinReclaim(other, sample.value);
    });
  const idle: State = { ...state, act: { kind: 'idle' } };
  if (!isShort)
    return withReason(waiting(idle, VICTIM_PACE_MS), { code: 'reclaim-sufficed', signal: threshold.signal });
  const step = evictFor(idle, look, threshold);
  // The pods were not at hand: this judgement is repeated with them.
  const isAsking = step.heldToMs === 0 && state.act.kind === 'reclaiming';
  return isAsking ? { ...step, state: { ...state, act: { ...state.act, deadlineMs: atMs } } } : step;
}

/** kubelet-eviction.md 4.10 to 4.12: rank, choose, decide. */
function evictFor(state: State, look: Look, threshold: MetThreshold): Step {
  const { observation, config, layout } = look;
  const { atMs, pods } = observation;
  const asked = { ...waiting(state, NOBODY_PACE_MS), pods: threshold.signal };
  if (pods.known && pods.value.some((pod) => isUnmeasured(pod, threshold.signal))) return { ...asked, heldToMs: 0 };
  if (!pods.known) {
    if (pods.why === 'not-asked') return { ...asked, heldToMs: 0 };
    return withReason({ ...asked, heldToMs: TIMER_PACE_MS }, { code: 'pods-unknown', unknown: pods });
  }
  const ranking = rank(threshold.signal, pods.value, layout);
  const underWay = evictionsOf(state).map(({ victim }) => victim.uid);
  const { victim, passedOver, differences } = firstCandidate(threshold.signal, ranking, underWay, (pod) =>
    isGuarded(pod, state.ownerKills, config.guard, atMs),
  );
  if (victim === null) {
    const nobody: Reason = {
      code: 'no-candidate',
      signal: threshold.signal,
      threshold,
      ...growthOf(observation, threshold),
    };
    return { ...asked, reasons: [...passedOver, nobody] };
  }
  const graceSeconds = graceOf(threshold, victim, config);
  const eviction = newEviction(state, observation, victim, effectiveGraceMs(threshold, graceSeconds), {
    kind: 'threshold',
    threshold,
  });
  const ownerKills = guardAfter(state.ownerKills, victim, config.guard, atMs);
  const step = withEviction(waiting({ ...state, ownerKills }, VICTIM_PACE_MS), eviction);
  return withDecision({ ...step, reasons: passedOver }, atMs, {
    kind: 'evict',
    threshold,
    victim: victimOf(victim),
    ranking: ranking.map(({ row }) => row),
    graceSeconds,
    ...evictionMessage(threshold, victim),
    differences: firstSignal(threshold) === 'sigkill' ? [...differences, 'D12' satisfies Difference] : differences,
    ...growthOf(observation, threshold),
    ...tiesOf(victim),
  });
}

/** product.md section 8; for the memory of the node alone. */
function growthOf({ memoryGrowth }: Observation, { signal }: MetThreshold): Pick<EvictDecision, 'growth'> {
  return signal === 'memory.available' && memoryGrowth !== undefined ? { growth: attribute(memoryGrowth) } : {};
}

/** Pods that came for another reason than this ranking (a limit, a reader): nobody measured what it compares. */
function isUnmeasured({ usage }: PodView, signal: Signal): boolean {
  const compared = isDisk(signal) ? usage.disk : signal === 'pid.available' ? usage.processes : usage.workingSetBytes;
  return !compared.known && compared.why === 'not-asked';
}

/** D4: a hard threshold cuts the grace of the soft eviction that is under way. */
function waitOrHasten(state: State, observation: Observation, eviction: Eviction, ripe: readonly MetThreshold[]): Step {
  const hard = ripe.find(({ isHard }) => isHard);
  const isSoft = eviction.cause.kind === 'threshold' && !eviction.cause.threshold.isHard;
  if (hard === undefined || !isSoft) return waitFor(state, observation, eviction);
  const graceEndsMs = Math.min(eviction.graceEndsMs, observation.atMs + effectiveGraceMs(hard, HARD_GRACE_SECONDS));
  const hastened: Eviction = {
    ...eviction,
    graceEndsMs,
    deadlineMs: graceEndsMs + PROOF_MS,
    cause: { kind: 'threshold', threshold: hard },
  };
  const evictions = evictionsOf(state).map((other) => (other === eviction ? hastened : other));
  return withDecision(waitFor({ ...state, act: actOf(evictions) }, observation, hastened), observation.atMs, {
    kind: 'hasten',
    eviction: eviction.decision,
    threshold: hard,
    graceSeconds: HARD_GRACE_SECONDS,
  });
}

function waitFor(state: State, observation: Observation, eviction: Eviction): Step {
  const remainingMs = Math.max(0, eviction.deadlineMs - observation.atMs);
  const reason: Reason = { code: 'waiting-for-victim', eviction: eviction.decision, remainingMs };
  return withReason(waiting(state, VICTIM_PACE_MS), reason);
}

/** Hard: 1 s. Soft: the smaller of the maximum and the pod's own (kubelet-eviction.md 4.12). */
function graceOf(threshold: MetThreshold, pod: PodView, config: CoreConfig): number {
  return threshold.isHard ? HARD_GRACE_SECONDS : Math.min(config.maxPodGraceSeconds, pod.terminationGraceSeconds);
}

/** What the processes really get: nothing when it burns (D12), at least 2 s under a soft threshold. */
function effectiveGraceMs(threshold: MetThreshold, graceSeconds: number): number {
  if (firstSignal(threshold) === 'sigkill') return 0;
  return graceSeconds > 0 ? graceSeconds * 1_000 : LEAST_SOFT_GRACE_MS;
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
  const graceEndsMs = observation.atMs + graceMs;
  const deadlineMs = graceEndsMs + PROOF_MS;
  return {
    decision: nextId(state),
    decidedMs: observation.atMs,
    victim: victimOf(pod),
    graceEndsMs,
    deadlineMs,
    settledMs: null,
    cause,
  };
}

export function evictionsOf(state: State): readonly Eviction[] {
  return state.act.kind === 'evicting' ? state.act.evictions : [];
}

function withEviction(step: Step, eviction: Eviction): Step {
  return { ...step, state: { ...step.state, act: actOf([...evictionsOf(step.state), eviction]) } };
}
