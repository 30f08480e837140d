import { observedOf } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import type { MemoryShare } from '../core/eviction/attribution.ts';
import { ifKnown, known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { memoryLimitOf } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createProcfs, type Procfs } from '../host/procfs.ts';
import { createShareReader, type PodPaths, type ShareReader } from '../observe/memory-shares.ts';
import type { Clock } from '../ports.ts';
import type { MemoryUsers, PodsFacts } from './facts.ts';

/** Slices that hold at least this share of the node's memory are broken down by service. */
const LARGE = 1 / 50;
const MAX_SERVICES = 256;
const READING_MS = 500;

/** Who holds the node's memory, by the cgroups at one moment. The pods are not among the others. */
export function memoryUsers(
  { clock, mounts, effective }: { readonly clock: Clock; readonly mounts: CgroupMounts; readonly effective: Effective },
  pods: Reading<PodsFacts>,
): Reading<MemoryUsers> {
  // A pod that is not located would count among the others.
  const missing = pods.known ? unlocated(pods.value) : pods;
  if (missing !== null && missing.why !== 'not-applicable') return missing;
  const procfs = createProcfs();
  try {
    const { cgroupRoot: node, memoryAvailable } = observedOf(effective);
    const capacity = capacityOf(mounts, node, procfs);
    if (!capacity.known) return capacity;
    const paths = pathsOf(pods);
    const reader = createShareReader({ clock, mounts, procfs, memoryAvailable });
    const sample = reader.now(node, clock.monoMs(), paths, READING_MS);
    return ifKnown(sample, ({ shares: { podsBytes, others } }) =>
      known({
        capacityBytes: capacity.value,
        podsBytes,
        others: others
          .flatMap((share) => inside(share, reader, paths, capacity.value * LARGE))
          .toSorted((a, b) => b.bytes - a.bytes),
      }),
    );
  } finally {
    procfs.close();
  }
}

function unlocated({ pods, declared, unread, units }: PodsFacts): Unknown | null {
  if (!units.known) return units;
  if (unread[0] !== undefined) return unread[0];
  return pods.length < declared.length
    ? unknown('unreadable', 'pods', `${declared.length} are too many to tell what is outside them`)
    : null;
}

function capacityOf(mounts: CgroupMounts, node: string, procfs: Procfs): Reading<number> {
  const total = procfs.memTotalBytes();
  if (node === '/' || !total.known) return total;
  return ifKnown(memoryLimitOf(mounts, node), (bytes) =>
    known(Math.min(bytes ?? Number.POSITIVE_INFINITY, total.value)),
  );
}

function pathsOf(pods: Reading<PodsFacts>): PodPaths {
  const paths = new Map<string, number | null>();
  for (const { bound, memoryBytes } of pods.known ? pods.value.pods : [])
    if (bound.cgroup.known) paths.set(bound.cgroup.value.path, memoryBytes?.known ? memoryBytes.value : null);
  return paths;
}

/** The services in a slice, and the rest that it holds. */
function inside(share: MemoryShare, reader: ShareReader, paths: PodPaths, leastBytes: number): readonly MemoryShare[] {
  if (!share.where.startsWith('/') || share.bytes < leastBytes) return [share];
  const services = (reader.servicesIn(share.where, paths) ?? []).slice(0, MAX_SERVICES).flatMap((where) => {
    const bytes = reader.bytes(where);
    return bytes.known && bytes.value > 0 ? [{ where, bytes: bytes.value }] : [];
  });
  const restBytes = share.bytes - services.reduce((sum, { bytes }) => sum + bytes, 0);
  return [...services, { where: share.where, bytes: Math.max(0, restBytes) }];
}

export const NO_CONFIG = unknown('not-asked', 'the configuration', 'it is refused');
