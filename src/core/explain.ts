import type { CoreConfig } from './core-config.ts';
import type { Decision, RankRow } from './decision.ts';
import { COMPARATORS, type Comparator, measuredUsage, TIES, usageFor } from './eviction/comparator.ts';
import { podsFor, type Question, questionOf, stateAt } from './eviction/question.ts';
import type { Ranked } from './eviction/rank.ts';
import { type Shortfall, shortfallOf } from './eviction/shortage.ts';
import { compareRipe, type MetThreshold, type Threshold, withContainerfs } from './eviction/threshold.ts';
import { timersNow } from './eviction/thresholds-met.ts';
import { underWay } from './eviction/under-way.ts';
import type { Observation } from './observation.ts';
import { evictResourceOf, mayGoFor } from './pod/evict-for.ts';
import type { PodUid, PodView } from './pod/pod.ts';
import { known, type Reading } from './reading.ts';
import type { Reason } from './reason.ts';
import { type FsLayout, hasRequest, SIGNAL_FACTS, type Signal, type SignalFacts } from './signal.ts';
import type { State } from './state/state.ts';

/** One decided look: what was observed, the state before it, and the verdict. */
export type ExplainedLook = {
  /** Pods whose stop by a shutdown is in progress are terminating. */
  readonly observation: Observation;
  readonly config: CoreConfig;
  /** Before the look. */
  readonly state: State;
  readonly decisions: readonly Decision[];
  readonly reasons: readonly Reason[];
};
type PassedOver = Extract<Reason, { code: 'passed-over' }>['because'];
export type Candidate =
  | { readonly kind: 'victim' }
  /** It is next once those before it are gone. */
  | { readonly kind: 'candidate' }
  | { readonly kind: 'passed-over'; readonly because: PassedOver };
type ExplainedPod = {
  readonly pod: PodView;
  readonly row: RankRow;
  /** As measured; a number that is unknown here counts as 0 in the ranking (kubelet-eviction.md 5.5). */
  readonly usage: Reading<number>;
  readonly candidate: Candidate;
};
export type Explanation = {
  readonly signal: Signal;
  readonly comparators: readonly { readonly by: Comparator; readonly first: 'true' | 'lowest' | 'highest' }[];
  /** In eviction order. */
  readonly pods: readonly ExplainedPod[];
  /** The pod that is or would be evicted for the signal; null = none may be. */
  readonly victim: PodView | null;
  /** D13: the pod that would be evicted, if `against` were known not to come before it; null: that is not why there is no victim. */
  readonly unproven: { readonly first: PodView; readonly against: PodView } | null;
};

/** The thresholds that apply at this look: the first look does not yet see appended copies (kubelet-eviction.md 3.4). */
export function thresholdsOf({ observation, config, state }: ExplainedLook): readonly Threshold[] {
  const { all, atOnce } = withContainerfs(config.thresholds, layoutOf(observation));
  return state.lastLookMs === null ? atOnce : all;
}

/** Thresholds met at this look, in the order in which they would be acted on: first those whose grace is over. */
function metAt(look: ExplainedLook): readonly MetThreshold[] {
  const { met, ripe } = timersNow(look.state, look.observation, thresholdsOf(look));
  const waiting = met.filter((threshold) => !ripe.includes(threshold));
  return [...ripe.toSorted(compareRipe), ...waiting.toSorted(compareRipe)];
}

/** The signal that this look acted on or waits for, else the first whose threshold is met; null = none. */
export function signalOf(look: ExplainedLook): Signal | null {
  for (const decision of look.decisions) {
    if (decision.kind === 'evict' || decision.kind === 'reclaim' || decision.kind === 'hasten') {
      return decision.threshold.signal;
    }
  }
  for (const reason of look.reasons) {
    if (reason.code === 'no-candidate' || reason.code === 'reclaim-sufficed') return reason.signal;
  }
  const reclaim = look.state.reclaims[0];
  if (reclaim !== undefined) return reclaim.threshold.signal;
  for (const { cause } of underWay(look)) if (cause.kind === 'threshold') return cause.threshold.signal;
  return metAt(look)[0]?.signal ?? null;
}

/**
 * The ranking for the signal, whether or not it has to act, and which pods may be chosen. null: the pods are not known.
 */
