import { type FsLayout, fileSystemOf, realFileSystem, SIGNAL_FACTS, type Signal } from '../signal.ts';
import { bytesUp } from '../units/quantity.ts';
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

/** The least by which the signal would have to rise. */
export const lackingOf = ({ limit, available }: MetThreshold): number => bytesUp(limit) - available;

/** Why a pod is chosen; `lacking`: by how much the signal would have to rise. */
export type Shortfall = {
  readonly signal: Signal;
  readonly isHard: boolean;
  readonly lacking: number;
  /** No threshold is met. */
  readonly isAhead?: true;
};

export function shortfallOf(threshold: MetThreshold): Shortfall {
  const { signal, isHard } = threshold;
  return { signal, isHard, lacking: lackingOf(threshold) };
}
