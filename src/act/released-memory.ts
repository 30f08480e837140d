import { known, type Reading, unknown } from '../core/reading.ts';
import { usageIn } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { inCgroup } from '../host/cgroup/cgroup-walk.ts';
import { hasProcesses, whereIs } from '../host/cgroup/cgroupfs.ts';
import type { CgroupRef } from '../ports.ts';

export const NOT_MEASURED = unknown(
  'not-asked',
  'memory of the cgroup',
  'the agent was killed before it could measure that',
);

/** All memory charged to it now. Unknown `absent`: it is gone. */
export function usageBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, whereIs(mounts, ref) ?? ref, (directory) => usageIn(mounts, directory));
}

/** What was freed by a victim that ended while no agent watched: other processes may run in its place. */
export function releasedBy(mounts: CgroupMounts, ref: CgroupRef, before: Reading<number>): Reading<number> {
  if (!hasProcesses(mounts, ref)) return releasedSince(mounts, ref, before);
  return unknown('not-asked', ref.path, 'other processes run in its cgroup');
}

/**
 * What a victim frees, counted from the most that it held since `before`: it may grow in its grace period. `note` reads that
 * now and then.
 */
export type UsageWatch = { readonly note: () => void; readonly released: () => Reading<number> };
/** Of a victim that takes no more. */
export const releasedAs = (released: UsageWatch['released']): UsageWatch => ({ note: () => undefined, released });
export function watchUsage(mounts: CgroupMounts, ref: CgroupRef, before: Reading<number>): UsageWatch {
  let most = before;
  return {
    note: () => {
      const now = usageBytes(mounts, ref);
      if (most.known && now.known && now.value > most.value) most = now;
    },
    released: () => releasedSince(mounts, ref, most),
  };
}

/** What was freed since it held `before`; all of that if the cgroup is gone. */
export function releasedSince(mounts: CgroupMounts, ref: CgroupRef, before: Reading<number>): Reading<number> {
  if (!before.known) return before;
  const after = usageBytes(mounts, ref);
  if (after.known) return known(Math.max(0, before.value - after.value));
  return after.why === 'absent' ? before : after;
}
