import type { CoreConfig } from '../core-config.ts';
import { firstSignal, type MetThreshold } from '../eviction/threshold.ts';
import type { PodView } from './pod.ts';

/** A grace period of 0 or less becomes the runtime's minimum (kubelet-eviction.md 4.12, kubelet-shutdown.md 4.6). */
const LEAST_GRACE_SECONDS = 2;
export const HARD_GRACE_SECONDS = 1;

/** The time between SIGTERM and SIGKILL for a requested grace period. */
export const givenSeconds = (graceSeconds: number): number => (graceSeconds > 0 ? graceSeconds : LEAST_GRACE_SECONDS);

/** Hard: 1 s. Soft: the smaller of the maximum and the pod's own (kubelet-eviction.md 4.12). */
export function graceOf(threshold: MetThreshold, pod: PodView, config: CoreConfig): number {
  return threshold.isHard ? HARD_GRACE_SECONDS : Math.min(config.maxPodGraceSeconds, pod.terminationGraceSeconds);
}

/** What the processes really get: nothing under D12, at least 2 s under a soft threshold. */
export function effectiveGraceMs(threshold: MetThreshold, graceSeconds: number): number {
  if (firstSignal(threshold) === 'sigkill') return 0;
  return givenSeconds(graceSeconds) * 1_000;
}
