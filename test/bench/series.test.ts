import { describe, expect, it } from 'vitest';
import { type Breach, barsOf, reactionOf, rowOf, shareInTime } from '../../bench/reaction/series.ts';
import { atLeast, atMost, quantile } from '../../bench/result.ts';

const breach = (reactionMs: number | null, over: Partial<Breach> = {}): Breach => ({
  endedBy: 'peer',
  reactionMs,
  backMs: 100,
  rateMiB: 250,
  isOtherKilled: false,
  ...over,
});
const many = (count: number, reactionMs: number, backMs = 100): readonly Breach[] =>
  Array.from({ length: count }, () => breach(reactionMs, { backMs }));
const judged = (bars: ReturnType<typeof barsOf>): Record<string, boolean | null> =>
  Object.fromEntries(bars.map(({ name, holds }) => [name, holds]));

describe('a quantile', () => {
  it('is one of the values, by nearest rank', () => {
    const values = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect([0, 0.5, 0.99, 1].map((q) => quantile(values, q))).toEqual([1, 50, 99, 100]);
    expect(quantile([7], 0.5)).toBe(7);
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe('a bar', () => {
  it('holds at its limit', () => {
    expect(atMost('a', 5, 5, 'ms')).toEqual({ name: 'a', bar: '<= 5 ms', value: '5 ms', holds: true });
    expect(atMost('a', 5, 5.001, 'ms')).toMatchObject({ value: '5 ms', holds: false });
    expect(atLeast('a', 500, 499.9, 'times')).toMatchObject({ value: '500 times', holds: false });
  });
  it('does not hold if nothing was measured', () => {
    expect(atMost('a', 5, Number.NaN, 'ms')).toMatchObject({ value: 'not measured', holds: null });
    expect(atLeast('a', 5, Number.NaN, 'ms')).toMatchObject({ value: 'not measured', holds: null });
  });
});

describe('a row', () => {
  const row = rowOf('earlyoom', '250', false, [
    breach(3),
    breach(1),
    breach(200, { endedBy: 'kernel' }),
    breach(60_000, { endedBy: 'nobody' }),
    breach(2, { isOtherKilled: true }),
    breach(null, { rateMiB: null }),
    breach(null, { endedBy: 'kernel' }),
  ]);

  it('counts a run as in time if the right pod ended before the kernel killed, and omits runs that never crossed', () => {
    expect(row).toMatchObject({ runs: 6, uncrossed: 1, inTime: 3, kernelKills: 1, otherKills: 1, beforeCrossing: 1 });
    expect(row.rateMiB).toBe(250);
    expect(row.reactionMs).toEqual([1, 3]);
    expect(row.lostMs).toEqual([2, 200, 60_000]);
    expect(shareInTime(row)).toBeCloseTo(1 / 2);
  });
  it('has neither share nor reaction without runs', () => {
    const none = rowOf('earlyoom', '250', false, []);
    expect(shareInTime(none)).toBeNull();
    expect(reactionOf(none, 0.5).ms).toBeNaN();
    expect(none.rateMiB).toBeNull();
  });
  it('counts a lost run with the time that the hog lived, marked as a lower bound', () => {
    const some = rowOf('earlyoom', 'max', false, [...many(3, 50), breach(90, { endedBy: 'kernel' })]);
    expect(reactionOf(some, 0.5)).toEqual({ ms: 50, isAtLeast: false });
    expect(reactionOf(some, 0.99)).toEqual({ ms: 90, isAtLeast: true });
  });
});

describe('the bars of the reaction', () => {
  const rows = [
    rowOf('nodewarden', '250', false, [...many(98, 4, 120), breach(20), breach(30)]),
    rowOf('earlyoom', '250', false, many(100, 21)),
    rowOf('kill at once', '250', false, many(20, 0, 100)),
    rowOf('nodewarden', '250', true, many(10, 8)),
    rowOf('looks each 10 s', '250', true, many(10, 5000)),
  ];

  it('are judged by what was measured', () => {
    expect(judged(barsOf(rows, false, 0.5))).toEqual({
      'crossing to SIGKILL, median, 250 MiB/s': true,
      'crossing to SIGKILL, p99 of 100, 250 MiB/s': true,
      'memory back, median, 250 MiB/s': true,
      'median, 250 MiB/s': true,
      'kills by the kernel, of 110 runs': true,
      'not the right pod, not in time, or before the crossing, of 110 runs': true,
      'a loop of 10 s takes, median, a hog that stays': true,
    });
  });
  it('do not hold if it is worse', () => {
    const worse = [
      rowOf('nodewarden', '250', false, [...many(60, 6, 140), breach(26), breach(9, { endedBy: 'kernel' })]),
      ...rows.slice(1, 3),
      rowOf('nodewarden', '250', true, many(10, 11)),
      ...rows.slice(4),
    ];
    expect(new Set(Object.values(judged(barsOf(worse, false, 0.5))))).toEqual(new Set([false]));
  });
  it.each([
    ['was ended before it crossed', breach(null)],
    ['was killed by the kernel unseen', breach(null, { endedBy: 'kernel' })],
  ])('do not hold if one pod of this agent %s', (_, one) => {
    const ours = rowOf('nodewarden', '250', false, [...many(99, 4), one]);
    const name = 'not the right pod, not in time, or before the crossing, of 100 runs';
    expect(judged(barsOf([ours], false, 0.5))[name]).toBe(false);
  });
  it('only compare on an emulated machine', () => {
    expect(Object.keys(judged(barsOf(rows, true, 0.5)))).not.toContain('crossing to SIGKILL, median, 250 MiB/s');
    expect(judged(barsOf(rows, true, 0.5))).toMatchObject({ 'median, 250 MiB/s': true });
  });
  it('are unknown without a run of this agent', () => {
    expect(judged(barsOf(rows.slice(1, 3), false, 0.5))).toEqual({
      'kills by the kernel, of 0 runs': null,
      'not the right pod, not in time, or before the crossing, of 0 runs': null,
    });
  });
});