export function explain(look: ExplainedLook, signal: Signal): Explanation | null {
  const question = askedOf(look, signal);
  if (question === null) return null;
  const ranking = question.ranked(question.pods);
  const { victim, unproven, passedOver } = question.choose(ranking);
  const isNobody = victim === null && unproven === null;
  const first = ranking.find(({ pod }) => pod.uid === (victim ?? unproven?.first)?.uid);
  const candidate = (entry: Ranked): Candidate => {
    if (isNobody) return passedOverIn(passedOver, entry);
    return entry.pod.uid === victim?.uid ? { kind: 'victim' } : candidateOf(question, entry, first);
  };
  return {
    signal,
    comparators: [...SIGNAL_FACTS[signal].rankedBy, ...TIES].map((by) => ({ by, first: COMPARATORS[by].first })),
    pods: ranking.map((entry) => ({
      ...entry,
      usage: measuredUsage(signal, entry.pod, question.layout),
      candidate: candidate(entry),
    })),
    victim,
    unproven,
  };
}

/** Everything that a choice depends on. */
type Asked = Question & {
  readonly signal: Signal;
  readonly layout: FsLayout;
  readonly pods: readonly PodView[];
  /** No pod can use more than this. */
  readonly capacity: number;
};

function askedOf(look: ExplainedLook, signal: Signal): Asked | null {
  const { observation, config, state } = look;
  const pods = podsFor(observation, signal);
  if (!pods.known) return null;
  const layout = layoutOf(observation);
  const of = { observation, config, layout };
  const now = stateAt(state, of, timersNow(state, observation, thresholdsOf(look)));
  const question = questionOf(now, of, shortfallFor(look, signal));
  return { ...question, signal, layout, pods: pods.value, capacity: mostUsage(observation, signal) };
}

/** As this look chose for it, else as it would choose first. */
function shortfallFor(look: ExplainedLook, signal: Signal): Shortfall {
  for (const decision of look.decisions)
    if (decision.kind === 'evict' && decision.threshold.signal === signal) return shortfallOf(decision.threshold);
  const met = metAt(look).find((threshold) => threshold.signal === signal);
  if (met !== undefined) return shortfallOf(met);
  const isHard = thresholdsOf(look).every((threshold) => threshold.signal !== signal || threshold.graceMs === 0);
  return { signal, isHard, lacking: 0, isAhead: true };
}

function mostUsage({ signals }: Observation, signal: Signal): number {
  const of = SIGNAL_FACTS[signal].counts === 'memoryAndSwapBytes' ? MEMORY_AND_SWAP : [signal];
  const capacities = of.map((each) => signals[each]).filter((sample) => sample.known);
  if (capacities.length === 0) return Number.MAX_SAFE_INTEGER;
  return capacities.reduce((sum, { value }) => sum + value.capacity, 0);
}
const MEMORY_AND_SWAP = ['memory.available', 'swap.available'] as const;

/** Whether this pod would be passed over if it ranked right before the first one that may be chosen. */
function candidateOf(question: Asked, entry: Ranked, first: Ranked | undefined): Candidate {
  const before = first === undefined || entry === first ? [entry] : [entry, first];
  return passedOverIn(question.choose(before).passedOver, entry);
}

function passedOverIn(reasons: readonly Reason[], { pod }: Ranked): Candidate {
  const reason = reasons.find((passed) => passed.code === 'passed-over' && passed.uid === pod.uid);
  return reason?.code === 'passed-over' ? { kind: 'passed-over', because: reason.because } : { kind: 'candidate' };
}

function layoutOf({ fsLayout }: Observation): FsLayout {
  return fsLayout.known ? fsLayout.value : 'nodefs-only';
}

/** One fact about a pod that alone would change whether it is chosen first. */
export type Change =
  | {
      readonly what: 'usage' | 'priority' | 'request';
      /** The present value; null = unknown. */
      readonly now: number | null;
      readonly bound: 'at-most' | 'at-least';
      /** The value nearest to the present one at which the outcome differs. */
      readonly value: number;
    }
  /** `now`: it is protected (D7), or may be evicted for the signal's resource. */
  | { readonly what: 'protection' | 'evict-for'; readonly now: boolean };
/** Why no usage at all would change the outcome. */
export type Obstacle =
  | { readonly kind: 'only-candidate' }
  /** The layout's ranking for this signal counts no usage. */
  | { readonly kind: 'not-counted' }
  | { readonly kind: 'passed-over'; readonly because: PassedOver }
  /** The only other pod that could be chosen is not chosen while this one is left. */
  | { readonly kind: 'other-passed-over'; readonly because: PassedOver; readonly against: PodUid }
  /** Even then this comparator decides against it; `against`: the pod that is chosen, or would be in its place. */
  | { readonly kind: 'decided'; readonly by: Comparator; readonly against: PodUid };
