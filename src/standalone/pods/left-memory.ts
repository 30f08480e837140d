import { createUnreapedDead } from '../../act/unreaped-dead.ts';
import { createInTurns } from '../../core/in-turns.ts';
import { podName } from '../../core/pod/pod.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { leftMemory } from '../../host/cgroup/left-memory.ts';
import type { BoundPod, Findings } from '../../ports.ts';
import { leftMemoryId, leftMemoryOf } from '../../words/finding-standalone.ts';

/** Some 0.1 ms each. */
const MOST_AT_ONCE = 50;

/**
 * Reports what pods hold besides what their processes have: the memory of those that have ended, and unreaped dead processes.
 * Beside the loop, some pods at each call.
 */
export function createLeftMemory(mounts: CgroupMounts, findings: Findings): (pods: readonly BoundPod[]) => void {
  const inTurns = createInTurns(MOST_AT_ONCE);
  const tellDead = createUnreapedDead(mounts, findings, MOST_AT_ONCE);

  return (pods) => {
    tellDead(pods);
    for (const { declared, cgroup } of inTurns(pods)) {
      const pod = podName(declared);
      const left = cgroup.known ? leftMemory(mounts, cgroup.value) : null;
      if (left?.known === false) continue;
      if (cgroup.known && left !== null && left.value.sharedBytes + left.value.ownBytes > 0)
        findings.raise(leftMemoryOf(pod, cgroup.value.path, left.value));
      else findings.clear(leftMemoryId(pod));
    }
  };
}
