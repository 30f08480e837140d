import { usageBytes } from '../act/released-memory.ts';
import { UNMOUNT_MS } from '../core/eviction/under-way.ts';
import { openMemory } from '../host/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { sleep } from '../host/clock.ts';
import type { CgroupRef, Clock } from '../ports.ts';

const UNMOUNT_POLL_MS = 100;
const MOSTLY = 0.5;

/**
 * Waits for the kubelet to unmount the memory volumes of a dead pod, if they are most of what it holds: only then is its
 * memory freed (B12, ii). `begins` is called if it has to wait.
 */
export async function untilUnmounted(
  { clock, mounts }: { readonly clock: Clock; readonly mounts: CgroupMounts },
  pod: CgroupRef,
  begins: () => void,
): Promise<void> {
  const shmemBytes = (): number => {
    const memory = openMemory(mounts, pod.path);
    const stat = memory.stat();
    memory.close();
    return stat.known && stat.value.shmemBytes.known ? stat.value.shmemBytes.value : 0;
  };
  const charged = usageBytes(mounts, pod);
  const held = shmemBytes();
  if (!charged.known || held < charged.value * MOSTLY) return;
  begins();
  const endsMs = clock.monoMs() + UNMOUNT_MS;
  let [before, now] = [held, held];
  // Until it is mostly gone, and no more goes.
  while ((now > held * (1 - MOSTLY) || now < before) && clock.monoMs() < endsMs) {
    await sleep(clock, UNMOUNT_POLL_MS);
    [before, now] = [now, shmemBytes()];
  }
}
