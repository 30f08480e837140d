import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { kubepodsPath } from '../host/cgroup/kubepods.ts';

type AllocatableNeeds = {
  readonly mounts: CgroupMounts;
  readonly cgroupRoot: string;
  /** Where the mode found the cgroup of all pods; absent: it is searched for below cgroupRoot. */
  readonly podsCgroup?: () => Reading<string>;
};
type AllocatableMemory = {
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  readonly close: () => void;
};

/** A missing file costs an exception at each look, and on a machine without a kubelet it never appears. */
const ABSENT_PACE_MS = 10_000;

/**
 * allocatableMemory.available: the limit of the cgroup of all pods minus its working set (kubelet-eviction.md 1.1.5).
 */
export function createAllocatableMemory({ mounts, cgroupRoot, podsCgroup }: AllocatableNeeds): AllocatableMemory {
  const usual = [kubepodsPath('cgroupfs', cgroupRoot), kubepodsPath('systemd', cgroupRoot)];
  const opened = new Map<string, CgroupMemory>();
  const nowhere = unknown('not-applicable', usual.join(' or '), 'there is no such cgroup');
  let absentMs = Number.NEGATIVE_INFINITY;

  const open = (path: string): CgroupMemory => {
    const memory = opened.get(path) ?? openMemory(mounts, path);
    opened.set(path, memory);
    return memory;
  };
  const sampleOf = (path: string, limit: number | null, atMs: MonoMs): Reading<SignalSample> => {
    if (limit === null) return unknown('not-applicable', path, 'it has no limit');
    const use = open(path).read();
    if (!use.known) return use;
    // A working set above the limit gives a negative value, but the right capacity (1.1.6).
    return known({ available: limit - use.value.workingSetBytes, capacity: limit, sampledAtMs: atMs });
  };
  const availableIn = (paths: readonly string[], atMs: MonoMs): Reading<SignalSample> | null => {
    let failed: Unknown | null = null;
    for (const path of paths) {
      const limit = open(path).limit();
      if (limit.known) return sampleOf(path, limit.value, atMs);
      // Not 0, as in the kubelet: one failed read would evict everybody (D5).
      if (limit.why !== 'absent') failed = limit;
    }
    return failed;
  };
  return {
    available: (atMs) => {
      if (podsCgroup !== undefined) {
        const path = podsCgroup();
        return (path.known ? availableIn([path.value], atMs) : null) ?? nowhere;
      }
      if (atMs - absentMs < ABSENT_PACE_MS) return nowhere;
      const available = availableIn(usual, atMs);
      if (available === null) absentMs = atMs;
      return available ?? nowhere;
    },
    close: () => {
      for (const memory of opened.values()) memory.close();
    },
  };
}
