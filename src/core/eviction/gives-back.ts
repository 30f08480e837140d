import type { Observation } from '../observation.ts';
import type { PodUid, PodView } from '../pod/pod.ts';
import { known, type Reading } from '../reading.ts';
import { SIGNAL_FACTS, type Signal, type SignalFacts } from '../signal.ts';

type Usage = PodView['usage'];
/**
 * An upper bound. File cache and tmpfs files of a working set outlive the processes: whoever waits for this amount must limit
 * the wait. How much of a stall is due to the pod is unknown, so all of it counts.
 */
const GIVES_BACK: { readonly [what in SignalFacts['comesBack']]: (usage: Usage) => Reading<number> | undefined } = {
  memory: ({ workingSetBytes }) => workingSetBytes,
  swap: ({ swapBytes }) => swapBytes,
  'process-ids': ({ pidsHeld, processes }) => (pidsHeld?.known ? pidsHeld : processes),
  stall: () => known(Number.POSITIVE_INFINITY),
  nothing: () => undefined,
};
export function givesBack({ usage }: PodView, signal: Signal): number {
  const held = GIVES_BACK[SIGNAL_FACTS[signal].comesBack](usage);
  return held?.known ? held.value : 0;
}

/** What comes back of such pods that have no process any more. */
export function comesBackOf(
  { comesBack = [] }: Pick<Observation, 'comesBack'>,
  signal: Signal,
  isOf: (uid: PodUid) => boolean = () => true,
): number {
  if (SIGNAL_FACTS[signal].comesBack !== 'memory') return 0;
  return comesBack.reduce((sum, { uid, memoryBytes }) => (isOf(uid) ? sum + memoryBytes : sum), 0);
}
