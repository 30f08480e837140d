import type { MonoMs } from '../reading.ts';
import type { Announcement } from './node-facts.ts';
import type { NodeMemory } from './state.ts';

/** A cordon that is older than this says nothing about the silence of now (guard.md 10). */
export const FRESH_CORDON_MS = 30 * 60_000;

/** What says that its silence is intended; null: nothing. A cordon of unknown age counts as fresh. */
export function plannedBy({ announced, cordonedMs }: NodeMemory, atMs: MonoMs): Announcement | 'cordon' | null {
  if (announced !== null) return announced;
  return cordonedMs === null || isOldCordon(cordonedMs, atMs) ? null : 'cordon';
}

/** Whether it says nothing about a silence at that time any more. */
export const isOldCordon = (cordonedMs: MonoMs | null, atMs: MonoMs): boolean =>
  cordonedMs !== null && atMs - cordonedMs >= FRESH_CORDON_MS;

/** Announced, and not yet silent for longer than such a shutdown may take. */
export function isPlanned(memory: NodeMemory, ageMs: number, atMs: MonoMs, plannedWaitMs: number): boolean {
  return ageMs < plannedWaitMs && plannedBy(memory, atMs) !== null;
}

/** Asked to be left alone, and the time it asked for is not over. */
export function isSkipped({ facts, skippedMs }: NodeMemory, atMs: MonoMs): boolean {
  return atMs - (skippedMs ?? atMs) < (facts.skipMs ?? 0);
}
