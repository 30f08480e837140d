import type { Observation } from '../observation.ts';
import { isDisk } from '../signal.ts';
import { bytesUp } from '../units/quantity.ts';
import type { Threshold } from './threshold.ts';

/** Of the capacity, above the threshold. */
const NEAR_SHARE = 0.05;

/** Whether a disk threshold is met, or may soon be: then who uses the disk should be known before it is asked. */
export function isDiskNear({ signals }: Pick<Observation, 'signals'>, thresholds: readonly Threshold[]): boolean {
  return thresholds.some(({ signal, value }) => {
    const sample = signals[signal];
    if (!isDisk(signal) || !sample.known) return false;
    const { available, capacity } = sample.value;
    // Not exact: each look asks, and nothing is decided by it.
    const limit = value.kind === 'fraction' ? capacity * value.fraction : bytesUp(value.amount);
    return available - limit < NEAR_SHARE * capacity;
  });
}
