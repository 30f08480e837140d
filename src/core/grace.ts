import type { CoreConfig } from './core-config.ts';
import type { PodView } from './pod.ts';
import { firstSignal, type MetThreshold } from './threshold.ts';

/** kubelet-eviction.md 4.12: a soft grace of 0 or less ends up as the runtime's least, 2 s. */
const LEAST_SOFT_GRACE_MS = 2_000;
export const HARD_GRACE_SECONDS = 1;

/** Hard: 1 s. Soft: the smaller of the maximum and the pod's own (kubelet-eviction.md 4.12). */
export function graceOf(threshold: MetThreshold, pod: PodView, config: CoreConfig): number {
  return threshold.isHard ? HARD_GRACE_SECONDS : Math.min(config.maxPodGraceSeconds, pod.terminationGraceSeconds);
}

/** What the processes really get: nothing when it burns (D12), at least 2 s under a soft threshold. */
export function effectiveGraceMs(threshold: MetThreshold, graceSeconds: number): number {
  if (firstSignal(threshold) === 'sigkill') return 0;
  return graceSeconds > 0 ? graceSeconds * 1_000 : LEAST_SOFT_GRACE_MS;
}
