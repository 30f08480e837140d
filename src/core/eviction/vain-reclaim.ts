import type { Observation } from '../observation.ts';
import { isEnd } from '../outcome.ts';
import type { Reclaim, State } from '../state/state.ts';
import type { Shortage } from './shortage.ts';
import type { Threshold } from './threshold.ts';
import { isMetWithMinReclaim } from './thresholds-met.ts';

/** After a reclaim in vain; the pause doubles each time. */
const FIRST_PAUSE_MS = 10_000;
const LONGEST_PAUSE_MS = 60_000;

export function isReclaimOver({ deadlineMs, decision }: Reclaim, { atMs, outcomes }: Observation): boolean {
  return atMs >= deadlineMs || outcomes.some((heard) => isEnd(heard) && heard.of === decision);
}

/**
 * Whether the last reclaims for the shortage freed nothing: the next one waits, unless a pod would be evicted otherwise. One
 * reclaim a second would displace everything else from the record.
 */
export function isReclaimVain({ vainReclaims }: State, shortage: Shortage, { atMs }: Observation): boolean {
  const vain = vainReclaims?.[shortage];
  return vain !== undefined && atMs < vain.untilMs;
}

/** kubelet-eviction.md 6.3: whether one of the thresholds is met with its min reclaim, whatever its grace period. */
export function isStillShort({ signals }: Observation, thresholds: readonly Threshold[]): boolean {
  return thresholds.some((threshold) => {
    const sample = signals[threshold.signal];
    return sample.known && isMetWithMinReclaim(threshold, sample.value);
  });
}

export function withReclaimed(state: State, shortage: Shortage, reclaim: Reclaim, observation: Observation): State {
  const { [shortage]: before, ...others } = state.vainReclaims ?? {};
  if (hasFreed(reclaim, observation)) return { ...state, vainReclaims: others };
  const { atMs } = observation;
  const isRepeated = before !== undefined && atMs - before.untilMs < LONGEST_PAUSE_MS;
  const pauseMs = isRepeated ? Math.min(2 * before.pauseMs, LONGEST_PAUSE_MS) : FIRST_PAUSE_MS;
  return { ...state, vainReclaims: { ...others, [shortage]: { untilMs: atMs + pauseMs, pauseMs } } };
}

/** By its outcome. A look that did not get the pods has consumed that: then by the signal. */
function hasFreed({ decision, threshold }: Reclaim, { outcomes, signals }: Observation): boolean {
  const outcome = outcomes.find(({ of }) => of === decision);
  if (outcome?.kind === 'reclaimed' && outcome.freed.known) return outcome.freed.value > 0;
  const sample = signals[threshold.signal];
  return sample.known && sample.value.available > threshold.available;
}
