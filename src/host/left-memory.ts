import { known, type Reading } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import { shmemIn } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { inCgroup } from './cgroup-walk.ts';
import { isPopulated } from './cgroupfs.ts';

/**
 * Files in a tmpfs and shared memory stay charged to the cgroup whose processes filled them, also once it has none. Known 0: it
 * has processes, or is gone.
 */
export function leftBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  const left = inCgroup(mounts, ref, (directory) => shmemIn(mounts, directory));
  if (!left.known) return left.why === 'absent' ? known(0) : left;
  if (left.value === 0) return left;
  const populated = isPopulated(mounts, ref);
  if (!populated.known) return populated.why === 'absent' ? known(0) : populated;
  return populated.value ? known(0) : left;
}
