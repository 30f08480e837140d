import { describe, expect, it } from 'vitest';
import {
  type MemoryFacts,
  type RefaultHistory,
  reclaimableBytes,
  refaultRate,
  refaultsAfter,
} from '../../../src/core/eviction/reclaimable.ts';

const MIB = 2 ** 20;
const idle: MemoryFacts = {
  capacityBytes: 1_000 * MIB,
  anonBytes: 0,
  shmemBytes: 0,
  freeSwapBytes: 0,
  unevictableBytes: 0,
  kernelBytes: 0,
  slabReclaimableBytes: 0,
  dirtyBytes: 0,
  writebackBytes: 0,
  hugetlbPoolBytes: 0,
  reserveBytes: 0,
  fileBytes: 0,
  activeFileBytes: 0,
  inactiveFileBytes: 0,
  protectedFileBytes: 0,
  refaultBytesPerSecond: null,
};
const available = (facts: Partial<MemoryFacts>): number => reclaimableBytes({ ...idle, ...facts }) / MIB;

describe('reclaimable memory', () => {
  it.each([
    ['on an idle node all of it is available', {}, 1_000],
    ['anonymous and shared memory cannot be freed without swap', { anonBytes: 300 * MIB, shmemBytes: 50 * MIB }, 650],
    ['what fits into free swap can be freed', { anonBytes: 300 * MIB, freeSwapBytes: 100 * MIB }, 800],
    ['more free swap than there is to swap adds nothing', { anonBytes: 300 * MIB, freeSwapBytes: 900 * MIB }, 1_000],
    ['kernel memory counts, except reclaimable slab', { kernelBytes: 100 * MIB, slabReclaimableBytes: 60 * MIB }, 960],
    ['more reclaimable slab than kernel memory adds nothing', { slabReclaimableBytes: 60 * MIB }, 1_000],
    ['dirty and writeback pages must be written first', { dirtyBytes: 10 * MIB, writebackBytes: 5 * MIB }, 985],
    [
      'the hugetlb pool and the reserve of the zones are never free',
      { hugetlbPoolBytes: 512 * MIB, reserveBytes: MIB },
      487,
    ],
    [
      'locked anonymous memory cannot be freed, and counts once',
      { anonBytes: 300 * MIB, unevictableBytes: 200 * MIB },
      700,
    ],
    [
      'free swap does not change that',
      { anonBytes: 300 * MIB, unevictableBytes: 200 * MIB, freeSwapBytes: 900 * MIB },
      800,
    ],
    [
      'locked files beside anonymous memory cannot be freed either',
      { anonBytes: 300 * MIB, unevictableBytes: 200 * MIB, ...cache(500, 100, 200) },
      500,
    ],
    [
      'of the cache, neither shared memory nor pages on a list count as locked',
      { anonBytes: 300 * MIB, shmemBytes: 50 * MIB, unevictableBytes: 250 * MIB, ...cache(550, 100, 200) },
      450,
    ],
    [
      'cache pages that move between the lists do not count as locked',
      { unevictableBytes: 0, ...cache(500, 290, 200) },
      1_000,
    ],
    ['page cache counts as available', { activeFileBytes: 900 * MIB }, 1_000],
    ['a cache is not in use if 1% a second is read again', rate(100, 1), 1_000],
    ['a cache is in use if more than that is read again', rate(100, 1.01), 900],
    ['the result may be negative', { anonBytes: 1_100 * MIB }, -100],
  ])('%s', (_name, facts, expected) => {
    expect(available(facts)).toBeCloseTo(expected, 6);
  });
});

function cache(fileMib: number, activeMib: number, inactiveMib: number): Partial<MemoryFacts> {
  return { fileBytes: fileMib * MIB, activeFileBytes: activeMib * MIB, inactiveFileBytes: inactiveMib * MIB };
}

function rate(activeMib: number, percent: number): Partial<MemoryFacts> {
  return { activeFileBytes: activeMib * MIB, refaultBytesPerSecond: (activeMib * MIB * percent) / 100 };
}

describe('the refault rate', () => {
  it('is unknown until 10 s have been observed', () => {
    let history: RefaultHistory = [];
    for (let second = 0; second < 10; second++) history = refaultsAfter(history, second * 1_000, second * MIB);
    expect(refaultRate(history)).toBeNull();
    expect(refaultRate(refaultsAfter(history, 10_000, 10 * MIB))).toBe(MIB);
  });

  it('forgets what was before the last 10 s, and keeps 12 entries at most', () => {
    let history: RefaultHistory = [];
    for (let ms = 0; ms <= 100_000; ms += 100)
      history = refaultsAfter(history, ms, ms < 80_000 ? ms * 1_000 : 80_000_000);
    expect(refaultRate(history)).toBe(0);
    expect(history.length).toBeLessThanOrEqual(12);
  });

  it('is computed over the last two looks if those are 10 s apart or more', () => {
    const history = refaultsAfter(refaultsAfter(refaultsAfter([], 0, 0), 12_000, 0), 24_000, 24 * MIB);
    expect(refaultRate(history)).toBe(2 * MIB);
  });

  it('counts the last 10 s and nothing before them', () => {
    let history: RefaultHistory = [];
    for (let second = 0; second <= 11; second++) history = refaultsAfter(history, second * 1_000, second < 1 ? 0 : MIB);
    expect(refaultRate(history)).toBe(0);
  });

  it('takes one reading a second at most', () => {
    const first = refaultsAfter([], 1_000, 5);
    expect([1_000, 1_999].map((atMs) => refaultsAfter(first, atMs, 6))).toEqual([first, first]);
    expect(refaultsAfter(first, 2_000, 6)).toHaveLength(2);
  });

  it('starts again if the counter or the clock falls', () => {
    const history = refaultsAfter(refaultsAfter([], 0, 100), 20_000, 50);
    expect(history).toEqual([{ atMs: 20_000, bytes: 50 }]);
    expect([refaultRate(history), refaultRate([])]).toEqual([null, null]);
    expect(refaultsAfter(history, 19_000, 60)).toEqual([{ atMs: 19_000, bytes: 60 }]);
  });
});