export type WhatIf = {
  readonly uid: PodUid;
  readonly isVictim: boolean;
  /** For a victim, the pod that would be chosen in its place; for another pod, the one chosen before it; null = none. */
  readonly other: PodUid | null;
  /** Each change alone makes the victim safe, or a safe pod the victim. */
  readonly changes: readonly Change[];
  /** null if some usage would change the outcome. */
  readonly usageObstacle: Obstacle | null;
};

/** The API server accepts no higher priority from users; pods above it are critical and never evicted. */
const LEAST_PRIORITY = -(2 ** 31);
const MOST_PRIORITY = 1_000_000_000;

/**
 * What would have to change about a pod of the explanation, found by ranking and choosing again with nothing else
 * changed. null: no such pod, or the pods are unknown.
 */
export function counterfactuals(look: ExplainedLook, signal: Signal, uid: PodUid): WhatIf | null {
  const question = askedOf(look, signal);
  const pod = question?.pods.find((candidate) => candidate.uid === uid);
  if (question === null || pod === undefined) return null;
  const rest = question.pods.filter((candidate) => candidate !== pod);
  const chosen = victimAmong(question, question.pods);
  const isVictim = chosen === uid;
  const other = isVictim ? victimAmong(question, rest) : chosen;
  const isOtherAmong = (others: readonly PodView[]) => (changed: PodView | null) =>
    changed !== null && (victimAmong(question, [...others, changed]) === uid) !== isVictim;
  const trial: Trial = {
    question,
    pod,
    isVictim,
    isOther: isOtherAmong(rest),
    isOtherAgainstOne: isOtherAmong(rest.filter((candidate) => candidate.uid === other)),
  };
  const usage = usageChange(trial);
  const protection: Change = { what: 'protection', now: pod.isProtected };
  const mayGo = mayGoFor(pod, signal);
  const evictFor: Change = { what: 'evict-for', now: mayGo };
  const changes = [
    usage,
    priorityChange(trial),
    requestChange(trial),
    trial.isOther({ ...pod, isProtected: !pod.isProtected }) ? protection : null,
    trial.isOther({ ...pod, evictFor: mayGo ? [] : [evictResourceOf(signal)] }) ? evictFor : null,
  ].filter((change) => change !== null);
  return { uid, isVictim, other, changes, usageObstacle: usage === null ? obstacleOf(trial, other) : null };
}

type Trial = {
  readonly question: Asked;
  readonly pod: PodView;
  readonly isVictim: boolean;
  /** Whether this version of the pod is chosen when the present one is not, or the reverse. null, no such version: false. */
  readonly isOther: (changed: PodView | null) => boolean;
  /** The same against the one other pod that nearly always matters: fast, but only a guess. */
  readonly isOtherAgainstOne: (changed: PodView | null) => boolean;
};

function victimAmong(question: Asked, pods: readonly PodView[]): PodUid | null {
  return question.choose(question.ranked(pods)).victim?.uid ?? null;
}

function usageChange(trial: Trial): Change | null {
  const { question, pod, isVictim } = trial;
  const counted = usageFor(question.signal, pod, question.layout);
  const range = { now: counted.known ? counted.value : null, least: 0, most: question.capacity };
  // With less a victim is safe; with more a safe pod becomes the victim.
  return numberChange(trial, 'usage', { ...range, isLess: isVictim }, (amount) => withUsage(question, pod, amount));
}

function priorityChange(trial: Trial): Change | null {
  const { pod, isVictim } = trial;
  const range = { now: pod.priority, least: LEAST_PRIORITY, most: MOST_PRIORITY, isLess: !isVictim };
  return numberChange(trial, 'priority', range, (priority) => ({ ...pod, priority }));
}

function requestChange(trial: Trial): Change | null {
  const { pod, isVictim, question } = trial;
  const { resource } = SIGNAL_FACTS[question.signal];
  if (resource === 'pids') return null;
  const field = resource === 'memory' ? 'memoryBytes' : 'ephemeralStorageBytes';
  // The ranking for inodes subtracts bytes (kubelet-eviction.md 5.4): the node's inodes are no bound for them.
  const most = hasRequest(question.signal) ? question.capacity : Number.MAX_SAFE_INTEGER;
  const range = { now: pod.requests[field], least: 0, most, isLess: !isVictim };
  return numberChange(trial, 'request', range, (bytes) => ({ ...pod, requests: { ...pod.requests, [field]: bytes } }));
}

