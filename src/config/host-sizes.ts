import type { Psi } from '../core/observation.ts';
import { type Reading, valueOrNull } from '../core/reading.ts';
import { createProcfs, type Meminfo } from '../host/procfs.ts';
import { openFileSystem } from '../host/statfs.ts';
import type { Clock } from '../ports.ts';
import type { Effective } from './effective.ts';
import type { HostSizes } from './margin.ts';

/** What /proc returns immediately. File systems can hang and are added by `withDisks`. */
export function readHostSizes(): HostSizes {
  const procfs = createProcfs();
  const sizes = {
    memoryBytes: valueOrNull(procfs.memTotalBytes()),
    pids: valueOrNull(procfs.pidLimit()),
    swapBytes: valueOrNull(swapTotalOf(procfs.meminfo())),
    hasMemoryPressure: hasPressure(procfs.psi('memory')),
    nodefs: null,
    imagefs: null,
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

/** Adds the file systems of a configuration; one that does not answer stays unknown. */
export async function withDisks(sizes: HostSizes, effective: Effective, clock: Clock): Promise<HostSizes> {
  const sizeOf = async (path: string | null): Promise<HostSizes['nodefs']> => {
    if (path === null) return null;
    const sample = valueOrNull(await openFileSystem(path, clock).sample());
    return sample === null ? null : { bytes: sample.bytesCapacity, inodes: sample.inodes };
  };
  const [nodefs, imagefs] = await Promise.all([sizeOf(effective.nodefsPath), sizeOf(effective.imagefsPath)]);
  return { ...sizes, nodefs, imagefs };
}
