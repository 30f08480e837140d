import { describe, expect, it } from 'vitest';
import {
  addQuantity,
  bytesUp,
  compareQuantity,
  decimalOf,
  isLess,
  parseQuantity,
  type Quantity,
  quantityOfBytes,
  sayBytes,
  sayQuantity,
} from '../../../src/core/units/quantity.ts';

function quantity(text: string): Quantity {
  const parsed = parseQuantity(text);
  if (!parsed.ok) throw new Error(`${text}: ${parsed.text}`);
  return parsed.quantity;
}

function mistake(text: string): string | null {
  const parsed = parseQuantity(text);
  return parsed.ok ? null : parsed.text;
}

describe('parseQuantity', () => {
  it.each([
    ['100Mi', '104857600', '100Mi'],
    ['1.5Gi', '1610612736', '1536Mi'],
    ['1.1Gi', '1181116006.4', '1181116006400m'],
    ['1e3', '1000', '1e3'],
    ['1E3', '1000', '1E3'],
    ['1E', '1000000000000000000', '1E'],
    ['12e-1', '1.2', '1200e-3'],
    ['+5', '5', '+5'],
    ['5.', '5', '5.'],
    ['.5Gi', '536870912', '512Mi'],
    ['.125', '0.125', '125m'],
    ['0.5n', '0.000000001', '1n'],
    ['0.1m', '0.0001', '100u'],
    ['0.5Ki', '512', '512'],
    ['0.0001Ki', '0.1024', '102400u'],
    ['9Ei', '9223372036854775807', '9223372036854775807'],
    ['10E', '10000000000000000000', '10E'],
    ['1000Ki', '1024000', '1000Ki'],
    ['1024Ki', '1048576', '1Mi'],
    ['1000000', '1000000', '1M'],
    ['-', '0', '0'],
    ['0Mi', '0', '0'],
    ['+1.500Gi', '1610612736', '1536Mi'],
    ['2E8', '200000000', '200e6'],
    ['200E6', '200000000', '200E6'],
    ['1e-99', '0.000000001', '1e-9'],
  ])('reads %s as %s and prints it as %s', (text, value, printed) => {
    expect([decimalOf(quantity(text)), sayQuantity(quantity(text))]).toEqual([value, printed]);
  });

  it.each(['1K', '1ki', '5mi', '1iK', '1e'])('says that the unit of %s is unknown', (text) => {
    expect(mistake(text)).toBe(`unknown unit ${text.slice(1)}`);
  });

  it.each(['', ' 1Mi', '1Mi ', '10%', '1.2.3', '0x10', '1_000', '100e6M', 'inf'])(
    'says that "%s" is not an amount',
    (text) => {
      expect(mistake(text)).toBe('not an amount');
    },
  );

  it('refuses exponents that would have to be expanded to thousands of digits', () => {
    expect(mistake('1e31')).toBe('the exponent must be from -999 to 30, not 31');
    expect(mistake('1e99999999999')).toBe('the exponent must be from -999 to 30, not 99999999999');
    expect(mistake('1e30')).toBeNull();
  });

  it('refuses more digits than an amount can have', () => {
    expect(mistake('9'.repeat(60))).toMatch(/too large/);
    expect(mistake('1'.repeat(101))).toBe('longer than 100 characters');
  });
});

describe('arithmetic', () => {
  it('is exact where 64-bit floats are not', () => {
    expect(decimalOf(addQuantity(quantity('0.1'), quantity('0.2')))).toBe('0.3');
    expect(compareQuantity(quantity('9007199254740993'), quantity('9007199254740992'))).toBe(1);
  });

  it('compares amounts, not spellings', () => {
    expect(compareQuantity(quantity('1Ki'), quantity('1.024k'))).toBe(0);
    expect(compareQuantity(quantity('-1'), quantity('1n'))).toBe(-1);
  });

  it('gives a sum the format of the first that is not zero', () => {
    expect(sayQuantity(addQuantity(quantity('0'), quantity('1Gi')))).toBe('1Gi');
    expect(sayQuantity(addQuantity(quantity('1024'), quantity('1Ki')))).toBe('2048');
  });

  it('prints a sum in canonical form, also where nothing was added', () => {
    expect(sayQuantity(addQuantity(quantity('+5'), quantity('0')))).toBe('5');
  });

  it('rounds whole bytes up, and saturates', () => {
    expect(['1.1Gi', '0.5', '-0.5', '-1.5', '0', '100E'].map((text) => bytesUp(quantity(text)))).toEqual([
      1181116007,
      1,
      0,
      -1,
      0,
      Number.MAX_SAFE_INTEGER,
    ]);
  });

  it('keeps fractions of a byte when an available amount is compared with a threshold', () => {
    expect(isLess(1181116006, quantity('1.1Gi'))).toBe(true);
    expect(isLess(1181116007, quantity('1.1Gi'))).toBe(false);
    expect(isLess(-1, quantity('-0.5'))).toBe(true);
    expect(isLess(0, quantity('-0.5'))).toBe(false);
    expect(isLess(Number.MAX_SAFE_INTEGER, quantity('9007199254740991'))).toBe(false);
    expect(isLess(Number.MAX_SAFE_INTEGER, quantity('9007199254740991.5'))).toBe(true);
  });

  it("makes of what is no int64 the lowest one, as the kubelet's arithmetic does", () => {
    expect(decimalOf(quantityOfBytes(Number.NaN, 'binary'))).toBe('-9223372036854775808');
    expect(decimalOf(quantityOfBytes(1e30, 'binary'))).toBe('-9223372036854775808');
  });
});

describe('sayBytes', () => {
  it.each([
    [0, '0 B'],
    [1023, '1023 B'],
    [100 * 1024 ** 2, '100 MiB'],
    [96_500_000, '92 MiB'],
    [96_678_000, '92.1 MiB'],
    [-2048, '-2 KiB'],
    [3 * 1024 ** 4, '3 TiB'],
  ])('says %d as %s', (bytes, said) => {
    expect(sayBytes(bytes)).toBe(said);
  });

  it('never says an amount just below a limit as the limit', () => {
    expect(sayBytes(100 * 1024 ** 2 - 1)).toBe('99.9 MiB');
  });
});
