import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import type { ApiPod } from './api-pod.ts';

/** F6 (i): after an eviction by the kubelet, the agent waits this long for what it frees. */
const RECENT_MS = 15_000;

/** When the kubelet of this node itself evicted a pod, as the API shows it: the pod becomes Failed, and stays. */
export function createKubeletEvictions(clock: Clock) {
  const seen = new Set<PodUid>();
  let isFirst = true;
  let lastMs: MonoMs = Number.NEGATIVE_INFINITY;
  return {
    see: (pods: Iterable<ApiPod>): void => {
      const now = new Set<PodUid>();
      for (const { declared, isEvictedByKubelet } of pods) {
        if (!isEvictedByKubelet) continue;
        now.add(declared.uid);
        // Pods in the first list may have been evicted long ago.
        if (!isFirst && !seen.has(declared.uid)) lastMs = clock.monoMs();
        seen.add(declared.uid);
      }
      for (const uid of seen) if (!now.has(uid)) seen.delete(uid);
      isFirst = false;
    },
    isRecent: (): boolean => clock.monoMs() - lastMs < RECENT_MS,
  };
}
