import { type FsLayout, fileSystemOf, realFileSystem, SIGNAL_FACTS, type Signal } from '../signal.ts';
import { bytesUp, isLess } from '../units/quantity.ts';
import type { MetThreshold } from './threshold.ts';

/** D3: one proven kill at a time for each of these. None waits for another. */
export const SHORTAGES = ['memory', 'pids', 'nodefs', 'imagefs'] as const;
export type Shortage = (typeof SHORTAGES)[number];

/** Roles on the same file system share one shortage (kubelet-eviction.md 1.2.8). */
export function shortageOf(signal: Signal, layout: FsLayout): Shortage {
  const role = fileSystemOf(signal);
  if (role !== null) return realFileSystem(role, layout);
  return SIGNAL_FACTS[signal].unit === 'pids' ? 'pids' : 'memory';
}

/** The least by which the signal would have to rise: to its limit or, while only the min reclaim holds the threshold, above that. */
export const lackingOf = ({ limit, target, available }: MetThreshold): number =>
  bytesUp(isLess(available, limit) ? limit : target) - available;

/** Why a pod is chosen; `lacking`: by how much the signal would have to rise. */
export type Shortfall = {
  readonly signal: Signal;
  readonly isHard: boolean;
  readonly lacking: number;
  /** Less than half of what the threshold keeps free is available. */
  readonly isUrgent?: true;
  /** No threshold is met. */
  readonly isAhead?: true;
};

export function shortfallOf(threshold: MetThreshold): Shortfall {
  const { signal, isHard, limit, available } = threshold;
  const isUrgent = 2 * available < bytesUp(limit);
  return { signal, isHard, lacking: lackingOf(threshold), ...(isUrgent ? { isUrgent } : {}) };
}
