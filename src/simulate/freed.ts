import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod.ts';
import { usageFor } from '../core/rank.ts';
import { known } from '../core/reading.ts';
import { type FsLayout, SIGNALS } from '../core/signal.ts';
import type { EvictionScenario } from './scenario.ts';

/** Written by `capture`: usage that was recorded on a node cannot react to kills that are simulated. */
export const isCapture = ({ labels }: Pick<EvictionScenario, 'labels'>): boolean => labels['recorded'] === 'capture';

/** The signals as they would be without what `killed` still use in the recording. */
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
    const bytes = killed.reduce((sum, pod) => {
      const usage = usageFor(signal, pod, layout);
      return sum + (usage.known ? usage.value : 0);
    }, 0);
    freed[signal] = known({ ...reading.value, available: Math.min(capacity, available + bytes) });
  }
  return freed;
}
