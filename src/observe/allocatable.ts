import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';

type AllocatableMemory = {
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  readonly close: () => void;
};

/** A file that is not there costs an exception, at each look: on a machine without a kubelet it never comes. */
const ABSENT_PACE_MS = 10_000;

/** allocatableMemory.available: the limit of the cgroup of all pods less its working set (kubelet-eviction.md 1.1.5). */
export function createAllocatableMemory(mounts: CgroupMounts, cgroupRoot: string): AllocatableMemory {
  const paths = podsCgroupPaths(cgroupRoot);
  const cgroups = paths.map((path) => openMemory(mounts, path));
  const absent = unknown('not-applicable', paths.join(' or '), 'there is no such cgroup');
  let absentMs = Number.NEGATIVE_INFINITY;

  const sampleOf = (cgroup: CgroupMemory, limit: number | null, atMs: MonoMs): Reading<SignalSample> => {
    if (limit === null) return unknown('not-applicable', paths.join(' or '), 'it has no limit');
    const use = cgroup.read();
    if (!use.known) return use;
    // A working set above the limit gives a negative figure, and the right capacity (1.1.6).
    return known({ available: limit - use.value.workingSetBytes, capacity: limit, sampledAtMs: atMs });
  };
  return {
    available: (atMs) => {
      if (atMs - absentMs < ABSENT_PACE_MS) return absent;
      let failed: Unknown | null = null;
      for (const cgroup of cgroups) {
        const limit = cgroup.limit();
        if (limit.known) return sampleOf(cgroup, limit.value, atMs);
        // Not 0, as the kubelet has it: that would evict everybody because of one bad read (D5).
        if (limit.why !== 'absent') failed = limit;
      }
      if (failed !== null) return failed;
      absentMs = atMs;
      return absent;
    },
    close: () => {
      for (const cgroup of cgroups) cgroup.close();
    },
  };
}

/** beside-a-kubelet.md D6: of the cgroupfs driver, then of the systemd driver. */
export function podsCgroupPaths(cgroupRoot: string): readonly [string, string] {
  const parts = cgroupRoot.split('/').filter((part) => part !== '');
  const escaped = [...parts, 'kubepods'].map((part) => part.replaceAll('-', '_'));
  const slices = escaped.map((_, i) => `${escaped.slice(0, i + 1).join('-')}.slice`);
  return [`/${[...parts, 'kubepods'].join('/')}`, `/${slices.join('/')}`];
}
