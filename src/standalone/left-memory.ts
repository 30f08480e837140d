import { podName } from '../core/pod/pod.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { leftBytes } from '../host/left-memory.ts';
import type { BoundPod, Findings } from '../ports.ts';
import { leftMemory, leftMemoryId } from '../words/finding-standalone.ts';

/** Less is not worth a person's time. */
const LEAST_BYTES = 16 * 1024 * 1024;
/** Some 0.1 ms each. */
const MOST_AT_ONCE = 50;

/** Reports pods that have ended and left memory behind that no eviction frees. Beside the loop, some pods at each call. */
export function createLeftMemory(mounts: CgroupMounts, findings: Findings): (pods: readonly BoundPod[]) => void {
  let next = 0;
  return (pods) => {
    const some = pods.slice(next, next + MOST_AT_ONCE);
    next = next + MOST_AT_ONCE < pods.length ? next + MOST_AT_ONCE : 0;
    for (const { declared, cgroup } of some) {
      const pod = podName(declared);
      const left = cgroup.known ? leftBytes(mounts, cgroup.value) : null;
      if (left?.known === false) continue;
      if (cgroup.known && left !== null && left.value >= LEAST_BYTES)
        findings.raise(leftMemory(pod, cgroup.value.path, left.value));
      else findings.clear(leftMemoryId(pod));
    }
  };
}
