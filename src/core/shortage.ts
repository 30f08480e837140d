import type { FsLayout, Signal } from './signal.ts';
import { isMemory } from './threshold.ts';

/** D3: what there is one proven kill at a time for. None of them waits for another. */
export type Shortage = 'memory' | 'pids' | 'nodefs' | 'imagefs';
export const SHORTAGES: readonly Shortage[] = ['memory', 'pids', 'nodefs', 'imagefs'];

/** File systems that are one are one shortage (kubelet-eviction.md 1.2.8). */
export function shortageOf(signal: Signal, layout: FsLayout): Shortage {
  if (isMemory(signal)) return 'memory';
  if (signal === 'pid.available') return 'pids';
  switch (layout) {
    case 'nodefs-only':
      return 'nodefs';
    case 'imagefs-separate':
      return signal.startsWith('nodefs') ? 'nodefs' : 'imagefs';
    case 'containerfs-separate':
      return signal.startsWith('imagefs') ? 'imagefs' : 'nodefs';
  }
}
