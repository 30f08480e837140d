import type { MetThreshold, ThresholdId } from '../../core/eviction/threshold.ts';
import { actOf, evictionsOf, PROOF_MS } from '../../core/eviction/under-way.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Signal } from '../../core/signal.ts';
import type { Eviction, State } from '../../core/state/state.ts';
import { quantityOfBytes } from '../../core/units/quantity.ts';
import type { EvictionStep, Stopping } from '../scenario.ts';

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
