import { describe, expect, it } from 'vitest';
import { sayAbout, sayAgo, sayAmount, sayFor, sayShort, sayWhen } from '../../src/page/say.ts';

describe('durations in words', () => {
  it.each([
    [0, '0 seconds'],
    [400, '0.4 seconds'],
    [1_000, '1 second'],
    [12_400, '12 seconds'],
    [60_000, '1 minute'],
    [250_000, '4 minutes 10 seconds'],
    [3_600_000, '1 hour'],
    [3_605_000, '1 hour'],
    [7_500_000, '2 hours 5 minutes'],
    [90_000_000, '1 day 1 hour'],
  ])('%d ms', (ms, said) => {
    expect(sayFor(ms)).toBe(said);
  });
  it('are no more exact than a forecast', () => {
    expect([1_000, 33_000, 251_000, 3_500_000].map(sayAbout)).toEqual([
      'a few seconds',
      'about 35 seconds',
      'about 4 minutes',
      'about 58 minutes',
    ]);
  });
  it('are ago', () => {
    expect([1_999, 59_000, 150_000, 7_300_000].map(sayAgo)).toEqual([
      'just now',
      '59 seconds ago',
      '2 minutes ago',
      '2 hours ago',
    ]);
  });
});

describe('amounts', () => {
  it('have the unit of their signal', () => {
    expect(sayAmount('memory.available', 96 * 2 ** 20)).toBe('96 MiB');
    expect(sayAmount('nodefs.inodesFree', 1_234_567)).toBe('1,234,567 inodes');
    expect(sayAmount('memory.stallFree', 5_500)).toBe('5.5 seconds');
    expect(sayShort('nodefs.inodesFree', 16_777_216)).toBe('16.8M');
  });
});

describe('times', () => {
  const noon = new Date(2026, 10, 26, 12, 3, 21).getTime();
  it('are local, with their zone, and the day if it is not today', () => {
    expect(sayWhen(noon, noon)).toMatch(/^12:03:21 [A-Z]/);
    expect(sayWhen(noon, noon + 86_400_000)).toMatch(/^26 Nov 12:03:21 [A-Z]/);
  });
});
