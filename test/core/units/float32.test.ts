import { describe, expect, it } from 'vitest';
import { parseFloat32 } from '../../../src/core/units/float32.ts';

function float(text: string): number | string {
  const parsed = parseFloat32(text);
  return parsed.ok ? parsed.value : parsed.text;
}

describe('parseFloat32', () => {
  it.each([
    ['10', 10],
    ['1e1', 10],
    ['.5', 0.5],
    ['5.', 5],
    ['1_0', 10],
    ['0x1p-1', 0.5],
    ['0X_1.8P1', 3],
    ['-0x.8p0', -0.5],
    ['inf', Number.POSITIVE_INFINITY],
    ['-Infinity', Number.NEGATIVE_INFINITY],
    ['NaN', Number.NaN],
    ['33.3', Math.fround(33.3)],
    ['1e-60', 0],
  ])('reads %s as Go does', (text, value) => {
    expect(float(text)).toEqual(value);
  });

  it('rounds once: a text just beside the middle of two floats goes to its own side', () => {
    // Through 64 bits both become 16777217, the exact middle, and would go to the even neighbour.
    expect(float('16777217.0000000001')).toBe(16777218);
    expect(float('16777218.9999999999')).toBe(16777218);
    expect(float('16777217')).toBe(16777216);
    expect(float('-16777217.0000000001')).toBe(-16777218);
    expect(float('0x1000001.00000000001p0')).toBe(16777218);
    expect(float('0x1000001p0')).toBe(16777216);
  });

  it.each(['', ' 10', '10 ', '1__0', '_1', '1_', '0x1', '0x', '1e', '+nan', '--1', 'abc', '1,5'])(
    'refuses "%s"',
    (text) => {
      expect(float(text)).toBe(`strconv.ParseFloat: parsing ${JSON.stringify(text)}: invalid syntax`);
    },
  );

  it('takes what is nearer to the largest float than to the next one that there is not', () => {
    const largest = 2 ** 128 - 2 ** 104;
    // The middle of the two is 340282356779733661637539395458142568448.
    expect(float('340282356779733661637539395458142568447.9')).toBe(largest);
    expect(float('-3.40282356779733661637539395458142568447e38')).toBe(-largest);
    expect(float('0x1.fffffefffffffp127')).toBe(largest);
    for (const text of ['340282356779733661637539395458142568448', '0x1.ffffffp127']) {
      expect(float(text)).toBe(`strconv.ParseFloat: parsing "${text}": value out of range`);
    }
  });

  it('takes a zero with whatever exponent', () => {
    expect(['0e99999', '0x0p99999', '0x.0p-99999'].map(float)).toEqual([0, 0, 0]);
  });

  it('refuses what is no 32-bit float', () => {
    expect(float('1e39')).toBe('strconv.ParseFloat: parsing "1e39": value out of range');
    expect(float('1'.repeat(101))).toBe('longer than 100 characters');
  });
});
