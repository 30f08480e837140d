import type { CoreConfig } from '../core-config.ts';
import type { Observation } from '../observation.ts';
import { HARD_GRACE_SECONDS } from '../pod/grace.ts';
import { valueOrNull } from '../reading.ts';
import type { Reason } from '../reason.ts';
import { reclaimCalls } from '../reclaim/calls.ts';
import { isDisk, type Signal } from '../signal.ts';
import type { Eviction, LimitSpared, Reclaim, State } from '../state/state.ts';
import { least, nextId, type Step, victimOf, waiting, withDecision, withReason } from '../step.ts';
import { CONDITIONS } from './condition.ts';
import { type Acted, evictFor, NOBODY_PACE_MS, newEviction, withEviction } from './evict-for.ts';
import {
  cleanUpOf,
  holderOf,
  isActedOn,
  isFor,
  VICTIM_PACE_MS,
  waitFor,
  waitOrHasten,
  withHeldBack,
} from './hold-back.ts';
import { limitSparedOf, type OverLimit, overLimits } from './over-limit.ts';
import { type Look, stateAt } from './question.ts';
import { type Shortage, shortageOf } from './shortage.ts';
import { compareRipe, type MetThreshold, type Threshold } from './threshold.ts';
import { type Timers, timersLeft, timersNow } from './thresholds-met.ts';
import { evictionsOf, settleEvictions } from './under-way.ts';
import { isReclaimOver, isReclaimVain, isStillShort, withReclaimed } from './vain-reclaim.ts';

/** `ripe`: as for `ripeNow`. */
type Judged = {
  readonly timers: Timers;
  readonly ripe: readonly MetThreshold[];
  readonly all: readonly Threshold[];
};
type Thresholds = { readonly now: readonly Threshold[]; readonly all: readonly Threshold[] };

/** How long after the operator's own timeouts a wait ends if the outcome of the reclaim is lost. The runtime takes less. */
const RECLAIM_DEADLINE_MS = 600_000;
/** While a soft timer runs, looks are less than a second apart, so that one unmet look is not a recovery (D2). */
const TIMER_PACE_MS = 250;
const SAMPLE_PACE_MS = 100;

/** kubelet-eviction.md section 4, one pass, with the differences of product.md section 6. */
export function stepEviction(state: State, observation: Observation, config: CoreConfig, thresholds: Thresholds): Step {
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const look: Look = { observation, config, layout };
  const timers = timersNow(state, observation, thresholds.now);
  const isAnyOver = state.reclaims.some((reclaim) => isReclaimOver(reclaim, observation));
  const judged = isAnyOver
    ? judgeReclaims(timersLeft(state, timers, observation), look, {
        timers,
        ripe: ripeNow(state, look, timers).ripe,
        all: thresholds.all,
      })
    : null;
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
    reasons: [
      ...timers.reasons,
      ...looked.reasons,
      ...(judged?.reasons ?? []),
      ...(isOver ? [] : over.reasons),
      ...step.reasons,
    ],
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
  for (const { decision, victim, signalledMs, deadMs, settledMs } of evictionsOf(now)) {
    if ((signalledMs ?? deadMs) === undefined && settledMs !== null)
      step = withReason(step, { code: 'not-signalled', eviction: decision, uid: victim.uid });
  }
  for (const condition of CONDITIONS) {
    const lastMs = now.conditionLastMetMs[condition];
    const status = lastMs !== undefined;
    if (status !== (state.conditionLastMetMs[condition] !== undefined)) {
      step = withDecision(step, atMs, { kind: 'set-condition', condition, status });
    }
    const remainingMs = lastMs === undefined ? 0 : config.pressureTransitionMs - (atMs - lastMs);
    // None is left of one that is only kept because its signal cannot be read.
    if (lastMs !== atMs && remainingMs > 0) {
      step = withReason(step, { code: 'transition-period', condition, remainingMs });
      step = { ...step, heldToMs: least(step.heldToMs, remainingMs) };
    }
  }
  return step;
}

/** kubelet-eviction.md 4.6: every pod over a local storage limit, at once. */
function overLimitStep(state: State, { observation, config }: Look): Step {
  const { limitSpared: before = [], ...rest } = state;
  if (config.localStorageLimits !== 'enforce') return waiting(rest, null);
  if (!observation.pods.known) return withSpared(waiting(rest, null), before);
  const underWay = evictionsOf(state).map(({ victim }) => victim.uid);
  const all = overLimits(observation.pods.value, valueOrNull(observation.fsLayout)).filter(
    ({ pod }) => !underWay.includes(pod.uid),
  );
  const dryOverLimit = state.dryOverLimit.filter((uid) => all.some(({ pod }) => pod.uid === uid));
  let step = withSpared(waiting({ ...rest, dryOverLimit }, VICTIM_PACE_MS), limitSparedOf(all));
  const isFree = ({ pod, spares }: OverLimit): boolean => spares === undefined && !dryOverLimit.includes(pod.uid);
  for (const { pod, limit, message } of all.filter(isFree)) {
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
      ...(pod.takesAlong === undefined ? {} : { takesAlong: pod.takesAlong }),
    });
  }
  return step;
}

