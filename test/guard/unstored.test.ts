import { beforeEach, describe, expect, it } from 'vitest';
import { createUnstored, type UnstoredRecord } from '../../src/guard/unstored.ts';
import { aFencing, aRecord } from '../core/guard/a-turn.ts';

const ID = 'w1-1';
const REFUSED: UnstoredRecord = { id: ID, node: 'w1', why: '403' };
let nowMs: number;
let told: number;
let shown: readonly UnstoredRecord[];
beforeEach(() => {
  [nowMs, told, shown] = [0, 0, []];
});
function refusedTwice() {
  const unstored = createUnstored({
    clock: { monoMs: () => nowMs },
    tell: () => {
      told += 1;
    },
    unstored: (records) => {
      shown = records;
    },
  });
  unstored.failed(REFUSED);
  unstored.failed(REFUSED);
  expect(shown).toMatchObject([REFUSED]);
  return unstored;
}
const fencings = (failedMs: number | null) => new Map([[ID, aFencing(aRecord({ id: ID }), { failedMs })]]);

describe('a record that cannot be stored', () => {
  it('is told once a minute', () => {
    const { failed } = refusedTwice();
    for (nowMs = 1_000; nowMs <= 120_000; nowMs += 1_000) failed(REFUSED);
    expect(told).toBe(3);
  });
  it('is shown for as long as its next step is wanted', () => {
    const { looked } = refusedTwice();
    nowMs = 300_000;
    looked({ fencings: fencings(1) });
    expect(shown).toHaveLength(1);
    // Its write had been done, and only the answer was lost.
    looked({ fencings: fencings(null) });
    expect(shown).toEqual([]);
  });
  it('and one that was never stored for as long as it is decided anew', () => {
    const { looked } = refusedTwice();
    nowMs = 30_000;
    looked({ fencings: new Map() });
    expect(shown).toHaveLength(1);
    nowMs += 1;
    looked({ fencings: new Map() });
    expect(shown).toEqual([]);
  });
  it('is not shown by a guard that does not lead, or in dry run', () => {
    refusedTwice().looked(null);
    expect(shown).toEqual([]);
  });
});
