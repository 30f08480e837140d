import type { MonoMs } from '../reading.ts';
import { type NodeCondition, SIGNAL_FACTS, type Signal } from '../signal.ts';
import type { State } from '../state/state.ts';

export const CONDITIONS: readonly NodeCondition[] = ['MemoryPressure', 'DiskPressure', 'PIDPressure'];

/** When each condition that is true was last seen met; a condition without an entry is false. */
type ConditionTimes = State['conditionLastMetMs'];

/**
 * kubelet-eviction.md 4.5: a condition is true from the first crossing, soft thresholds included, as long as it was last met
 * strictly less than the transition period ago (with a period of 0 or less, never).
 */
export function conditionsNow(
  before: ConditionTimes,
  met: readonly Signal[],
  atMs: MonoMs,
  transitionMs: number,
): ConditionTimes {
  const now: { [C in NodeCondition]?: MonoMs } = {};
  for (const condition of CONDITIONS) {
    const isSeen = met.some((signal) => SIGNAL_FACTS[signal].condition === condition);
    const lastMs = isSeen ? atMs : before[condition];
    if (lastMs !== undefined && atMs - lastMs < transitionMs) now[condition] = lastMs;
  }
  return now;
}

/** The conditions that are true. */
export function trueConditions(times: ConditionTimes): readonly NodeCondition[] {
  return CONDITIONS.filter((condition) => times[condition] !== undefined);
}
