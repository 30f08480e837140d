import type { Observation } from '../observation.ts';
import type { MonoMs } from '../reading.ts';
import type { Reason } from '../reason.ts';
import { SIGNAL_FACTS, SIGNALS, type Signal, type SignalSample } from '../signal.ts';
import type { State } from '../state/state.ts';
import { addQuantity, isLess, type Quantity, quantityOfBytes } from '../units/quantity.ts';
import { raisedBy } from './margin.ts';
import {
  isSoft,
  type MetThreshold,
  signalOf,
  type Threshold,
  type ThresholdId,
  type ThresholdValue,
} from './threshold.ts';

/** D2: a soft threshold has recovered when it was unmet at every look for this long. */
const RECOVERED_AFTER_MS = 1_000;

/**
 * The amount a value stands for. A fraction is of the capacity, in the kubelet's arithmetic: float64 times float32,
 * truncated, binary whatever the signal (kubelet-eviction.md 2.3.2).
 */
export function resolve(value: ThresholdValue, capacity: number): Quantity {
  if (value.kind === 'raised') return raisedBy(resolve(value.of, capacity), value.margin, capacity);
  return value.kind === 'quantity' ? value.amount : quantityOfBytes(Math.trunc(capacity * value.fraction), 'binary');
}

/** Values that depend on a capacity become amounts as far as these samples have it. */
export function resolvedBy(
  thresholds: readonly Threshold[],
  { signals }: Pick<Observation, 'signals'>,
): readonly Threshold[] {
  return thresholds.map((threshold) => {
    const { signal, value } = threshold;
    const sample = signals[signal];
    if (value.kind !== 'raised' || !sample.known) return threshold;
    return { ...threshold, value: { kind: 'quantity', amount: resolve(value, sample.value.capacity) } };
  });
}

/** Threshold and threshold plus min reclaim, for one sample's capacity. */
export function limits(threshold: Threshold, sample: SignalSample): { limit: Quantity; target: Quantity } {
  const limit = resolve(threshold.value, sample.capacity);
  const target =
    threshold.minReclaim === null ? limit : addQuantity(limit, resolve(threshold.minReclaim, sample.capacity));
  return { limit, target };
}

/** Strictly below the threshold; equal is not met (kubelet-eviction.md 4.4). */
export function isMet(threshold: Threshold, sample: SignalSample): boolean {
  return isLess(sample.available, resolve(threshold.value, sample.capacity));
}

/** Below the threshold with its min reclaim added: what a node-level reclaim, a latch and the last look compare with. */
export function isMetWithMinReclaim(threshold: Threshold, sample: SignalSample): boolean {
  return isLess(sample.available, limits(threshold, sample).target);
}

/** The state of the thresholds after one look: kubelet-eviction.md 4.4 and 4.5, with D2 and D5. */
export type Timers = {
  /** Met, or held by min reclaim, regardless of the grace period. */
  readonly met: readonly MetThreshold[];
  /** Of these, those whose grace is over. */
  readonly ripe: readonly MetThreshold[];
  readonly kept: Pick<State, 'firstMetMs' | 'metValues' | 'unmetSinceMs' | 'unresolved' | 'failedLooks' | 'dryDropped'>;
  readonly reasons: readonly Reason[];
};

export function timersNow(given: State, observation: Observation, thresholds: readonly Threshold[]): Timers {
  const { atMs } = observation;
  const state = withoutOtherValues(given, thresholds);
  const firstMetMs: { [T in ThresholdId]?: MonoMs } = {};
  const unmetSinceMs: { [T in ThresholdId]?: MonoMs } = {};
  const met: MetThreshold[] = [];
  const ripe: MetThreshold[] = [];
  const unresolved: ThresholdId[] = [];
  const reasons: Reason[] = [];
  for (const threshold of thresholds) {
    const { id } = threshold;
    const isLatched = state.unresolved.includes(id);
    const before = state.firstMetMs[id];
    const now = metBy(threshold, observation, isLatched, before ?? atMs);
    if (now === 'unmet' && !isRecovering(state, threshold, atMs)) continue;
    if (now === 'not-applicable') continue;
    if (now === 'unmet' || now === 'unknown') {
      // Not yet recovered (D2) or not readable (D5): every timer stays. A soft grace period counts no unread time.
      const unreadMs = now === 'unknown' && isSoft(id) ? atMs - (state.lastLookMs ?? atMs) : 0;
      if (before !== undefined) firstMetMs[id] = before + unreadMs;
      const unmetSince = state.unmetSinceMs[id] ?? (now === 'unmet' ? atMs : undefined);
      if (unmetSince !== undefined) unmetSinceMs[id] = unmetSince;
      if (isLatched) unresolved.push(id);
      continue;
    }
    firstMetMs[id] = now.sinceMs;
    met.push(now);
    const remainingMs = threshold.graceMs - (atMs - now.sinceMs);
    if (remainingMs > 0) {
      reasons.push({ code: 'grace-running', threshold: id, remainingMs });
      continue;
    }
    ripe.push(now);
    unresolved.push(id);
    reasons.push(
      isLess(now.available, now.limit)
        ? { code: 'below-threshold', threshold: now }
        : { code: 'min-reclaim-pending', threshold: id, available: now.available, target: now.target },
    );
  }
  const failed = failedNow(state, observation);
  const metValues = Object.fromEntries(
    thresholds.flatMap(({ id, value }) => (firstMetMs[id] === undefined ? [] : [[id, sayValue(value)]])),
  );
  const { dryDropped } = state;
  return {
    met,
    ripe,
    kept: { firstMetMs, metValues, unmetSinceMs, unresolved, failedLooks: failed.failedLooks, dryDropped },
    reasons: [...failed.reasons, ...reasons],
  };
}

