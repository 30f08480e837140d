import type { Reading } from '../core/reading.ts';
import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';

/** Why the agent is not healthy. `memory`: as the last sample has it; null: there was none. */
export function notSampledYet(memory: Reading<unknown> | null): string {
  return `memory was not sampled yet${whyUnknown(memory)}`;
}
export function notSampling(agoMs: number, mostApartMs: number, memory: Reading<unknown> | null): string {
  const seconds = Math.floor(agoMs / 1_000);
  return `memory was last sampled ${seconds} s ago, and is due every ${sayDuration(mostApartMs)} at the latest${whyUnknown(memory)}`;
}

function whyUnknown(memory: Reading<unknown> | null): string {
  return memory === null || memory.known ? '' : `: ${escapeUnsafe(`${memory.where}: ${memory.detail}`)}`;
}
