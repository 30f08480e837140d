import type { Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { type HeldCgroup, holdCgroup } from '../host/cgroup/cgroupfs.ts';
import { createOpenCgroups } from '../host/cgroup/open-cgroups.ts';
import { maxOpenFiles } from '../host/own/open-files.ts';
import type { CgroupRef } from '../ports.ts';

type HeldCgroups = {
  /** Also unknown if it cannot be opened: `absent` if it is gone or another one has its path. */
  readonly read: <T>(ref: CgroupRef, ask: (held: HeldCgroup) => Reading<T>) => Reading<T>;
  /**
   * What is kept must not cost a reading. Closes all of it, and keeps at most half as much from then on; false: there was none.
   */
  readonly yieldFiles: () => boolean;
  /** Closes what was not read since the last call. */
  readonly sweep: () => void;
  readonly close: () => void;
};

/** Each open file that was read holds a page of kernel memory. */
const MAX_HELD = 4_096;
/** By cgroup version. */
const DESCRIPTORS_EACH = { 1: 3, 2: 5 };
/** The share of this process's file descriptors that may be used. */
const SHARE_OF_FILES = 0.5;

/**
 * Cgroups of pods and containers, kept open because one look that reads pods is followed by others. Beyond a limit, a cgroup
 * is opened and closed for each reading. `openFiles`: how many descriptors this process may have.
 */
export function createHeldCgroups(mounts: CgroupMounts, openFiles = maxOpenFiles()): HeldCgroups {
  let maxHeld = Math.min(MAX_HELD, Math.floor((SHARE_OF_FILES * openFiles) / DESCRIPTORS_EACH[mounts.version]));
  const kept = createOpenCgroups<HeldCgroup>((cgroup) => cgroup.close());
  return {
    read: (ref, ask) => {
      const found = kept.find(ref);
      if (found !== null) {
        const answer = ask(found);
        // After a failure, it is opened again next time.
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
    yieldFiles: () => {
      const count = kept.size();
      if (count === 0) return false;
      maxHeld = Math.floor(count / 2);
      kept.close();
      return true;
    },
    sweep: kept.sweep,
    close: kept.close,
  };
}
