import fc from 'fast-check';
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
    ['+1.25', 1.25],
    ['-7', -7],
    ['125E-2', 1.25],
    ['1.25e+0_3', 1250],
    ['1_0.2_5', 10.25],
    ['.2_5', 0.25],
    ['1.25e0', 1.25],
    ['nAn', Number.NaN],
    ['+inf', Number.POSITIVE_INFINITY],
    ['-INF', Number.NEGATIVE_INFINITY],
    ['infinity', Number.POSITIVE_INFINITY],
    ['+0x1p4', 16],
    ['0x_1_0p0', 16],
    ['0x10.4p0', 16.25],
    ['0x1.p0', 1],
    ['0x.4_0p0', 0.25],
    ['0x1.4_0p0', 1.25],
    ['0xAbP0', 171],
    ['0x1p1_0', 1024],
    ['0x1p+3', 8],
    ['0x0p0', 0],
    ['0x00000000000000000000001p0', 1],
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

  it('rounds once, however the text is written: up above the middle, down below it, to the even neighbour on it', () => {
    const mantissa = fc.integer({ min: 2 ** 23, max: 2 ** 24 - 1 });
    const spelling = fc.record({ sign: fc.constantFrom('', '+', '-'), zeros: fc.nat(3), point: fc.nat(60) });
    fc.assert(
      fc.property(mantissa, fc.integer({ min: -40, max: 40 }), spelling, (at, exponent, how) => {
        // (2 at + 1) * 2^(exponent - 1), exactly, as digits * 10^-places.
        const middle = 2n * BigInt(at) + 1n;
        const places = Math.max(0, 1 - exponent);
        const digits = exponent >= 1 ? middle << BigInt(exponent - 1) : middle * 5n ** BigInt(places);
        const sign = how.sign === '-' ? -1 : 1;
        const [lower, upper] = [sign * at * 2 ** exponent, sign * (at + 1) * 2 ** exponent];
        const read = (number: bigint, more: number) => float(spelled(`${number}`, places + more, how));
        expect(read(digits, 0)).toBe(at % 2 === 0 ? lower : upper);
        expect(read(digits * 10n ** 9n + 1n, 9)).toBe(upper);
        expect(read(digits * 10n ** 9n - 1n, 9)).toBe(lower);
      }),
    );
  });

  it('rounds hexadecimal once, too, even if the deciding digit is far behind', () => {
    expect(float(`0x1000001.${'0'.repeat(40)}1p0`)).toBe(16777218);
    expect(float(`0x1000001.${'0'.repeat(40)}ap0`)).toBe(16777218);
    expect(float(`0x1000001.${'0'.repeat(41)}p0`)).toBe(16777216);
    expect(float('-0x1000001.00000000001p0')).toBe(-16777218);
    expect(float(`0x1${'0'.repeat(40)}p-160`)).toBe(1);
    expect(float(`0x.${'0'.repeat(40)}1p164`)).toBe(1);
    expect(float('0x100000_1.8p0')).toBe(16777218);
  });

  it('handles the smallest floats and what rounds to zero', () => {
    expect(float('0x1p-149')).toBe(2 ** -149);
    expect(float('0x1p-150')).toBe(0);
    expect(float('0x1.8p-150')).toBe(2 ** -149);
    expect(float('0x1p-99999')).toBe(0);
    expect(float('1e-45')).toBe(2 ** -149);
    expect(float('7e-46')).toBe(0);
  });

  it.each([
    ...['', ' 10', '10 ', '1__0', '_1', '1_', '0x1', '0x', '1e', '+nan', '--1', 'abc', '1,5'],
    ...[
      '.',
      '+',
      'e5',
      '.e5',
      '1.5.5',
      '1e+',
      '1e_1',
      '1e1_',
      '1._5',
      '1_.5',
      '._5',
      '.5_',
      '.5__0',
      '1.5__0',
      '1e1__0',
    ],
    ...['x10', '10x', 'xnan', 'nanx', 'xinf', 'infx', 'infinit', '1inf'],
    ...[
      '0x1.8',
      '0x1p',
      '0x1p+',
      '0x1p_1',
      '0x1p1_',
      '0x__1p0',
      '0x1__0p0',
      '0x1.1__0p0',
      '0x.1__0p0',
      '0x.p0',
      '0x_.1p0',
    ],
    ...['y0x1p0', '0x1p0y', '1p3', '0xg.1p0'],
  ])('refuses "%s"', (text) => {
    expect(float(text)).toBe(`strconv.ParseFloat: parsing ${JSON.stringify(text)}: invalid syntax`);
  });

  it('accepts what is nearer to the largest float than to the next one, which does not exist', () => {
    const largest = 2 ** 128 - 2 ** 104;
    // The middle of the two is 340282356779733661637539395458142568448.
    expect(float('340282356779733661637539395458142568447.9')).toBe(largest);
    expect(float('-3.40282356779733661637539395458142568447e38')).toBe(-largest);
    expect(float('0x1.fffffefffffffp127')).toBe(largest);
    for (const text of ['340282356779733661637539395458142568448', '0x1.ffffffp127']) {
      expect(float(text)).toBe(`strconv.ParseFloat: parsing "${text}": value out of range`);
    }
  });

  it('accepts a zero with any exponent', () => {
    expect(['0e99999', '0x0p99999', '0x.0p-99999'].map(float)).toEqual([0, 0, 0]);
  });

  it('refuses what is not a 32-bit float', () => {
    expect(float('1e39')).toBe('strconv.ParseFloat: parsing "1e39": value out of range');
    expect(float('-0x1p128')).toBe('strconv.ParseFloat: parsing "-0x1p128": value out of range');
    expect(float('0x1p99999')).toBe('strconv.ParseFloat: parsing "0x1p99999": value out of range');
    expect(float('1'.repeat(101))).toBe('longer than 100 characters');
    expect(float(`1${'_0'.repeat(9)}.${'0'.repeat(80)}`)).toBe(1e9);
  });
});

/** `digits` * 10^-places with the point anywhere among the digits, and an exponent where one is needed. */
function spelled(
  digits: string,
  places: number,
  { sign, zeros, point }: { readonly sign: string; readonly zeros: number; readonly point: number },
): string {
  const whole = digits.slice(0, point);
  const fraction = digits.slice(point);
  const exponent = fraction.length - places;
  const written = `${sign}${'0'.repeat(zeros)}${whole}${fraction === '' ? '' : `.${fraction}`}`;
  return exponent === 0 ? written : `${written}e${exponent}`;
}
