import { known, type Reading } from '../core/reading.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { sleep } from '../host/clock.ts';
import type { CgroupRef, Clock } from '../ports.ts';

/** B12: what a memory-backed volume holds comes back with its unmount, which is waited for so long. */
const UNMOUNT_MS = 30_000;
const UNMOUNT_POLL_MS = 100;
const MOSTLY = 0.5;

/** What is charged to the pod now. */
export function chargedBytes(mounts: CgroupMounts, pod: Reading<CgroupRef>): Reading<number> {
  if (!pod.known) return pod;
  const use = once(mounts, pod.value, (memory) => memory.read());
  return use.known ? known(use.value.usageBytes) : use;
}

/** What came back since; all of it where the cgroup is gone. */
export function releasedSince(mounts: CgroupMounts, pod: Reading<CgroupRef>, before: Reading<number>): Reading<number> {
  if (!before.known) return before;
  const after = chargedBytes(mounts, pod);
  if (after.known) return known(Math.max(0, before.value - after.value));
  return after.why === 'absent' ? before : after;
}

/**
 * Waits for the kubelet to unmount the memory volumes of a dead pod, if they are most of what it holds: until then its end
 * has not given back what it took (B12, ii).
 */
export async function untilUnmounted(clock: Clock, mounts: CgroupMounts, pod: Reading<CgroupRef>): Promise<void> {
  if (!pod.known) return;
  const shmemBytes = (): number => {
    const stat = once(mounts, pod.value, (memory) => memory.stat());
    return stat.known && stat.value.shmemBytes.known ? stat.value.shmemBytes.value : 0;
  };
  const charged = chargedBytes(mounts, pod);
  const held = shmemBytes();
  if (!charged.known || held < charged.value * MOSTLY) return;
  const endsMs = clock.monoMs() + UNMOUNT_MS;
  while (shmemBytes() > held * (1 - MOSTLY) && clock.monoMs() < endsMs) await sleep(clock, UNMOUNT_POLL_MS);
}

function once<T>(mounts: CgroupMounts, { path }: CgroupRef, read: (memory: CgroupMemory) => T): T {
  const memory = openMemory(mounts, path);
  try {
    return read(memory);
  } finally {
    memory.close();
  }
}
