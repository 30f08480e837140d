import type { Observation } from '../observation.ts';
import { SIGNAL_FACTS, type Signal } from '../signal.ts';
import type { State, Unreaped } from '../state/state.ts';
import { CLEAN_UP_MS, proofOf } from './usage-trend.ts';

const MOST_KEPT = 16;

const isOfProcesses = (signal: Signal): boolean => SIGNAL_FACTS[signal].comesBack === 'process-ids';

/** After this look: victims, whatever they were evicted for, whose dead processes held process IDs at their end. */
export function unreapedAfter(
  { unreaped }: Pick<State, 'unreaped'>,
  observation: Pick<Observation, 'atMs' | 'signals' | 'outcomes'>,
): State['unreaped'] {
  const left = unreaped.filter(({ atMs }) => observation.atMs - atMs < CLEAN_UP_MS);
  const joined = observation.outcomes.flatMap((heard): readonly Unreaped[] => {
    const count = heard.kind === 'ended' ? (heard.unreaped ?? 0) : 0;
    return count === 0 ? [] : [{ decision: heard.of, ...proofOf(observation, isOfProcesses), count }];
  });
  return [...left, ...joined].slice(-MOST_KEPT);
}
