import type { Psi } from '../core/observation.ts';
import { ifKnown, known, type Reading, valueOrNull } from '../core/reading.ts';
import { openMemory } from '../host/cgroup-memory.ts';
import { findCgroupMounts } from '../host/cgroup-mounts.ts';
import { openPids } from '../host/cgroupfs.ts';
import { createProcfs, type Meminfo, type Procfs } from '../host/procfs.ts';
import { openFileSystem } from '../host/statfs.ts';
import type { Clock } from '../ports.ts';
import type { Effective } from './effective.ts';
import type { BeyondReach, HostSizes } from './margin.ts';

/** What /proc returns immediately. File systems can hang and are added by `withNode`. */
export function readHostSizes(): HostSizes {
  const procfs = createProcfs();
  const sizes = {
    memoryBytes: valueOrNull(procfs.memTotalBytes()),
    pids: valueOrNull(procfs.pidLimit()),
    swapBytes: valueOrNull(swapTotalOf(procfs.meminfo())),
    hasMemoryPressure: hasPressure(procfs.psi('memory')),
    beyondReach: beyondReachOn(procfs),
    nodefs: null,
    imagefs: null,
    bounded: null,
  };
  procfs.close();
  return sizes;
}

function swapTotalOf(meminfo: Reading<Meminfo>): Reading<number> {
  return meminfo.known ? meminfo.value.swapTotalBytes : meminfo;
}

function hasPressure(psi: Reading<Psi>): boolean | null {
  return psi.known ? true : psi.why === 'absent' ? false : null;
}

function beyondReachOn({ meminfo, reserveBytes }: Procfs): Reading<BeyondReach> {
  return ifKnown(meminfo(), ({ kernelBytes, slabReclaimableBytes, hugetlbPoolBytes }) =>
    ifKnown(kernelBytes, (kernel) =>
      ifKnown(slabReclaimableBytes, (reclaimable) =>
        ifKnown(hugetlbPoolBytes, (hugePagesBytes) =>
          ifKnown(reserveBytes('min'), (reserve) =>
            known({ reserveBytes: reserve, kernelBytes: Math.max(0, kernel - reclaimable), hugePagesBytes }),
          ),
        ),
      ),
    ),
  );
}

/** Adds the node of a configuration: its cgroup and its file systems. One that does not answer stays unknown. */
export async function withNode(sizes: HostSizes, effective: Effective, clock: Clock): Promise<HostSizes> {
  const sizeOf = async (path: string | null): Promise<HostSizes['nodefs']> => {
    if (path === null) return null;
    const sample = valueOrNull(await openFileSystem(path, clock).sample());
    return sample === null ? null : { bytes: sample.bytesCapacity, inodes: sample.inodes };
  };
  const [nodefs, imagefs] = await Promise.all([sizeOf(effective.nodefsPath), sizeOf(effective.imagefsPath)]);
  return { ...sizes, nodefs, imagefs, bounded: boundedSizes(sizes, effective.cgroupRoot) };
}

/** A cgroup with a limit above the machine's capacity, or none, has the machine's (product.md section 4). */
function boundedSizes({ memoryBytes, pids }: HostSizes, cgroupRoot: string): HostSizes['bounded'] {
  const mounts = findCgroupMounts();
  if (cgroupRoot === '/' || !mounts.known) return null;
  const memory = openMemory(mounts.value, cgroupRoot);
  const ofPids = openPids(mounts.value, cgroupRoot);
  const limits = { memory: memory.limit(), pids: ofPids.max() };
  memory.close();
  ofPids.close();
  return { memoryBytes: capacityWithin(limits.memory, memoryBytes), pids: capacityWithin(limits.pids, pids) };
}

function capacityWithin(limit: Reading<number | null>, ofMachine: number | null): number | null {
  if (!limit.known) return null;
  return limit.value === null || ofMachine === null ? ofMachine : Math.min(limit.value, ofMachine);
}
