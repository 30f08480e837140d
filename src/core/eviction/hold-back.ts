import type { Observation } from '../observation.ts';
import { effectiveGraceMs, HARD_GRACE_SECONDS } from '../pod/grace.ts';
import type { PodUid, PodView } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';
import type { Reason } from '../reason.ts';
import type { FsLayout, Signal } from '../signal.ts';
import type { Eviction, State } from '../state/state.ts';
import { type Step, waiting, withDecision, withReason } from '../step.ts';
import { firstCandidate } from './candidate.ts';
import { comesBackOf, givesBack } from './gives-back.ts';
import type { Ranked } from './rank.ts';
import { lackingOf, type Shortage, shortageOf } from './shortage.ts';
import { firstSignal, type MetThreshold } from './threshold.ts';
import {
  actOf,
  cleanUpLeftMs,
  emptyingFor,
  evictionsOf,
  isOverFor,
  PROOF_MS,
  thresholdsOf,
  UNSENT_MS,
} from './under-way.ts';
import { isSoonZero, isWorse } from './usage-trend.ts';

/** The pace of looks while waiting for a victim. */
export const VICTIM_PACE_MS = 20;

/** Looks are closer together than this while a pod is held back, and the pods have been read by then. */
const HELD_BACK_MS = 2_000;

type CleanUp = Extract<Reason, { code: 'clean-up-wait' }>;

/** D3: how long to wait for a victim after its SIGKILL, or its end without one, whatever the signal does meanwhile. */
const DYING_MS = 1_000;
/** How long its memory counts as about to be freed: a victim that is still alive then is not merely short of CPU. */
const COMING_MS = 3_000;

/** Since when all that could be done to end it is done; undefined: it is not. */
const doneMsOf = ({ killedMs, deadMs }: Eviction): MonoMs | undefined => killedMs ?? deadMs;

/** D3: the eviction that the shortage waits for; null: the next one may be chosen. */
export function holderOf(
  state: State,
  observation: Observation,
  layout: FsLayout,
  ripe: readonly MetThreshold[],
): Eviction | null {
  const under = comingOf(state, observation);
  const isOvertaken = (eviction: Eviction): boolean =>
    observation.atMs - (doneMsOf(eviction) ?? observation.atMs) >= DYING_MS &&
    ripe.some(({ signal }) => {
      const sample = observation.signals[signal];
      const coming = comingBack(under, observation, signal);
      const byOthers = takenByOthers(eviction, under, observation, signal);
      return sample.known && isSoonZero(state.trail[signal] ?? [], sample.value, { coming, byOthers });
    });
  const shortages = new Set(ripe.map(({ signal }) => shortageOf(signal, layout)));
  const isForThem = (eviction: Eviction): boolean =>
    [...shortages].some((shortage) => isFor(eviction, shortage, layout) && !isOverFor(eviction, shortage));
  return (
    evictionsOf(state).find(
      (eviction) => eviction.settledMs === null && isForThem(eviction) && !isOvertaken(eviction),
    ) ?? null
  );
}

/**
 * The victim in progress to wait for, if what such victims are about to free is enough for the threshold; else null. Never
 * for a file system: a pod's end does not free its files at once.
 */
export function enoughComing(state: State, observation: Observation, threshold: MetThreshold): Eviction | null {
  // What a soft eviction will free within its grace period comes too late under a hard threshold.
  const coming = comingOf(state, observation).filter(
    (eviction) => doneMsOf(eviction) !== undefined || !threshold.isHard,
  );
  if (comingBack(coming, observation, threshold.signal) < lackingOf(threshold)) return null;
  return coming.find((eviction) => comingBack([eviction], observation, threshold.signal) > 0) ?? null;
}

function comingBack(coming: readonly Eviction[], observation: Observation, signal: Signal): number {
  const { pods } = observation;
  if (!pods.known) return 0;
  const uids = new Set(coming.map(({ victim }) => victim.uid));
  const unmounting = comesBackOf(observation, signal, (uid) => uids.has(uid));
  return pods.value.reduce((sum, pod) => (uids.has(pod.uid) ? sum + givesBack(pod, signal) : sum), unmounting);
}

