import type { CoreConfig } from '../core-config.ts';
import { firstSignal, type MetThreshold } from '../eviction/threshold.ts';
import type { MachineAction, PodView } from './pod.ts';

/** A grace period of 0 or less becomes the runtime's minimum (kubelet-eviction.md 4.12, kubelet-shutdown.md 4.6). */
const LEAST_GRACE_SECONDS = 2;
export const HARD_GRACE_SECONDS = 1;

/** The time between SIGTERM and SIGKILL for a requested grace period. */
export const givenSeconds = (graceSeconds: number): number => (graceSeconds > 0 ? graceSeconds : LEAST_GRACE_SECONDS);

/** Hard: 1 s. Soft: the smaller of the maximum and the pod's own (kubelet-eviction.md 4.12). */
export function graceOf(threshold: Pick<MetThreshold, 'isHard'>, pod: PodView, config: CoreConfig): number {
  return threshold.isHard ? HARD_GRACE_SECONDS : Math.min(config.maxPodGraceSeconds, pod.terminationGraceSeconds);
}

/** What the processes really get: nothing under D12, at least 2 s under a soft threshold. */
export function effectiveGraceMs(threshold: MetThreshold, graceSeconds: number): number {
  if (firstSignal(threshold) === 'sigkill') return 0;
  return givenSeconds(graceSeconds) * 1_000;
}

/** After the grace period: until systemd has noticed that all that got SIGKILL is gone, and the stop is over. */
const KILLED_MS = 10_000;

/** What a stop with that grace period may do to the machine; null: nothing. */
export const actionWithin = (action: MachineAction | null | undefined, graceSeconds: number): string | null =>
  action && action.afterMs <= givenSeconds(graceSeconds) * 1_000 + KILLED_MS ? action.what : null;

/** A pod whose stop for that threshold may take the machine down is no candidate for it. */
export function withMachineActions(
  pods: readonly PodView[],
  threshold: Pick<MetThreshold, 'isHard'>,
  config: CoreConfig,
): readonly PodView[] {
  const isBarred = (pod: PodView): boolean => actionWithin(pod.endsMachine, graceOf(threshold, pod, config)) !== null;
  return pods.map((pod) => (isBarred(pod) ? { ...pod, limitedBy: 'ends-machine' } : pod));
}
