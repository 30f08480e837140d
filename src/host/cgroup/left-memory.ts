import { known, type Reading } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { shmemIn } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { inCgroup } from './cgroup-walk.ts';
import { anonBytes, isPopulated } from './cgroupfs.ts';
import { CHARGED_LEAST_BYTES } from './escaped.ts';

/** `ownBytes`: anonymous memory. Each 0 if it is little. */
export type LeftMemory = { readonly sharedBytes: number; readonly ownBytes: number };
const NOTHING = known<LeftMemory>({ sharedBytes: 0, ownBytes: 0 });

/**
 * What stays charged to a cgroup that has no process: files in a tmpfs and shared memory, and what processes have that left it.
 */
export function leftIn(mounts: CgroupMounts, ref: CgroupRef): Reading<LeftMemory> {
  const shared = inCgroup(mounts, ref, (directory) => shmemIn(mounts, directory));
  const own = shared.known ? anonBytes(mounts, ref) : shared;
  if (!shared.known) return shared;
  if (!own.known) return own;
  const worth = (bytes: number): number => (bytes >= CHARGED_LEAST_BYTES ? bytes : 0);
  return known({ sharedBytes: worth(shared.value), ownBytes: worth(own.value) });
}

/** Nothing if it has processes, or is gone. */
export function leftMemory(mounts: CgroupMounts, ref: CgroupRef): Reading<LeftMemory> {
  const left = leftIn(mounts, ref);
  if (!left.known) return left.why === 'absent' ? NOTHING : left;
  if (left.value.sharedBytes + left.value.ownBytes === 0) return NOTHING;
  const populated = isPopulated(mounts, ref);
  if (!populated.known) return populated.why === 'absent' ? NOTHING : populated;
  return populated.value ? NOTHING : left;
}
