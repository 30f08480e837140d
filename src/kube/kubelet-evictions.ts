import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import type { ApiPod } from './api-pod.ts';

/** F6 (i): after an eviction by the kubelet, the agent waits this long for what it frees. */
const RECENT_MS = 15_000;

/** When the kubelet of this node itself evicted a pod, as the API shows it: the pod becomes Failed, and stays. */
export function createKubeletEvictions(clock: Clock) {
  const seen = new Set<PodUid>();
  let lastMs: MonoMs = Number.NEGATIVE_INFINITY;
  /** Null: unknown, as with a kubelet before 1.26, or the clock has been set back since. */
  const agoMs = ({ evictedWallMs }: ApiPod): number | null => {
    if (evictedWallMs === undefined) return null;
    const ms = clock.wallMs() - evictedWallMs;
    return ms < 0 ? null : ms;
  };
  return {
    /** `isListed`: they were listed, or are known from an earlier run, so that they may have been evicted long ago. */
    see: (pods: Iterable<ApiPod>, isListed: boolean): void => {
      const now = new Set<PodUid>();
      for (const pod of pods) {
        if (!pod.isEvictedByKubelet) continue;
        const { uid } = pod.declared;
        now.add(uid);
        if (seen.has(uid)) continue;
        seen.add(uid);
        const ms = agoMs(pod) ?? (isListed ? Number.POSITIVE_INFINITY : 0);
        lastMs = Math.max(lastMs, clock.monoMs() - ms);
      }
      for (const uid of seen) if (!now.has(uid)) seen.delete(uid);
    },
    isRecent: (): boolean => clock.monoMs() - lastMs < RECENT_MS,
  };
}
