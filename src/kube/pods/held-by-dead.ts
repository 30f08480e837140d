import { podName } from '../../core/pod/pod.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { anonBytes, isPopulated } from '../../host/cgroup/cgroupfs.ts';
import { leftIn } from '../../host/cgroup/left-memory.ts';
import { hasNoProcess, type LivePod } from './live-pods.ts';

export type HeldByDead = { readonly uid: string; readonly pod: string; readonly bytes: number };

/** Pods whose containers have ended for good and whose memory volumes still hold memory. `live`: with their containers. */
export function heldByDead(mounts: CgroupMounts, live: readonly LivePod[]): readonly HeldByDead[] {
  const facts: Parameters<typeof hasNoProcess>[2] = {
    populated: (cgroup) => isPopulated(mounts, cgroup),
    ownBytes: (cgroup) => anonBytes(mounts, cgroup),
  };
  return live.flatMap((pod) => {
    const { declared, cgroup, comesBack } = pod;
    if (!comesBack || !cgroup.known || !hasNoProcess(pod, { cgroup: cgroup.value }, facts)) return [];
    const left = leftIn(mounts, cgroup.value);
    if (!left.known || left.value.sharedBytes === 0) return [];
    return [{ uid: declared.uid, pod: podName(declared), bytes: left.value.sharedBytes }];
  });
}