/** Named at each look, not only at those that read the pods. */
function withSpared(step: Step, spared: readonly LimitSpared[]): Step {
  if (spared.length === 0) return step;
  const reasons = spared.map((one): Reason => ({ code: 'limit-spared', ...one }));
  return { ...step, state: { ...step.state, limitSpared: spared }, reasons };
}

/** Those that this look acts on, in order; `stale` wait for a new sample. `lastSample`: of the look before. */
function ripeNow({ lastSample, dryDropped }: State, { observation }: Look, { ripe }: Timers) {
  const stale = ripe.filter(({ signal }) => !isNewSample(observation, signal, lastSample));
  const isDropped = ({ id }: MetThreshold): boolean => dryDropped.includes(id);
  return { stale, ripe: ripe.filter((met) => !stale.includes(met) && !isDropped(met)).toSorted(compareRipe) };
}

/** kubelet-eviction.md 4.7 to 4.12: which threshold to act on, and how. */
function pressureStep(state: State, look: Look, timers: Timers, lastSample: State['lastSample']): Acted {
  const { observation } = look;
  const { stale, ripe } = ripeNow({ ...state, lastSample }, look, timers);
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
    const leastMs = !isFirst ? VICTIM_PACE_MS : hadTurn(acted.state, look, group) ? TIMER_PACE_MS : 0;
    const heldToMs = next.isAsking ? Math.max(next.heldToMs ?? 0, leastMs) : next.heldToMs;
    acted = {
      state: next.state,
      decisions: next.decisions,
      reasons: reasonsOf(acted, next),
      pods: acted.isAsking ? acted.pods : (next.pods ?? acted.pods),
      heldToMs: least(acted.heldToMs, heldToMs),
      isAsking: acted.isAsking || next.isAsking,
    };
    if (next.decisions.length > 0) break;
  }
  return acted;
}

/** The pods were read for another shortage after this one had its turn: it would ask for them again without end. */
function hadTurn(state: State, { observation, layout }: Look, [first]: readonly MetThreshold[]): boolean {
  const { atMs, podsFor = null } = observation;
  if (first === undefined || podsFor === null || podsFor === 'all') return false;
  const shortage = shortageOf(first.signal, layout);
  if (shortageOf(podsFor, layout) === shortage) return false;
  return first.sinceMs < atMs && !isActedOn(state, shortage, layout);
}

/** A decision names those that it passed over, not those that were passed over for another threshold. */
function reasonsOf(before: Acted, { decisions, reasons }: Acted): readonly Reason[] {
  const isKept = ({ code }: Reason): boolean => decisions.length === 0 || code !== 'passed-over';
  return [...before.reasons.filter(isKept), ...reasons];
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
  const cleanUp = config.isLive ? cleanUpOf(state, look, shortage, ripe) : null;
  if (cleanUp !== null) {
    const pace = cleanUpPaceMs(shortage, cleanUp.remainingMs);
    return waits(withReason(waiting(withHeldBack(state, shortage, observation), pace), cleanUp));
  }
  const reclaim = reclaimFor(state, look, first);
  // Nothing was freed the last times: only if a pod would be evicted otherwise.
  const isVain = config.isLive && reclaim?.decisions.length === 1 && isReclaimVain(state, shortage, observation);
  return reclaim === null || isVain ? evictForAny(state, look, ripe) : waits(reclaim);
}

/**
 * `ripe`: thresholds of one shortage. The kubelet acts only on the first. The next one has its turn if nobody is evicted for
 * that one, except for memory and process IDs while pods are spared for what others hold: the kubelet would have evicted somebody.
 */
function evictForAny(state: State, look: Look, ripe: readonly MetThreshold[], before?: Acted): Acted {
  let acted = before ?? { ...waiting(state, null), isAsking: false };
  for (const threshold of ripe) {
    const evicted = evictFor(state, look, threshold, acted.nobodyBy);
    const reclaim = evicted.decisions.length > 0 ? reclaimFor(state, look, threshold) : null;
    const next: Acted = reclaim === null ? evicted : { ...reclaim, isAsking: false };
    acted = { ...next, reasons: reasonsOf(acted, next), heldToMs: least(acted.heldToMs, next.heldToMs) };
    if (next.nobodyBy === undefined) break;
  }
  return acted;
}

