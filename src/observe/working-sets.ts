import { known, type Reading } from '../core/reading.ts';
import { type CgroupMemory, type CgroupMounts, openMemory } from '../host/cgroupfs.ts';
import type { CgroupRef } from '../ports.ts';

export type WorkingSets = {
  /** The caller has just made sure that it is still this cgroup. */
  readonly read: (ref: CgroupRef) => Reading<number>;
  /** Closes what was not read since the last call. */
  readonly sweep: () => void;
  readonly close: () => void;
};

/** Two descriptors each. Beyond the bound a cgroup is opened and closed for each reading. */
const MAX_KEPT = 256;

/** Working sets of pods and containers; descriptors are kept, since a look that asks is followed by others. */
export function createWorkingSets(mounts: CgroupMounts): WorkingSets {
  const kept = new Map<string, { readonly memory: CgroupMemory; isUsed: boolean }>();
  return {
    read: (ref) => {
      // With the inode: a new cgroup under an old path is another one.
      const name = `${ref.inode} ${ref.path}`;
      const found = kept.get(name);
      const memory = found?.memory ?? openMemory(mounts, ref.path);
      const use = memory.read();
      if (found !== undefined) found.isUsed = true;
      else if (use.known && kept.size < MAX_KEPT) kept.set(name, { memory, isUsed: true });
      else memory.close();
      return use.known ? known(use.value.workingSetBytes) : use;
    },
    sweep: () => {
      for (const [name, entry] of kept) {
        if (!entry.isUsed) {
          entry.memory.close();
          kept.delete(name);
        }
        entry.isUsed = false;
      }
    },
    close: () => {
      for (const { memory } of kept.values()) memory.close();
      kept.clear();
    },
  };
}
