import type { MonoMs } from '../reading.ts';
import { type NodeCondition, SIGNAL_FACTS, type Signal } from '../signal.ts';
import type { State } from '../state/state.ts';

export const CONDITIONS: readonly NodeCondition[] = ['MemoryPressure', 'DiskPressure', 'PIDPressure'];

/** When each condition that is true was last seen met; a condition without an entry is false. */
type ConditionTimes = State['conditionLastMetMs'];

/**
 * kubelet-eviction.md 4.5: a condition is true from the first crossing, soft thresholds included, as long as it was last met
 * strictly less than the transition period ago (with a period of 0 or less, never). D5: nor does it end while a threshold of
 * it that was met cannot be read.
 */
export function conditionsNow(
  before: ConditionTimes,
  { met, unread }: { readonly met: readonly Signal[]; readonly unread: readonly Signal[] },
  atMs: MonoMs,
  transitionMs: number,
): ConditionTimes {
  const now: { [C in NodeCondition]?: MonoMs } = {};
  for (const condition of CONDITIONS) {
    const isOf = (signal: Signal): boolean => SIGNAL_FACTS[signal].condition === condition;
    const lastMs = met.some(isOf) ? atMs : before[condition];
    const isKept = before[condition] !== undefined && unread.some(isOf);
    if (lastMs !== undefined && (isKept || atMs - lastMs < transitionMs)) now[condition] = lastMs;
  }
  return now;
}

/** The conditions that are true. */
export function trueConditions(times: ConditionTimes): readonly NodeCondition[] {
  return CONDITIONS.filter((condition) => times[condition] !== undefined);
}
