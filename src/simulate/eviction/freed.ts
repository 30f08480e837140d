import { usageFor } from '../../core/eviction/comparator.ts';
import { givesBack } from '../../core/eviction/gives-back.ts';
import type { Observation } from '../../core/observation.ts';
import type { PodView } from '../../core/pod/pod.ts';
import { known } from '../../core/reading.ts';
import { type FsLayout, SIGNAL_FACTS, SIGNALS, type Signal } from '../../core/signal.ts';
import type { EvictionScenario } from '../scenario.ts';

/** Whether `capture` wrote it: recorded usage cannot react to simulated kills. */
export const isCapture = ({ labels }: Pick<EvictionScenario, 'labels'>): boolean => labels['recorded'] === 'capture';

/** The signals without what `killed` still use in the recording. */
export function withFreed(
  signals: Observation['signals'],
  killed: readonly PodView[],
  layout: FsLayout,
): Observation['signals'] {
  if (killed.length === 0) return signals;
  const freed = { ...signals };
  for (const signal of SIGNALS) {
    const reading = signals[signal];
    if (!reading.known) continue;
    const { available, capacity } = reading.value;
    const amount = killed.reduce((sum, pod) => sum + freedBy(signal, pod, layout), 0);
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
