import type { Emptying, Observation } from '../observation.ts';
import { type Heard, isEnd, type Outcome } from '../outcome.ts';
import type { PodUid } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';
import { type FsLayout, isDisk, SIGNAL_FACTS } from '../signal.ts';
import type { Eviction, Proof, State } from '../state/state.ts';
import { escapedAfter } from './escaped.ts';
import { withoutSpared } from './loop-guard.ts';
import { SHORTAGES, type Shortage, shortageOf } from './shortage.ts';
import type { MetThreshold, ThresholdId } from './threshold.ts';
import { proofOf, withRisen } from './usage-trend.ts';

/** D3: how long a victim has after its grace period to free its memory. */
export const PROOF_MS = 10_000;
/** D3, beside-a-kubelet.md B12: how long the kubelet has to unmount the memory volumes of a dead pod. */
export const UNMOUNT_MS = 30_000;
/**
 * A grace period begins with the first signal. If that could not be sent for this long, nothing waits for the victim any
 * more, and a reason says so.
 */
export const UNSENT_MS = 10_000;
/** How long the evidence for a soft eviction may take before that: at most 5 s for the command, and the rest to start it. */
export const EVIDENCE_MS = 6_000;
/** D15, kubelet-eviction.md 4.13. */
export const CLEAN_UP_MS = 30_000;

type Settled = Pick<State, 'act' | 'proofs' | 'dryDropped' | 'dryOverLimit' | 'escaped' | 'ownerKills'>;

/**
 * D3: updates the evictions in progress. One with an outcome is over. One no longer holds back the next if its deadline has
 * passed, or if after its grace period no threshold of its shortage is met: as long as a soft threshold above the hard one
 * that chose it is still met, its memory counts as about to be freed. On a live node, it holds back again if a threshold is
 * met again. For process IDs, it is over once it is dead.
 */
export function settleEvictions(
  state: State,
  observation: Observation,
  met: readonly MetThreshold[],
  layout: FsLayout,
  isLive?: true,
): Settled {
  const { atMs, signals } = observation;
  const isShort = (threshold: MetThreshold): boolean =>
    met.some(({ signal }) => shortageOf(signal, layout) === shortageOf(threshold.signal, layout)) ||
    !signals[threshold.signal].known;
  const proofs = new Map<Shortage, Proof>();
  const nowOf = (shortage: Shortage) => proofOf(observation, (signal) => shortageOf(signal, layout) === shortage);
  for (const shortage of SHORTAGES) {
    const proof = state.proofs[shortage];
    if (proof === undefined) continue;
    if (cleanUpLeftMs(proof, atMs) <= 0 && emptyingFor(observation, shortage, layout) === undefined) continue;
    proofs.set(shortage, { ...proof, available: { ...nowOf(shortage).available, ...proof.available } });
  }
  const prove = (eviction: Eviction, outcome?: Outcome): void => {
    const gaveBack =
      outcome?.kind === 'ended' && outcome.releasedBytes.known ? { releasedBytes: outcome.releasedBytes.value } : {};
    for (const shortage of shortagesOf(eviction, layout))
      if (!isOverFor(eviction, shortage))
        proofs.set(shortage, { decision: eviction.decision, ...nowOf(shortage), ...gaveBack });
  };
  const takeBack = (eviction: Eviction): void => {
    for (const [shortage, proof] of proofs)
      if (proof.decision === eviction.decision && !isOverFor(eviction, shortage)) proofs.delete(shortage);
  };
  let dryDropped = state.dryDropped.filter((id) => met.some((threshold) => threshold.id === id));
  let dryOverLimit: readonly PodUid[] = state.dryOverLimit;
  const left: Eviction[] = [];
  let ownerKills = state.ownerKills;
  for (const eviction of state.act.kind === 'evicting' ? state.act.evictions : []) {
    const heard = observation.outcomes.filter(({ of }) => of === eviction.decision);
    const outcome = heard.find(isEnd);
    if (outcome?.kind === 'dropped' && wasSpared(eviction, heard, outcome))
      ownerKills = withoutSpared(ownerKills, eviction, outcome.because);
    if (outcome?.kind === 'ended' || outcome?.kind === 'unknown' || isLetGo(eviction, outcome))
      prove(eviction, outcome);
    else if (outcome !== undefined && isDryDrop(outcome)) {
      if (eviction.cause.kind === 'threshold') dryDropped = [...dryDropped, eviction.cause.threshold.id];
      else dryOverLimit = [...dryOverLimit, eviction.victim.uid];
    } else if (outcome === undefined) {
      const signalled = withSignals(eviction, heard);
      for (const shortage of shortagesOf(signalled, layout))
        if (isOverFor(signalled, shortage) && !isOverFor(eviction, shortage))
          proofs.set(shortage, { decision: eviction.decision, ...nowOf(shortage) });
      const settled = settle(signalled, atMs, isShort);
      if (settled === 'given-back') prove(signalled);
      if (settled === 'short-again' && isLive) {
        takeBack(signalled);
        left.push({ ...signalled, settledMs: null });
      } else left.push(isSettling(settled) ? { ...signalled, settledMs: atMs } : signalled);
    }
  }
  // However late it ended. The proof is kept even when it no longer holds anybody back, so that it begins only once.
  for (const shortage of SHORTAGES) {
    const emptying = emptyingFor(observation, shortage, layout);
    if (emptying === undefined) continue;
    const proof = proofs.get(shortage);
    const now = nowOf(shortage);
    proofs.set(shortage, proof === undefined ? { decision: emptying.of, ...now } : withRisen(proof, now));
  }
  const escaped = escapedAfter(state, observation);
  return {
    act: actOf(left),
    proofs: Object.fromEntries(proofs),
    dryDropped: withOtherNames(dryDropped, met, layout),
    dryOverLimit,
    escaped,
    ownerKills,
  };
}

