import type { Psi } from '../core/observation.ts';
import { ifKnown, known, type Reading, valueOrNull } from '../core/reading.ts';
import { limitAbove, memoryLimitOf } from '../host/cgroup/cgroup-memory.ts';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { openPids } from '../host/cgroup/cgroupfs.ts';
import { openFileSystem } from '../host/disk/statfs.ts';
import type { Meminfo } from '../host/memory/meminfo.ts';
import { createProcfs, type Procfs } from '../host/procfs.ts';
import type { Clock } from '../ports.ts';
import type { Effective } from './effective.ts';
import type { BeyondReach, HostSizes, NodeSizes } from './margin.ts';

/** What /proc returns immediately. File systems can hang and are added by `withFileSystems`. */
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
  };
  procfs.close();
  return { ...sizes, node: (cgroupRoot) => nodeSizes(sizes, cgroupRoot) };
}

function swapTotalOf(meminfo: Reading<Meminfo>): Reading<number> {
  return meminfo.known ? meminfo.value.swapTotalBytes : meminfo;
}

function hasPressure(psi: Reading<Psi>): boolean | null {
  return psi.known ? true : psi.why === 'absent' ? false : null;
}

function beyondReachOn(procfs: Procfs): Reading<BeyondReach> {
  return ifKnown(procfs.meminfo(), ({ kernelBytes, slabReclaimableBytes, hugetlbPoolBytes }) =>
    ifKnown(kernelBytes, (named) =>
      ifKnown(slabReclaimableBytes, (reclaimable) =>
        ifKnown(hugetlbPoolBytes, (hugePagesBytes) =>
          ifKnown(procfs.kernelsOwn(), ({ reserveBytes, unnamedBytes }) => {
            const kernel = Math.max(0, named - reclaimable) + unnamedBytes;
            return known({ reserveBytes: reserveBytes.min, kernelBytes: kernel, hugePagesBytes });
          }),
        ),
      ),
    ),
  );
}

/** Adds the file systems of a configuration. One that does not answer stays unknown. */
export async function withFileSystems(sizes: HostSizes, effective: Effective, clock: Clock): Promise<HostSizes> {
  const sizeOf = async (path: string | null): Promise<HostSizes['nodefs']> => {
    if (path === null) return null;
    const sample = valueOrNull(await openFileSystem(path, clock).sample());
    return sample === null ? null : { bytes: sample.bytesCapacity, inodes: sample.inodes };
  };
  const [nodefs, imagefs] = await Promise.all([sizeOf(effective.nodefsPath), sizeOf(effective.imagefsPath)]);
  return { ...sizes, nodefs, imagefs };
}

/** A cgroup with a limit above the machine's capacity, or none, has the machine's (product.md section 4). */
function nodeSizes(
  { memoryBytes, pids }: Pick<HostSizes, 'memoryBytes' | 'pids'>,
  cgroupRoot: string,
): NodeSizes | null {
  const mounts = findCgroupMounts();
  if (!mounts.known) return null;
  const above = limitAbove(mounts.value, cgroupRoot);
  if (cgroupRoot === '/') return { memoryBytes, pids, limitAbove: above };
  const ofPids = openPids(mounts.value, cgroupRoot);
  const limits = { memory: memoryLimitOf(mounts.value, cgroupRoot), pids: ofPids.max() };
  ofPids.close();
  return {
    memoryBytes: capacityWithin(limits.memory, memoryBytes),
    pids: capacityWithin(limits.pids, pids),
    limitAbove: above,
  };
}

function capacityWithin(limit: Reading<number | null>, ofMachine: number | null): number | null {
  if (!limit.known) return null;
  return limit.value === null || ofMachine === null ? ofMachine : Math.min(limit.value, ofMachine);
}
