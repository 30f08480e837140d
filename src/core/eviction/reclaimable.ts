import type { MonoMs } from '../reading.ts';

/** What product.md section 8 counts, all in bytes. For a bounded cgroup: its own figures, no pool and no reserve. */
export type MemoryFacts = {
  readonly capacityBytes: number;
  readonly anonBytes: number;
  readonly shmemBytes: number;
  readonly freeSwapBytes: number;
  /** Locked pages of all kinds: those of anonymous memory are in `anonBytes` as well. */
  readonly unevictableBytes: number;
  /** All kernel memory, reclaimable slab included. */
  readonly kernelBytes: number;
  readonly slabReclaimableBytes: number;
  readonly dirtyBytes: number;
  readonly writebackBytes: number;
  readonly hugetlbPoolBytes: number;
  readonly reserveBytes: number;
  /** The whole page cache, shared memory included. */
  readonly fileBytes: number;
  readonly activeFileBytes: number;
  readonly inactiveFileBytes: number;
  /** Clean file pages that `memory.min` keeps from being freed. */
  readonly protectedFileBytes: number;
  /** File pages that came back from disk after eviction, per second over 10 s; null = not observed that long yet. */
  readonly refaultBytesPerSecond: number | null;
};

/** If more than this share of active_file is read again each second, those pages are in use. */
const REFAULT_SHARE = 0.01;
const REFAULT_WINDOW_MS = 10_000;
const REFAULT_STEP_MS = 1_000;

/**
 * product.md section 8: capacity less what could not be freed without stopping a process. May be negative. Locked
 * memory is counted once (decision record 0007).
 */
export function reclaimableBytes(facts: MemoryFacts): number {
  const lockedFile = lockedFileBytes(facts);
  const beyondSwap = facts.anonBytes + facts.shmemBytes - facts.freeSwapBytes;
  const pinned = Math.max(beyondSwap, facts.unevictableBytes - lockedFile) + lockedFile;
  const kernel = Math.max(0, facts.kernelBytes - facts.slabReclaimableBytes);
  const rate = facts.refaultBytesPerSecond;
  // Before 10 s of observation, the pages are not known to be in use: the formula's "else 0".
  const activeInUse = rate !== null && rate > facts.activeFileBytes * REFAULT_SHARE ? facts.activeFileBytes : 0;
  return (
    facts.capacityBytes -
    pinned -
    kernel -
    facts.dirtyBytes -
    facts.writebackBytes -
    facts.hugetlbPoolBytes -
    facts.reserveBytes -
    // A page may be both.
    Math.max(activeInUse, Math.min(facts.protectedFileBytes, facts.activeFileBytes + facts.inactiveFileBytes))
  );
}

/** The page cache that is on neither of the lists for reclaim. The counters may differ by some pages. */
function lockedFileBytes(facts: MemoryFacts): number {
  const { fileBytes, shmemBytes, activeFileBytes, inactiveFileBytes, unevictableBytes } = facts;
  return Math.min(Math.max(0, fileBytes - shmemBytes - activeFileBytes - inactiveFileBytes), unevictableBytes);
}

/** A counter of refaulted bytes at times, oldest first; at most 12 entries. */
export type RefaultHistory = readonly { readonly atMs: MonoMs; readonly bytes: number }[];

/** Takes a new reading, at most one a second. A counter that fell belongs to something new: the history begins again. */
export function refaultsAfter(history: RefaultHistory, atMs: MonoMs, bytes: number): RefaultHistory {
  const last = history.at(-1);
  if (last === undefined || bytes < last.bytes || atMs < last.atMs) return [{ atMs, bytes }];
  if (atMs - last.atMs < REFAULT_STEP_MS) return history;
  const next = [...history, { atMs, bytes }];
  // The window begins at the newest entry that is at least 10 s old; older ones are no longer needed.
  const start = next.findLastIndex((entry) => atMs - entry.atMs >= REFAULT_WINDOW_MS);
  return next.slice(Math.max(0, start));
}

/** Bytes per second over the last 10 s (or the pace of looks, if slower); null = not observed that long yet. */
export function refaultRate(history: RefaultHistory): number | null {
  const first = history[0];
  const last = history.at(-1);
  if (first === undefined || last === undefined || last.atMs - first.atMs < REFAULT_WINDOW_MS) return null;
  return ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1_000;
}
