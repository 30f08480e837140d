import type { Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { type HeldCgroup, holdCgroup } from '../host/cgroupfs.ts';
import { createOpenCgroups } from '../host/open-cgroups.ts';
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
  const kept = createOpenCgroups<HeldCgroup>((cgroup) => cgroup.close());
  return {
    read: (ref, ask) => {
      const found = kept.find(ref);
      if (found !== null) {
        const answer = ask(found);
        // What failed is opened again next time.
        if (!answer.known) kept.forget(ref);
        return answer;
      }
      const opened = holdCgroup(mounts, ref);
      if (!opened.known) return opened;
      const answer = ask(opened.value);
      kept.forget(ref);
      if (answer.known && kept.size() < maxHeld) kept.put(ref, opened.value);
      else opened.value.close();
      return answer;
    },
    sweep: kept.sweep,
    close: kept.close,
  };
}
