import { createInTurns } from '../core/in-turns.ts';
import { podName } from '../core/pod/pod.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { countUnreaped } from '../host/cgroup/cgroupfs.ts';
import type { BoundPod, Findings } from '../ports.ts';
import { unreapedId, unreapedProcesses } from '../words/finding-eviction.ts';

/** Fewer dead are not worth a person's time. */
const LEAST_DEAD = 64;

/**
 * Reports many unreaped dead processes of pods, beside the loop: at each call those of `most` pods, and those of the next ones
 * at the next call. Some 0.1 ms each.
 */
export function createUnreapedDead(mounts: CgroupMounts, findings: Findings, most: number) {
  const inTurns = createInTurns(most);
  /** The names that are told, by uid. A stop tells those of its victim, also fewer. */
  const told = new Map<string, string>();

  function tell({ uid, pod }: { readonly uid: string; readonly pod: string }, count: number): void {
    if (count > 0) {
      told.set(uid, pod);
      findings.raise(unreapedProcesses(pod, count));
    } else if (told.delete(uid)) findings.clear(unreapedId(pod));
  }

  return (pods: readonly Pick<BoundPod, 'declared' | 'cgroup'>[]): void => {
    const present = told.size === 0 ? null : new Set(pods.map(({ declared }) => declared.uid));
    for (const [uid, pod] of told) if (present?.has(uid) === false) tell({ uid, pod }, 0);
    for (const { declared, cgroup } of inTurns(pods)) {
      const dead = cgroup.known ? countUnreaped(mounts, cgroup.value, LEAST_DEAD) : null;
      const isCounted = dead === null || dead.known || dead.why === 'absent';
      if (isCounted) tell({ uid: declared.uid, pod: podName(declared) }, dead?.known ? dead.value : 0);
    }
  };
}