/** D15: how long the shortage still waits for what the victims give back; 0 or less: no longer. */
export function cleanUpLeftMs({ atMs, risen }: Proof, nowMs: MonoMs): number {
  return CLEAN_UP_MS - (nowMs - Math.max(atMs, risen?.atMs ?? atMs));
}

/** What is being emptied and may relieve the shortage; undefined: nothing is. */
export function emptyingFor(
  { emptying = [] }: Pick<Observation, 'emptying'>,
  shortage: Shortage,
  layout: FsLayout,
): Emptying | undefined {
  return emptying.find(({ signal }) => shortageOf(signal, layout) === shortage);
}

export function evictionsOf({ act }: Pick<State, 'act'>): readonly Eviction[] {
  return act.kind === 'evicting' ? act.evictions : [];
}

/** Those in progress at a look: an outcome that arrived with it ends one. `state`: before it. */
export function underWay(look: {
  readonly state: Pick<State, 'act'>;
  readonly observation: Pick<Observation, 'outcomes'>;
}): readonly Eviction[] {
  const ends = look.observation.outcomes.filter(isEnd);
  return evictionsOf(look.state).filter(({ decision }) => ends.every(({ of }) => of !== decision));
}

export function actOf(evictions: readonly Eviction[]): State['act'] {
  return evictions.length === 0 ? { kind: 'idle' } : { kind: 'evicting', evictions };
}

const evidenceMsOf = ({ cause }: Pick<Eviction, 'cause'>): number =>
  cause.kind === 'threshold' && !cause.threshold.isHard ? EVIDENCE_MS : 0;

/** The deadline for the first signal of an eviction that begins at `atMs`. */
export const sentByMs = (eviction: Pick<Eviction, 'cause'>, atMs: MonoMs): MonoMs =>
  atMs + UNSENT_MS + evidenceMsOf(eviction);

/** A dead victim has given back all its process IDs before its memory volumes are unmounted: nothing waits for that. */
export const isOverFor = ({ deadMs }: Eviction, shortage: Shortage): boolean =>
  shortage === 'pids' && deadMs !== undefined;

/** The thresholds that wait for it; none if it was evicted only for a local storage limit. */
export function thresholdsOf({ cause, alsoFor = [] }: Eviction): readonly MetThreshold[] {
  return cause.kind === 'threshold' ? [cause.threshold, ...alsoFor] : alsoFor;
}

function shortagesOf(eviction: Eviction, layout: FsLayout): ReadonlySet<Shortage> {
  return new Set(thresholdsOf(eviction).map(({ signal }) => shortageOf(signal, layout)));
}

/**
 * The grace period and the time for the proof count from its first signal. If a later run of the agent hears of that late,
 * they count from then on. SIGKILL is given time to work, too.
 */
function withSignals(eviction: Eviction, heard: readonly Heard[]): Eviction {
  let now = eviction;
  for (const signal of heard) {
    if (signal.kind !== 'signalled') continue;
    const { atMs } = signal;
    // It may have ended unasked.
    if (now.signalledMs === undefined && signal.with !== 'unmount') {
      const graceEndsMs = atMs + Math.max(0, now.graceEndsMs - now.decidedMs);
      const deadlineMs = Math.max(now.deadlineMs - evidenceMsOf(now), graceEndsMs + PROOF_MS);
      now = { ...now, signalledMs: atMs, graceEndsMs, deadlineMs };
    }
    if (signal.with === 'sigkill' && now.killedMs === undefined) {
      now = { ...now, killedMs: atMs, deadlineMs: Math.max(now.deadlineMs, atMs + PROOF_MS) };
    }
    if (signal.with === 'unmount') {
      now = { ...now, deadMs: now.deadMs ?? atMs, deadlineMs: Math.max(now.deadlineMs, atMs + UNMOUNT_MS) };
    }
  }
  return now;
}

