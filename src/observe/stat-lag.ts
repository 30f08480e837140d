import type { MonoMs } from '../core/reading.ts';

/** Rounding, and what the kernel has not yet summed on each processor. */
const SLACK_BYTES = 8 * 2 ** 20;
/** The kernel sums everything every 2 s: a difference that lasts longer has another cause. */
const SUMMED_MS = 3_000;
const PAUSE_MS = 3_000;
const PACE_MS = 10;
/** A share of some 5 % of a core, at 50 µs for each cgroup. */
const PACE_PER_CGROUP_MS = 1;

/** At each reading: `missingBytes` of the usage are in none of the figures of memory.stat. */
export type StatLag = (atMs: MonoMs, missingBytes: number) => void;

/**
 * Notices that memory.stat lags behind the usage, which is exact, and calls `sum` (sumStats), which resolves to how many cgroups it read.
 * What the usage counts and memory.stat never names (memory of sockets) is no lag.
 */
export function createStatLag(sum: () => Promise<number>): StatLag {
  let neverNamed = 0;
  let laggingSinceMs: MonoMs | null = null;
  let lastMs = Number.NEGATIVE_INFINITY;
  let nextMs = Number.NEGATIVE_INFINITY;
  let isSumming = false;
  return (atMs, missingBytes) => {
    if (atMs - lastMs > PAUSE_MS) laggingSinceMs = null;
    lastMs = atMs;
    if (Math.abs(missingBytes - neverNamed) < SLACK_BYTES) {
      laggingSinceMs = null;
      return;
    }
    laggingSinceMs ??= atMs;
    if (atMs - laggingSinceMs > SUMMED_MS) {
      neverNamed = missingBytes;
      laggingSinceMs = null;
      return;
    }
    if (isSumming || atMs < nextMs) return;
    isSumming = true;
    void sum().then((cgroups) => {
      isSumming = false;
      nextMs = atMs + PACE_MS + cgroups * PACE_PER_CGROUP_MS;
    });
  };
}
