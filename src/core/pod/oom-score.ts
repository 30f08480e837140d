import type { PodView } from './pod.ts';

/** What the kernel OOM killer adds to the size of a pod's processes. */
export type OomScore = {
  /** `namespace/name` */
  readonly pod: string;
  readonly oomScoreAdj: number;
  /** `unit`: the unit has an OOMScoreAdjust= of its own, which stays. */
  readonly from: 'qos' | 'unit';
  /** The number of processes that still have another value after the last attempt. */
  readonly others: number;
};
/** The priority of system-node-critical: the class itself is not kept (kubelet-eviction.md 8.4). */
const NODE_CRITICAL = 2_000_001_000;
const SPARED = -997;
const FIRST = 1_000;
/** Keeps a Burstable pod from being spared like a Guaranteed one or taken like a BestEffort one. */
const LEAST_BURSTABLE = 3;
const MOST_BURSTABLE = 999;

/**
 * kubelet-eviction.md 8.5: how much the kernel OOM killer adds to the size of a process, in thousandths of memory. One value
 * for all processes of a pod, by the pod's request: standalone mode does not distinguish containers.
 */
export function oomScoreAdj(
  { qos, priority, requests }: Pick<PodView, 'qos' | 'priority' | 'requests'>,
  capacityBytes: number,
): number {
  if (qos === 'Guaranteed' || priority >= NODE_CRITICAL) return SPARED;
  if (qos === 'BestEffort') return FIRST;
  const share = FIRST - Math.floor((FIRST * requests.memoryBytes) / Math.max(1, capacityBytes));
  return Math.min(MOST_BURSTABLE, Math.max(LEAST_BURSTABLE, share));
}