function comingOf(state: State, { atMs }: Observation): readonly Eviction[] {
  return evictionsOf(state).filter(
    (eviction) =>
      (eviction.signalledMs ?? eviction.deadMs) !== undefined &&
      atMs < eviction.deadlineMs &&
      atMs - (doneMsOf(eviction) ?? atMs) < COMING_MS,
  );
}

/** Nothing for a stall, because the pod's share of it is unknown. */
export function atChoiceOf({ signal, available }: MetThreshold, pod: PodView): Pick<Eviction, 'atChoice'> {
  const held = givesBack(pod, signal);
  return Number.isFinite(held) ? { atChoice: { signal, available, held } } : {};
}

/** The most that others have taken since it was chosen: what the victim itself takes until its end is freed with it. */
function takenByOthers(
  eviction: Eviction,
  under: readonly Eviction[],
  observation: Observation,
  signal: Signal,
): number {
  const { atChoice } = eviction;
  const sample = observation.signals[signal];
  if (atChoice?.signal !== signal || !sample.known || !under.includes(eviction)) return Number.POSITIVE_INFINITY;
  const now = sample.value.available + comingBack([eviction], observation, signal);
  return Math.max(0, atChoice.available + atChoice.held - now);
}

/** D15: how long the shortage still waits for the cleanup after the last kill; null: no longer. */
export function cleanUpOf(
  state: State,
  { observation, layout }: { readonly observation: Observation; readonly layout: FsLayout },
  shortage: Shortage,
  ripe: readonly MetThreshold[],
): CleanUp | null {
  const { atMs, signals } = observation;
  const proof = state.proofs[shortage];
  const first = ripe[0];
  if (proof === undefined || first === undefined) return null;
  const remainingMs = cleanUpLeftMs(proof, atMs);
  if (remainingMs <= 0) return null;
  const gotWorse = ripe.some(({ signal }) => {
    const sample = signals[signal];
    return sample.known && isWorse(signal, sample.value, proof, state.trail[signal] ?? []);
  });
  if (gotWorse) return null;
  const emptying = emptyingFor(observation, shortage, layout);
  const { decision } = proof;
  const whose = emptying === undefined ? { eviction: decision } : { eviction: emptying.of, isEmptying: true as const };
  return { code: 'clean-up-wait', signal: first.signal, remainingMs, ...whose };
}

/** Notes that D15 holds an eviction back at this look, so that the decision right after it names D15. */
export function withHeldBack(state: State, shortage: Shortage, { atMs }: Observation): State {
  return { ...state, heldBackMs: { ...state.heldBackMs, [shortage]: atMs } };
}

export function wasHeldBack({ heldBackMs }: State, shortage: Shortage, { atMs }: Observation): boolean {
  const lastMs = heldBackMs?.[shortage];
  return lastMs !== undefined && atMs - lastMs <= HELD_BACK_MS;
}

export const isFor = (eviction: Eviction, shortage: Shortage, layout: FsLayout): boolean =>
  thresholdsOf(eviction).some(({ signal }) => shortageOf(signal, layout) === shortage);

/** A pod is being stopped for it, or was stopped recently. */
export function isActedOn(
  { act, proofs }: Pick<State, 'act' | 'proofs'>,
  shortage: Shortage,
  layout: FsLayout,
): boolean {
  return proofs[shortage] !== undefined || evictionsOf({ act }).some((eviction) => isFor(eviction, shortage, layout));
}

/**
 * The eviction to wait for, if the pod that would be chosen is already being stopped for another shortage or its own limit:
 * no pod is evicted in its place. Null: it is not being stopped, or the wait was in vain.
 */