/** null: nothing is reclaimed for it. No decision: it waits for a pod that is being stopped. */
function reclaimFor(state: State, { observation, config, layout }: Look, threshold: MetThreshold): Step | null {
  const { signal } = threshold;
  const calls = config.hasRuntime && observation.fsLayout.known ? reclaimCalls(signal, layout) : [];
  if (calls.length === 0 && !config.reclaimSignals.includes(signal)) return null;
  const shortage = shortageOf(signal, layout);
  const underWay = evictionsOf(state).find((eviction) => isFor(eviction, shortage, layout) || isOverLimit(eviction));
  if (underWay !== undefined) return waitFor(state, observation, underWay);
  const mostMs = (config.reclaimMs?.[signal] ?? 0) + RECLAIM_DEADLINE_MS;
  const reclaim = { decision: nextId(state), threshold, deadlineMs: observation.atMs + mostMs };
  const reclaims = [...state.reclaims, reclaim];
  const step = { ...waiting({ ...state, reclaims }, TIMER_PACE_MS), pods: signal };
  return withDecision(step, observation.atMs, { kind: 'reclaim', threshold, ...(calls.length === 0 ? {} : { calls }) });
}

/** One reclaim that is over. D3: one that waits for what its disk needs to know of the pods keeps no other from it. */
function judgeReclaims(before: State, look: Look, thresholds: Judged): Acted {
  const { observation, config, layout } = look;
  // Each outcome arrives once: what this look does not judge, the next one must.
  const isOver = (reclaim: Reclaim): boolean => isReclaimOver(reclaim, observation);
  const reclaims = before.reclaims.map((reclaim) =>
    isOver(reclaim) ? { ...reclaim, deadlineMs: observation.atMs } : reclaim,
  );
  const state = {
    ...before,
    ...settleEvictions(before, observation, thresholds.timers.met, layout, config.isLive),
    reclaims,
  };
  const ofDisk = ({ threshold }: Reclaim): number => Number(isDisk(threshold.signal));
  const over = reclaims.filter(isOver).toSorted((one, other) => ofDisk(one) - ofDisk(other));
  const steps = over.map((judged) => judgeReclaim(state, judged, look, thresholds));
  return steps.find(({ isAsking }) => !isAsking) ?? steps[0] ?? { ...waiting(state, 0), isAsking: false };
}

/**
 * kubelet-eviction.md 6.3: judges the reading after a reclaim. It was enough only if no threshold of any signal is met with
 * its min reclaim, whatever its grace period. Timers do not change (6.4).
 */
function judgeReclaim(state: State, judged: Reclaim, look: Look, thresholds: Judged): Acted {
  const { observation, config, layout } = look;
  const { timers, ripe, all } = thresholds;
  const { signals } = observation;
  const [threshold, signal] = [judged.threshold, judged.threshold.signal];
  const shortage = shortageOf(signal, layout);
  const asked = config.isLive ? all.filter((other) => shortageOf(other.signal, layout) === shortage) : all;
  const reclaims = state.reclaims.filter((reclaim) => reclaim !== judged);
  const judgedState = withReclaimed({ ...state, reclaims }, shortage, judged, observation);
  const done = { ...waiting(judgedState, VICTIM_PACE_MS), isAsking: false };
  // D5: it may have freed enough.
  if (config.isLive && !signals[signal].known) return { ...done, reasons: timers.reasons };
  if (signals[signal].known && !isStillShort(observation, asked))
    return { ...done, reasons: [{ code: 'reclaim-sufficed', signal }] };
  const others = ripe.filter((met) => met.id !== threshold.id && shortageOf(met.signal, layout) === shortage);
  // The kubelet keeps the reading from before its reclaim. D15: what was short or had got worse as that began may be so no more.
  const now = config.isLive ? timers.met.find(({ id }) => id === threshold.id) : threshold;
  const short = now === undefined ? others : [now, ...others];
  const cleanUp = config.isLive ? cleanUpOf(judgedState, look, shortage, short) : null;
  if (cleanUp !== null) return { ...done, reasons: [cleanUp] };
  const first: Acted =
    now === undefined ? { ...done, reasons: timers.reasons, nobodyBy: [] } : evictFor(judgedState, look, now);
  const step = first.nobodyBy !== undefined ? evictForAny(judgedState, look, others, first) : first;
  // Without the pods, this judgement is repeated once they are there.
  return step.isAsking ? { ...step, state } : step;
}

/** kubelet-eviction.md 1.4.4. */
function isNewSample(observation: Observation, signal: Signal, lastSample: State['lastSample']): boolean {
  const sample = observation.signals[signal];
  const before = lastSample[signal];
  if (!sample.known) return false;
  if (before === undefined || sample.value.isUntimed || before.isUntimed) return true;
  return sample.value.sampledAtMs > before.sampledAtMs;
}

const isOverLimit = ({ cause }: Eviction): boolean => cause.kind === 'over-limit';

const cleanUpPaceMs = (shortage: Shortage, remainingMs: number): number =>
  Math.min(remainingMs, shortage === 'memory' || shortage === 'pids' ? VICTIM_PACE_MS : SAMPLE_PACE_MS);