/** `isLess`: searched from `now` down to `least`, else up to `most`. */
type Range = { readonly now: number | null; readonly least: number; readonly most: number; readonly isLess: boolean };

/**
 * The value nearest to the present one at which the outcome differs; null if it is the same at the end of the range. The
 * outcome changes at most once on the way, because every comparator and every rule of the choice is monotonic.
 */
function numberChange(
  { isOther, isOtherAgainstOne }: Trial,
  what: 'usage' | 'priority' | 'request',
  { now, least, most, isLess }: Range,
  changed: (value: number) => PodView | null,
): Change | null {
  const bound = isLess ? 'at-most' : 'at-least';
  const end = isLess ? least : most;
  // For an unknown number, the whole range is searched.
  const same = now ?? (isLess ? most : least);
  if ((isLess ? end > same : end < same) || !isOther(changed(end))) return null;
  if (now === null && isOther(changed(same))) return { what, now, bound, value: same };
  const guess = boundary(same, end, (value) => isOtherAgainstOne(changed(value)));
  const isRight = isOther(changed(guess)) && !isOther(changed(guess + (isLess ? 1 : -1)));
  return { what, now, bound, value: isRight ? guess : boundary(same, end, (value) => isOther(changed(value))) };
}

/** The last value on the way from `other`, where it holds, to `same`, where it does not, at which it still holds. */
function boundary(same: number, other: number, holds: (value: number) => boolean): number {
  let [failing, holding] = [same, other];
  while (Math.abs(failing - holding) > 1) {
    const middle = Math.floor(holding / 2 + failing / 2);
    if (holds(middle)) holding = middle;
    else failing = middle;
  }
  return holding;
}

const NO_DISK = { logsBytes: 0, rootfsBytes: 0, volumesBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
/** The usage fields to set so that the signal counts this much. For a disk, the layout counts one of two kinds. */
const USING: {
  readonly [C in SignalFacts['counts']]: (amount: number) => readonly Partial<PodView['usage']>[];
} = {
  workingSetBytes: (amount) => [{ workingSetBytes: known(amount) }],
  memoryAndSwapBytes: (amount) => [{ workingSetBytes: known(amount), swapBytes: known(0) }],
  processes: (amount) => [{ processes: known(amount) }],
  disk: (amount) => [
    { disk: known({ ...NO_DISK, rootfsBytes: amount, rootfsInodes: amount }) },
    { disk: known({ ...NO_DISK, volumesBytes: amount, volumesInodes: amount }) },
  ],
};

/** The pod as if it used this much of what the signal counts; null if the layout counts none. */
function withUsage({ signal, layout }: Asked, pod: PodView, amount: number): PodView | null {
  const containers = pod.usage.containers.known ? pod.usage.containers : known([]);
  for (const used of USING[SIGNAL_FACTS[signal].counts](amount)) {
    const changed = { ...pod, usage: { ...pod.usage, containers, ...used } };
    const counted = usageFor(signal, changed, layout);
    if (counted.known && counted.value === amount) return changed;
  }
  return null;
}

/** Why a usage at the end of the range changes nothing. */
function obstacleOf({ question, pod, isVictim }: Trial, other: PodUid | null): Obstacle {
  const against = question.pods.find(({ uid }) => uid === other);
  if (isVictim && against === undefined) return { kind: 'only-candidate' };
  const changed = withUsage(question, pod, isVictim ? 0 : question.capacity);
  const pair = against === undefined ? [changed ?? pod] : [changed ?? pod, against];
  const ranking = question.ranked(pair);
  const entry = ranking.find(({ pod: ranked }) => ranked.uid === pod.uid);
  const chosen = ranking.find(({ pod: ranked }) => ranked.uid === other);
  if (!isVictim && entry !== undefined) {
    const candidate = candidateOf(question, entry, chosen);
    if (candidate.kind === 'passed-over') return candidate;
  }
  if (isVictim && chosen !== undefined) {
    const candidate = candidateOf(question, chosen, entry);
    if (candidate.kind === 'passed-over')
      return { kind: 'other-passed-over', because: candidate.because, against: chosen.pod.uid };
  }
  const by = ranking[0]?.row.decidedBy ?? null;
  return changed === null || by === null || other === null
    ? { kind: 'not-counted' }
    : { kind: 'decided', by, against: other };
}
