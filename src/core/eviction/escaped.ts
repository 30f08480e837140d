import type { Observation } from '../observation.ts';
import { SIGNAL_FACTS, type Signal, type SignalFacts } from '../signal.ts';
import type { EscapedFrom, State } from '../state/state.ts';

const MOST_KEPT = 16;

/** After this look: victims whose outcome says that they hold something outside, as long as they do. */
export function escapedAfter(
  { escaped }: Pick<State, 'escaped'>,
  { escaped: held = [], outcomes }: Pick<Observation, 'escaped' | 'outcomes'>,
): State['escaped'] {
  const isOver = ({ decision }: EscapedFrom): boolean =>
    held.some(({ of, memoryBytes, processIds }) => of === decision && memoryBytes === 0 && processIds === 0);
  const left = escaped.filter((one) => !isOver(one));
  const joined = outcomes.flatMap((heard): readonly EscapedFrom[] =>
    heard.kind === 'survived' && heard.escaped !== undefined ? [{ decision: heard.of, ...heard.escaped }] : [],
  );
  return [...left, ...joined].slice(-MOST_KEPT);
}

const COUNTS: { readonly [what in SignalFacts['comesBack']]: 'memoryBytes' | 'processIds' | null } = {
  memory: 'memoryBytes',
  swap: 'memoryBytes',
  'process-ids': 'processIds',
  stall: 'memoryBytes',
  nothing: null,
};

/**
 * D3: what victims hold outside their cgroups if that is all that the signal lacks, so that no pod that is not to blame is
 * chosen for it; 0: it is less. One that has not been read yet may hold that.
 */
export function heldOutside(
  { escaped }: Pick<State, 'escaped'>,
  { escaped: held = [] }: Pick<Observation, 'escaped'>,
  signal: Signal,
  lacking: number,
): number {
  const counts = COUNTS[SIGNAL_FACTS[signal].comesBack];
  if (counts === null || escaped.length === 0) return 0;
  const isUnread = escaped.some(({ decision }) => held.every(({ of }) => of !== decision));
  const sum = held.reduce((all, one) => all + one[counts], 0);
  return isUnread ? Math.max(sum, lacking) : sum >= lacking ? sum : 0;
}
