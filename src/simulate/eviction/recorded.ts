import { usageFor } from '../../core/eviction/comparator.ts';
import { givesBack } from '../../core/eviction/gives-back.ts';
import type { MetThreshold, ThresholdId } from '../../core/eviction/threshold.ts';
import { actOf, evictionsOf, PROOF_MS } from '../../core/eviction/under-way.ts';
import type { Observation } from '../../core/observation.ts';
import type { CandidateLimit, PodUid, PodView, Unsaid } from '../../core/pod/pod.ts';
import { known, type MonoMs } from '../../core/reading.ts';
import { isObject } from '../../core/shape.ts';
import { type FsLayout, isDisk, SIGNAL_FACTS, SIGNALS, type Signal } from '../../core/signal.ts';
import type { Eviction, State } from '../../core/state/state.ts';
import { quantityOfBytes } from '../../core/units/quantity.ts';
import type { EvictionScenario, EvictionStep, Json, Stopping } from '../scenario.ts';

const BY_NAME: { readonly [L in CandidateLimit]: true } = {
  'maybe-empty': true,
  'manifest-unread': true,
  'restart-guard': true,
  'not-stoppable': true,
  'ends-machine': true,
  unnamed: true,
  'looked-up': true,
  finished: true,
  'maybe-finished': true,
  'kubelet-evicting': true,
  'budget-refused': true,
  'budgets-refuse': true,
};
export const LIMITS = Object.keys(BY_NAME);
const isLimit = (value: unknown): value is CandidateLimit => LIMITS.some((limit) => limit === value);

/** What a recorded look knew of a pod, other than figures, in keys of our own. Its shape was checked. */
export function recordedOf(entry: Json): Partial<PodView> {
  const { unsaid, limitedBy, endsMachineAfterMs: afterMs } = entry;
  const is = (key: string): boolean => entry[key] === true;
  return {
    ...(is('isBetweenRuns') ? { isBetweenRuns: true } : {}),
    ...(is('isStalledByOwnLimit') ? { isStalledByOwnLimit: true } : {}),
    ...(isObject(unsaid) ? { unsaid: unsaidOf(unsaid) } : {}),
    // As earlier versions wrote two of the limits.
    ...(is('isAwaited') ? { limitedBy: 'unnamed' } : {}),
    ...(is('isMaybeEmpty') ? { limitedBy: 'maybe-empty' } : {}),
    ...(isLimit(limitedBy) ? { limitedBy } : {}),
    ...(typeof afterMs === 'number' ? { endsMachine: { what: '', afterMs } } : {}),
    ...(is('isDeletedByOthers') ? { isTerminating: true, isDeletedByOthers: true } : {}),
    ...(is('hasSurvived') ? { isTerminating: true, hasSurvived: true } : {}),
    ...(is('isGuarded') ? { isGuarded: true } : {}),
  };
}

/** C9. */
const unsaidOf = ({ why, priority, requests }: Json): Unsaid => ({
  why: why === 'unreadable' ? why : 'undeclared',
  priority: priority === true,
  requests: requests === true,
});

const RECORDED = 'of ';
const NOTHING = quantityOfBytes(0, 'binary');

/** Stops that a recorded look waited for hold back the next one here as well (D3), in place of those of the step before. */
export function withRecordedStops(state: State, { stopping, atMs }: EvictionStep): State {
  const own = evictionsOf(state).filter(({ decision }) => !decision.startsWith(RECORDED));
  return { ...state, act: actOf([...own, ...stopping.map((stop) => evictionOf(stop, atMs))]) };
}

/** Only the pod and the signals are recorded: the rest is such that nothing but the end of the recorded stop ends it. */
function evictionOf({ pod, for: signals }: Stopping, atMs: MonoMs): Eviction {
  const [namespace = '', name = ''] = pod.split('/');
  const [first = metFor('memory.available', atMs), ...others] = signals.map((signal) => metFor(signal, atMs));
  return {
    decision: `${RECORDED}${pod}`,
    decidedMs: atMs,
    victim: { uid: `${RECORDED}${pod}`, namespace, name, qos: 'BestEffort', priority: 0 },
    graceEndsMs: atMs,
    deadlineMs: atMs + PROOF_MS,
    settledMs: null,
    cause: { kind: 'threshold', threshold: first },
    alsoFor: others,
  };
}

function metFor(signal: Signal, sinceMs: MonoMs): MetThreshold {
  const id: ThresholdId = `${signal}/evictionHard`;
  return { id, signal, isHard: true, limit: NOTHING, target: NOTHING, available: 0, sinceMs };
}

/** Whether `capture` wrote it: recorded usage cannot react to simulated kills. */
export const isCapture = ({ labels }: Pick<EvictionScenario, 'labels'>): boolean => labels['recorded'] === 'capture';

/**
 * The signals without what `killed` still use in the recording. `filesOf`: their last views with a known disk usage, because a
 * pod that ended by itself in the recording left its files.
 */
export function withFreed(
  signals: Observation['signals'],
  killed: readonly PodView[],
  filesOf: ReadonlyMap<PodUid, PodView>,
  layout: FsLayout,
): Observation['signals'] {
  if (killed.length === 0) return signals;
  const freed = { ...signals };
  for (const signal of SIGNALS) {
    const reading = signals[signal];
    if (!reading.known) continue;
    const { available, capacity } = reading.value;
    const from = (pod: PodView): PodView => (isDisk(signal) ? (filesOf.get(pod.uid) ?? pod) : pod);
    const amount = killed.reduce((sum, pod) => sum + freedBy(signal, from(pod), layout), 0);
    freed[signal] = known({ ...reading.value, available: Math.min(capacity, available + amount) });
  }
  return freed;
}

/** The stall in a recording is attributed to the pod that was killed for it, and its files count as removed. */
function freedBy(signal: Signal, pod: PodView, layout: FsLayout): number {
  if (SIGNAL_FACTS[signal].comesBack !== 'nothing') return givesBack(pod, signal);
  const used = usageFor(signal, pod, layout);
  return used.known ? used.value : 0;
}