/** After a look that changes no timer: none counts the time in which its signal could not be read, nor any time twice. */
export function timersLeft(state: State, { kept }: Timers, { atMs }: Pick<Observation, 'atMs'>): State {
  const firstMetMs: { [T in ThresholdId]?: MonoMs } = { ...state.firstMetMs };
  for (const id of Object.keys(firstMetMs) as ThresholdId[]) {
    const sinceMs = kept.firstMetMs[id];
    if (sinceMs !== undefined) firstMetMs[id] = sinceMs;
  }
  return { ...state, firstMetMs, lastLookMs: atMs };
}

/** What is remembered of a threshold was about its value then. The kubelet restarts for another one, and forgets it too. */
function withoutOtherValues(state: State, thresholds: readonly Threshold[]): State {
  const isSame = (id: string): boolean => {
    const value = thresholds.find((threshold) => threshold.id === id)?.value;
    const before = state.metValues[id as ThresholdId];
    return value === undefined || before === undefined || before === sayValue(value);
  };
  const ids = Object.keys(state.metValues);
  if (ids.every(isSame)) return state;
  const same = <T>(times: { readonly [id: string]: T }): { readonly [id: string]: T } =>
    Object.fromEntries(Object.entries(times).filter(([id]) => isSame(id)));
  return {
    ...state,
    firstMetMs: same(state.firstMetMs),
    unmetSinceMs: same(state.unmetSinceMs),
    unresolved: state.unresolved.filter(isSame),
    dryDropped: state.dryDropped.filter(isSame),
  };
}

function sayValue(value: ThresholdValue): string {
  if (value.kind === 'raised') return `${sayValue(value.of)} + ${JSON.stringify(value.margin)}`;
  return value.kind === 'quantity' ? `${value.amount.nanos}n` : String(value.fraction);
}

function metBy(
  threshold: Threshold,
  observation: Observation,
  isLatched: boolean,
  sinceMs: MonoMs,
): MetThreshold | 'unmet' | 'unknown' | 'not-applicable' {
  const sample = observation.signals[threshold.signal];
  if (!sample.known) return sample.why === 'not-applicable' ? 'not-applicable' : 'unknown';
  const { available, capacity } = sample.value;
  const { limit, target } = limits(threshold, sample.value);
  // Min reclaim only holds a threshold that was ripe before; it never starts one.
  const bound = isLatched ? target : limit;
  if (!isLess(available, bound)) return 'unmet';
  const { id, signal, graceMs } = threshold;
  const window = SIGNAL_FACTS[signal].unit === 'ms' ? { windowMs: capacity } : {};
  return { id, signal, isHard: graceMs === 0, limit, target: bound, available, ...window, sinceMs };
}

/** D2: whether an unmet soft threshold whose timer runs has not recovered yet. */
function isRecovering(state: State, threshold: Threshold, atMs: MonoMs): boolean {
  if (threshold.graceMs === 0 || state.firstMetMs[threshold.id] === undefined || state.lastLookMs === null)
    return false;
  const unmetSinceMs = state.unmetSinceMs[threshold.id] ?? atMs;
  return atMs - state.lastLookMs < RECOVERED_AFTER_MS && atMs - unmetSinceMs < RECOVERED_AFTER_MS;
}

function failedNow(
  state: State,
  observation: Observation,
): { readonly failedLooks: State['failedLooks']; readonly reasons: readonly Reason[] } {
  const failedLooks: { [S in Signal]?: { readonly count: number; readonly sinceMs: MonoMs } } = {};
  const reasons: Reason[] = [];
  for (const signal of SIGNALS) {
    const sample = observation.signals[signal];
    if (sample.known || sample.why === 'not-applicable') continue;
    const before = state.failedLooks[signal];
    const count = (before?.count ?? 0) + 1;
    failedLooks[signal] = { count, sinceMs: before?.sinceMs ?? observation.atMs };
    reasons.push({ code: 'signal-unknown', signal, unknown: sample, failedLooks: count });
  }
  return { failedLooks, reasons };
}

/** While a timer runs, looks are far closer together: any longer gap between two of them was not observed. */
export const SEEN_BETWEEN_LOOKS_MS = 1_000;

/**
 * On a live node, a soft grace period counts only observed time, at most `seenMs` of the time since the last look.
 * While no agent ran, or it was stopped or starved, the signal may have recovered. The kubelet counts all of it, and so
 * does `simulate`, whose steps may be far apart. The deadline of an eviction counts no more of it. If the signal cannot be
 * read now, `timersNow` leaves out all of the time.
 */
export function withoutUnseen(
  state: State,
  { atMs, signals }: Pick<Observation, 'atMs' | 'signals'>,
  seenMs: number,
): State {
  const unseenMs = state.lastLookMs === null ? 0 : atMs - state.lastLookMs - seenMs;
  if (unseenMs <= 0) return state;
  const firstMetMs: { [T in ThresholdId]?: MonoMs } = { ...state.firstMetMs };
  for (const id of Object.keys(firstMetMs) as ThresholdId[]) {
    const sinceMs = firstMetMs[id];
    if (isSoft(id) && signals[signalOf(id)].known && sinceMs !== undefined) firstMetMs[id] = sinceMs + unseenMs;
  }
  return { ...state, firstMetMs, act: withTime(state.act, unseenMs) };
}

/** D3: an agent that was stalled has not sent SIGKILL yet, and must not choose another pod because of that. */
function withTime(act: State['act'], unseenMs: number): State['act'] {
  if (act.kind !== 'evicting') return act;
  const evictions = act.evictions.map((eviction) =>
    eviction.settledMs === null && eviction.killedMs === undefined
      ? { ...eviction, deadlineMs: eviction.deadlineMs + unseenMs }
      : eviction,
  );
  return { ...act, evictions };
}
