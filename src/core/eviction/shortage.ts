import { type FsLayout, fileSystemOf, realFileSystem, SIGNAL_FACTS, type Signal } from '../signal.ts';
import { bytesUp } from '../units/quantity.ts';
import type { MetThreshold } from './threshold.ts';

/** D3: what there is one proven kill at a time for. None of them waits for another. */
export const SHORTAGES = ['memory', 'pids', 'nodefs', 'imagefs'] as const;
export type Shortage = (typeof SHORTAGES)[number];

/** File systems that are one are one shortage (kubelet-eviction.md 1.2.8). */
export function shortageOf(signal: Signal, layout: FsLayout): Shortage {
  const role = fileSystemOf(signal);
  if (role !== null) return realFileSystem(role, layout);
  return SIGNAL_FACTS[signal].unit === 'pids' ? 'pids' : 'memory';
}

/** How much more of the signal there would have to be, at least. */
export const lackingOf = ({ limit, available }: MetThreshold): number => bytesUp(limit) - available;
