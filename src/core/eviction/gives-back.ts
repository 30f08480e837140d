import type { PodView } from '../pod/pod.ts';
import { known, type Reading } from '../reading.ts';
import { SIGNAL_FACTS, type Signal, type SignalFacts } from '../signal.ts';

type Usage = PodView['usage'];
/**
 * At most. Of a working set the file cache and files of a tmpfs outlive the processes: who waits for
 * it bounds what goes wrong by that. Of a stall nobody can say how much of it is the pod's: all of it, then.
 */
const GIVES_BACK: { readonly [what in SignalFacts['comesBack']]: (usage: Usage) => Reading<number> | undefined } = {
  memory: ({ workingSetBytes }) => workingSetBytes,
  swap: ({ swapBytes }) => swapBytes,
  'process-ids': ({ pidsHeld, processes }) => (pidsHeld?.known ? pidsHeld : processes),
  stall: () => known(Number.POSITIVE_INFINITY),
  nothing: () => known(0),
};
export function givesBack({ usage }: PodView, signal: Signal): number {
  const held = GIVES_BACK[SIGNAL_FACTS[signal].comesBack](usage);
  return held?.known ? held.value : 0;
}