export function joinedOf(
  state: State,
  { observation, layout }: { readonly observation: Observation; readonly layout: FsLayout },
  threshold: MetThreshold,
  ranking: readonly Ranked[],
  guarded: (pod: PodView) => boolean,
): { readonly state: State; readonly eviction: Eviction } | null {
  const shortage = shortageOf(threshold.signal, layout);
  const isFree = ({ settledMs, deadlineMs }: Eviction): boolean => settledMs === null && observation.atMs < deadlineMs;
  const joinable = evictionsOf(state).filter((eviction) => isFree(eviction) && !isFor(eviction, shortage, layout));
  if (joinable.length === 0) return null;
  const others = evictionsOf(state).filter((eviction) => !joinable.includes(eviction));
  const isJoinable = (uid: PodUid): boolean => joinable.some(({ victim }) => victim.uid === uid);
  const asFree = ranking.map((entry) =>
    isJoinable(entry.pod.uid) ? { ...entry, pod: { ...entry.pod, isTerminating: false } } : entry,
  );
  const underWay = others.map(({ victim }) => victim.uid);
  const { victim } = firstCandidate(threshold.signal, asFree, underWay, guarded, lackingOf(threshold));
  const before = joinable.find((eviction) => eviction.victim.uid === victim?.uid);
  if (before === undefined) return null;
  // If a hard threshold cuts its grace period, treat it as soft.
  const isSooner = threshold.isHard && hardEndMs(observation, threshold) < before.graceEndsMs;
  const also = isSooner ? { ...threshold, isHard: false } : threshold;
  const eviction: Eviction = { ...before, alsoFor: [...(before.alsoFor ?? []), also] };
  return { state: { ...state, act: actOf(replaced(state, before, eviction)) }, eviction };
}

/** D4: a hard threshold cuts the grace period of a soft eviction in progress. `ripe`: thresholds of one shortage. */
export function waitOrHasten(
  state: State,
  observation: Observation,
  eviction: Eviction,
  ripe: readonly MetThreshold[],
): Step {
  const hard = ripe.find(({ isHard }) => isHard);
  const soft = thresholdsOf(eviction).find(
    ({ signal, isHard }) => !isHard && ripe.some((met) => met.signal === signal),
  );
  // Of one that has ended, nothing is left to cut.
  if (hard === undefined || soft === undefined || eviction.deadMs !== undefined)
    return waitFor(state, observation, eviction);
  const graceEndsMs = Math.min(eviction.graceEndsMs, hardEndMs(observation, hard));
  const { cause, alsoFor = [] } = eviction;
  const hastened: Eviction = {
    ...eviction,
    graceEndsMs,
    deadlineMs:
      eviction.signalledMs === undefined
        ? Math.min(eviction.deadlineMs, observation.atMs + UNSENT_MS)
        : graceEndsMs + PROOF_MS,
    ...(cause.kind === 'threshold' && cause.threshold === soft
      ? { cause: { kind: 'threshold', threshold: hard } }
      : { alsoFor: alsoFor.map((met) => (met === soft ? hard : met)) }),
  };
  const evictions = replaced(state, eviction, hastened);
  return withDecision(waitFor({ ...state, act: actOf(evictions) }, observation, hastened), observation.atMs, {
    kind: 'hasten',
    eviction: eviction.decision,
    threshold: hard,
    graceSeconds: HARD_GRACE_SECONDS,
    differences: ['D4', ...(firstSignal(hard) === 'sigkill' ? (['D12'] as const) : [])],
  });
}

const hardEndMs = ({ atMs }: Observation, hard: MetThreshold): MonoMs =>
  atMs + effectiveGraceMs(hard, HARD_GRACE_SECONDS);

const replaced = (state: State, before: Eviction, after: Eviction): readonly Eviction[] =>
  evictionsOf(state).map((eviction) => (eviction === before ? after : eviction));

export function waitFor(state: State, observation: Observation, eviction: Eviction): Step {
  const remainingMs = Math.max(0, eviction.deadlineMs - observation.atMs);
  const reason: Reason = { code: 'waiting-for-victim', eviction: eviction.decision, remainingMs };
  return withReason(waiting(state, VICTIM_PACE_MS), reason);
}
