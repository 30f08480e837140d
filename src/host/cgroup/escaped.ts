import type { HeldOutside } from '../../core/observation.ts';
import { unknown } from '../../core/reading.ts';
import type { EscapedFrom } from '../../core/state/state.ts';
import type { CgroupRef } from '../../ports.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { swapBytes } from './cgroup-swap.ts';
import { anonBytes, isPopulated, unreaped } from './cgroupfs.ts';

/** Less than this may stay charged to a cgroup without processes: kernels before 5.13 count per processor, and not exactly. */
export const CHARGED_LEAST_BYTES = 16 * 1024 * 1024;

/** Anonymous memory that is charged to a cgroup without processes: others hold it. 0: nothing worth mentioning, or unknown. */
export function chargedBytes(mounts: CgroupMounts, ref: CgroupRef): number {
  const populated = isPopulated(mounts, ref);
  const anon = populated.known && !populated.value ? anonBytes(mounts, ref) : unknown('not-asked', ref.path, 'in use');
  return anon.known && anon.value >= CHARGED_LEAST_BYTES ? anon.value : 0;
}

/** `isUnreaped`: all that it may hold are process IDs, by its dead. */
export function heldOutside(
  mounts: CgroupMounts,
  { cgroup, isUnreaped }: Pick<EscapedFrom, 'cgroup' | 'isUnreaped'>,
): Omit<HeldOutside, 'of'> {
  if (isUnreaped) return { memoryBytes: 0, processIds: unreaped(mounts, cgroup) };
  const memoryBytes = chargedBytes(mounts, cgroup);
  const swapped = memoryBytes === 0 ? null : swapBytes(mounts, cgroup);
  return { memoryBytes, processIds: 0, ...(swapped?.known && swapped.value > 0 ? { swapBytes: swapped.value } : {}) };
}
