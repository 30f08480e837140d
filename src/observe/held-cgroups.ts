import type { Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { type HeldCgroup, holdCgroup } from '../host/cgroupfs.ts';
import { maxOpenFiles } from '../host/open-files.ts';
import type { CgroupRef } from '../ports.ts';

type HeldCgroups = {
  /** Unknown also when it cannot be opened: `absent` when it is gone or another one has its path. */
  readonly read: <T>(ref: CgroupRef, ask: (held: HeldCgroup) => Reading<T>) => Reading<T>;
  /** Closes what was not read since the last call. */
  readonly sweep: () => void;
  readonly close: () => void;
};

/** Those of their files that are read have a page of the kernel's. */
const MAX_HELD = 4_096;
/** By cgroup version. */
const DESCRIPTORS_EACH = { 1: 3, 2: 5 };
/** Of all the descriptors that this process may have. */
const SHARE_OF_FILES = 0.5;

/**
 * Cgroups of pods and containers; they are held, since a look that asks is followed by others. Beyond a bound a cgroup
 * is opened and closed for each reading. `openFiles`: how many descriptors this process may have.
 */
export function createHeldCgroups(mounts: CgroupMounts, openFiles = maxOpenFiles()): HeldCgroups {
  const maxHeld = Math.min(MAX_HELD, Math.floor((SHARE_OF_FILES * openFiles) / DESCRIPTORS_EACH[mounts.version]));
  const held = new Map<number, { readonly path: string; readonly cgroup: HeldCgroup; isUsed: boolean }>();
  const forget = (inode: number): void => {
    held.get(inode)?.cgroup.close();
    held.delete(inode);
  };
  return {
    read: (ref, ask) => {
      const found = held.get(ref.inode);
      if (found?.path === ref.path) {
        const answer = ask(found.cgroup);
        found.isUsed = true;
        // What failed is opened again next time.
        if (!answer.known) forget(ref.inode);
        return answer;
      }
      const opened = holdCgroup(mounts, ref);
      if (!opened.known) return opened;
      const answer = ask(opened.value);
      forget(ref.inode);
      if (answer.known && held.size < maxHeld)
        held.set(ref.inode, { path: ref.path, cgroup: opened.value, isUsed: true });
      else opened.value.close();
      return answer;
    },
    sweep: () => {
      for (const [inode, entry] of held) {
        if (!entry.isUsed) forget(inode);
        entry.isUsed = false;
      }
    },
    close: () => {
      for (const { cgroup } of held.values()) cgroup.close();
      held.clear();
    },
  };
}
