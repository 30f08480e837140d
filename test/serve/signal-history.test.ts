import { describe, expect, it } from 'vitest';
import { createSignalHistory } from '../../src/serve/signal-history.ts';
import { anObservation } from '../a.ts';
import { aClock } from '../kube/a-clock.ts';

const CAPACITY = 1_000;
const AHEAD_MS = 1_700_000_000_000;
const clock = { ...aClock(), monoMs: () => 0, wallMs: () => AHEAD_MS };

function historyOf(samples: readonly (readonly [atMs: number, available: number | null])[]) {
  const history = createSignalHistory(clock);
  for (const [atMs, available] of samples) {
    history.seen(
      anObservation(atMs, available === null ? {} : { 'memory.available': { available, capacity: CAPACITY } }),
    );
  }
  return history;
}

describe('the hour of signals', () => {
  it('keeps the lowest amount of each step, however short it was', () => {
    const { atWallMs, lowest, stepMs } = historyOf([
      [1_000, 500],
      [2_000, 90],
      [3_000, 480],
      [11_000, 470],
    ]).answer();
    expect(stepMs).toBe(10_000);
    expect(atWallMs.map((at) => at - AHEAD_MS)).toEqual([1_000, 11_000]);
    expect(lowest['memory.available']).toEqual([90, 470]);
  });

  it('distinguishes unknown from zero, and leaves out signals that were never known', () => {
    const { lowest } = historyOf([
      [0, null],
      [10_000, 0],
      [20_000, null],
      [21_000, 7],
    ]).answer();
    expect(lowest['memory.available']).toEqual([null, 0, 7]);
    expect(Object.keys(lowest)).not.toContain('swap.available');
  });

  it('keeps the last hour', () => {
    const samples = Array.from({ length: 1_000 }, (_, i) => [i * 10_000, i] as const);
    const { atWallMs, lowest } = historyOf(samples).answer();
    expect(atWallMs).toHaveLength(360);
    expect([lowest['memory.available']?.[0], lowest['memory.available']?.at(-1)]).toEqual([640, 999]);
    expect((atWallMs.at(-1) ?? 0) - (atWallMs[0] ?? 0)).toBe(3_590_000);
  });

  it('starts over after it was forgotten', () => {
    const history = historyOf([[0, 1]]);
    history.forget();
    expect(history.answer().atWallMs).toEqual([]);
  });
});
