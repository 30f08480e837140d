import { describe, expect, it } from 'vitest';
import { crossesInMs, type Point, trendOf } from '../../src/page/forecast.ts';

const NOW_MS = 1_000_000;
/** One every 2 s up to now. */
const points = (...amounts: readonly number[]): readonly Point[] =>
  amounts.map((amount, i) => ({ atMs: NOW_MS - (amounts.length - 1 - i) * 2_000, amount }));
const trend = (...amounts: readonly number[]) => trendOf(points(...amounts), NOW_MS);

describe('the trend of an amount', () => {
  it('falls at this rate per second, whatever a single sample says', () => {
    expect(trend(100, 98, 96, 94, 92, 90)).toEqual({ kind: 'falling', perSecond: -1 });
    expect(trend(100, 98, 96, 40, 92, 90, 88, 86)).toEqual({ kind: 'falling', perSecond: -1 });
  });
  it('rises', () => {
    expect(trend(10, 20, 30, 40, 50)).toEqual({ kind: 'rising', perSecond: 5 });
  });
  it.each([
    ['nothing moves', [50, 50, 50, 50, 50]],
    ['it goes up and down', [50, 52, 49, 51, 50, 52, 49, 51, 50]],
  ])('is steady if %s', (_, amounts) => {
    expect(trend(...amounts)).toEqual({ kind: 'steady' });
  });
  it('is unknown from few samples, or a short time', () => {
    expect(trend(100, 90, 80)).toEqual({ kind: 'too-few' });
    const close = [100, 90, 80, 70].map((amount, i) => ({ atMs: NOW_MS - 400 + i * 100, amount }));
    expect(trendOf(close, NOW_MS)).toEqual({ kind: 'too-few' });
  });
  it('counts only what follows a release of memory', () => {
    expect(trend(100, 90, 80, 70, 60, 300, 299, 298, 297, 296, 295)).toEqual({ kind: 'falling', perSecond: -0.5 });
  });
  it('counts only the last minute', () => {
    const old = { atMs: NOW_MS - 61_000, amount: 5_000 };
    expect(trendOf([old, ...points(50, 50, 50, 50, 50)], NOW_MS)).toEqual({ kind: 'steady' });
  });
});

describe('when a threshold is reached', () => {
  const falling = { kind: 'falling', perSecond: -2 } as const;
  it.each([
    [100, 40, falling, 30_000],
    // Beyond an hour, met already, or not falling: nobody can say.
    [100_000, 40, falling, null],
    [40, 40, falling, null],
    [100, 40, { kind: 'rising', perSecond: 2 } as const, null],
    [100, 40, { kind: 'steady' } as const, null],
  ])('from %d to %d', (amount, limit, of, ms) => {
    expect(crossesInMs(amount, limit, of)).toBe(ms);
  });
});
