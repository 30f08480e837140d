import { accessSync, constants } from 'node:fs';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';

/** Whether this machine lets us make cgroups with limits: what the real demo needs. */
export const isBoundedCgroupPossible = ((): boolean => {
  const mounts = findCgroupMounts();
  if (process.getuid?.() !== 0 || !mounts.known) return false;
  try {
    accessSync(mounts.value.memory, constants.W_OK);
    return mounts.value.version === 2 || mounts.value.pids !== null;
  } catch {
    return false;
  }
})();
