import type { PodView } from './pod.ts';

/** What the kernel adds to the size of a pod's processes when it has to choose by itself. */
export type OomScore = {
  /** `namespace/name` */
  readonly pod: string;
  readonly oomScoreAdj: number;
  /** `unit`: the unit has an OOMScoreAdjust= of its own, which stays. */
  readonly from: 'qos' | 'unit';
  /** That have another value, also after the last attempt. */
  readonly others: number;
};
/** Of system-node-critical: the class itself is not kept (kubelet-eviction.md 8.4). */
const NODE_CRITICAL = 2_000_001_000;
const SPARED = -997;
const FIRST = 1_000;
/** So that a Burstable pod is neither spared like a Guaranteed one nor taken like a BestEffort one. */
const LEAST_BURSTABLE = 3;
const MOST_BURSTABLE = 999;

/**
 * kubelet-eviction.md 8.5: how much the kernel adds to the size of a process, in thousandths of memory, when it
 * chooses. For all processes of a pod at once, by the request of the pod: standalone mode does not tell its containers
 * apart.
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