/** What is left at `atMs` of its grace period. `begunMs`: when its first signal was sent; null: the grace period has not begun. */
export function graceLeftMs(eviction: Eviction, begunMs: MonoMs | null, atMs: MonoMs): number {
  const { decidedMs, graceEndsMs, signalledMs } = eviction;
  const wholeMs = Math.max(0, graceEndsMs - decidedMs);
  if (begunMs === null) return wholeMs;
  return Math.max(0, (signalledMs === undefined ? begunMs + wholeMs : graceEndsMs) - atMs);
}

/** `short-again`: its thresholds recovered briefly, but it still holds memory that is about to be freed. */
type Settling = 'as-before' | 'given-back' | 'out-of-time' | 'short-again';
const isSettling = (how: Settling): boolean => how === 'given-back' || how === 'out-of-time';
function settle(eviction: Eviction, atMs: number, isShort: (threshold: MetThreshold) => boolean): Settling {
  const thresholds = thresholdsOf(eviction);
  if (thresholds.length === 0) return 'as-before';
  if (eviction.settledMs !== null)
    return atMs < eviction.deadlineMs && thresholds.some(isShort) ? 'short-again' : 'as-before';
  const isOverGrace = eviction.signalledMs !== undefined && atMs >= eviction.graceEndsMs;
  if (isOverGrace && !thresholds.some(isShort)) return 'given-back';
  return atMs >= eviction.deadlineMs ? 'out-of-time' : 'as-before';
}

/**
 * It was asked to end and is no longer watched, or holds memory although no process is left in its cgroup: that may be about
 * to be freed, as after a proven end (D15).
 */
function isLetGo({ signalledMs }: Eviction, outcome: Outcome | undefined): boolean {
  if (outcome?.kind === 'survived') return outcome.escaped !== undefined;
  return outcome?.kind === 'dropped' && outcome.because === 'rebound' && signalledMs !== undefined;
}

/** It was not asked to stop. A dry run counts what an armed agent would have killed. */
function wasSpared(
  eviction: Eviction,
  heard: readonly Heard[],
  outcome: Extract<Outcome, { kind: 'dropped' }>,
): boolean {
  // The run that resumed it has reported a first signal in any case.
  if (outcome.because === 'stale') return true;
  return !isDryDrop(outcome) && withSignals(eviction, heard).signalledMs === undefined;
}

/** A file system has several names, and live, one eviction serves all of them. */
function withOtherNames(
  dropped: readonly ThresholdId[],
  met: readonly MetThreshold[],
  layout: FsLayout,
): readonly ThresholdId[] {
  const isSame = (a: MetThreshold, b: MetThreshold): boolean =>
    isDisk(a.signal) &&
    SIGNAL_FACTS[a.signal].unit === SIGNAL_FACTS[b.signal].unit &&
    shortageOf(a.signal, layout) === shortageOf(b.signal, layout) &&
    a.isHard === b.isHard;
  const first = met.filter(({ id }) => dropped.includes(id));
  const others = met.filter((one) => !dropped.includes(one.id) && first.some((other) => isSame(other, one)));
  return [...dropped, ...others.map(({ id }) => id)];
}

function isDryDrop(outcome: Outcome): boolean {
  return outcome.kind === 'dropped' && outcome.because === 'dry-run';
}

/**
 * Called when the next run of the agent resumes them. Until then, nobody was ending the victims: their time counts from now
 * on, because otherwise another pod would die for the gap (D3).
 */
export function resumeEvictions(state: State, atMs: MonoMs): State {
  const { act } = state;
  if (act.kind !== 'evicting') return state;
  return { ...state, act: { ...act, evictions: act.evictions.map((eviction) => resumed(eviction, atMs)) } };
}

function resumed(eviction: Eviction, atMs: MonoMs): Eviction {
  if (eviction.settledMs !== null) return eviction;
  const deadlineMs =
    eviction.signalledMs === undefined ? sentByMs(eviction, atMs) : Math.max(eviction.graceEndsMs, atMs) + PROOF_MS;
  return { ...eviction, deadlineMs: Math.max(eviction.deadlineMs, deadlineMs) };
}
