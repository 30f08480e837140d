import { type Reading, unknown } from '../core/reading.ts';
import { openMemory } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { NUMBER_BYTES, parseCount, readKernelFile } from './kernel-file.ts';

export type CgroupUse = {
  readonly workingSetBytes: Reading<number>;
  readonly inactiveFileBytes: Reading<number>;
  /**
   * The highest memory charge since it was created, file cache included: `memory.peak` (5.19),
   * `memory.max_usage_in_bytes`.
   */
  readonly peakBytes: Reading<number>;
};

/** For the cgroup that is at `path` below the mount now. */
export function useOf(mounts: CgroupMounts, path: string): CgroupUse {
  const memory = openMemory(mounts, path);
  const read = memory.read();
  memory.close();
  const peakPath = `${mounts.memory}${path}/${mounts.version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak'}`;
  const peak = readKernelFile(peakPath, NUMBER_BYTES);
  return {
    workingSetBytes: read.known ? { known: true, value: read.value.workingSetBytes } : read,
    inactiveFileBytes: read.known ? { known: true, value: read.value.inactiveFileBytes } : read,
    peakBytes: peak.known ? parseCount(peak.value, peakPath) : unknown(peak.why, peakPath, peak.detail),
  };
}
