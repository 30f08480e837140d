import { known, type Reading } from '../core/reading.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { openNumberFile } from './kernel-file.ts';

export type CgroupSwap = {
  /** Bytes that the cgroup may still swap out; null = as much as the machine has. */
  readonly freeBytes: () => Reading<number | null>;
  readonly close: () => void;
};

/** Version 1 limits memory and swap together: swapping out changes nothing there, so it sets no bound of its own. */
export function openCgroupSwap(mounts: CgroupMounts, path: string): CgroupSwap {
  if (mounts.version === 1 || path === '/') return { freeBytes: () => known(null), close: () => undefined };
  const max = openNumberFile(`${mounts.memory}${path}/memory.swap.max`);
  const current = openNumberFile(`${mounts.memory}${path}/memory.swap.current`);
  return {
    freeBytes: () => {
      const limit = max.readLimit();
      // A kernel without swap accounting for cgroups.
      if (!limit.known) return limit.why === 'absent' ? known(null) : limit;
      if (limit.value === null) return known(null);
      const used = current.read();
      return used.known ? known(Math.max(0, limit.value - used.value)) : used;
    },
    close: () => {
      max.close();
      current.close();
    },
  };
}
