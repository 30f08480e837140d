import { FRESH_CORDON_MS } from '../core/guard/planned.ts';
import type { MonoMs } from '../core/reading.ts';

/** Until then every node is alive: its guards need so long for their election, and their patrol to ask. */
const LEAD_MS = 300_000;
/** A cordon of the beginning is old by then. */
const OLD_CORDON_LEAD_MS = FRESH_CORDON_MS + LEAD_MS;
/** What has lasted for so long makes no difference any more. */
const LONG_MS = 1_800_000;
/** Beyond the `within` of a burst. */
const APART_MS = 30_000;

/** Which instant of a scenario stands for which one of the guard's clock. */
export type Times = {
  readonly at: (atMs: MonoMs) => string;
  readonly msOf: (atMs: MonoMs) => number;
};

/**
 * From `fromMs` on as it was. What fell silent before, at `onsets`, does so in the same order, and together only if it did:
 * long times in which nothing happened are left out.
 */
export function timesOf(
  onsets: readonly MonoMs[],
  fromMs: MonoMs,
  { withinMs, hasOldCordon }: { readonly withinMs: number; readonly hasOldCordon: boolean },
): Times {
  const before = [...new Set(onsets.filter((atMs) => atMs < fromMs))].toSorted((a, b) => a - b);
  /** What belongs to an onset comes a moment before it. */
  const placed = new Map<MonoMs, number>();
  let ms = hasOldCordon ? OLD_CORDON_LEAD_MS : LEAD_MS;
  for (const [i, atMs] of before.entries()) {
    placed.set(atMs, ms);
    const next = before[i + 1];
    ms += next === undefined ? Math.min(fromMs - atMs, LONG_MS) : Math.min(next - atMs, withinMs + APART_MS);
  }
  const msOf = (atMs: MonoMs): number => {
    const onset = before.find((one) => one >= atMs) ?? fromMs;
    return Math.max(0, (placed.get(onset) ?? ms) + atMs - onset);
  };
  return { msOf, at: (atMs) => `${Math.round(msOf(atMs) / 100) / 10}s` };
}
