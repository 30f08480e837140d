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
    ['1e-999', '0.000000001', '1e-9'],
    ['1.0000000001', '1.000000001', '1000000001n'],
    ['1.5000000000', '1.5', '1500m'],
    ['-1.0000000001', '-1.000000001', '-1000000001n'],
    ['-0.5', '-0.5', '-500m'],
    ['-1n', '-0.000000001', '-1n'],
    ['-0.5Ki', '-512', '-512'],
    ['-1.5Ki', '-1536', '-1536'],
    ['-2Ki', '-2048', '-2Ki'],
    ['7u', '0.000007', '7u'],
    ['70m', '0.07', '70m'],
    ['5k', '5000', '5k'],
    ['5G', '5000000000', '5G'],
    ['5T', '5000000000000', '5T'],
    ['5P', '5000000000000000', '5P'],
    ['1000E', '1000000000000000000000', '1'],
    ['8Ki', '8192', '8Ki'],
    ['8Ti', '8796093022208', '8Ti'],
    ['8Pi', '9007199254740992', '8Pi'],
    ['2Ei', '2305843009213693952', '2Ei'],
    ['8Ei', '9223372036854775807', '9223372036854775807'],
    ['15e2', '1500', '1500'],
    ['1000e0', '1000', '1e3'],
    ['0e5', '0', '0'],
    // What went through the fast path of the kubelet and looks canonical to it is repeated as it was written.
    ['1.500', '1.5', '1.500'],
    ['1.000', '1', '1'],
    ['1.5', '1.5', '1500m'],
    ['+0.500', '0.5', '500m'],
    ['+1001Ki', '1025024', '+1001Ki'],
    ['+1000Ki', '1024000', '1000Ki'],
    ['+12345678901Ki', '12641975194624', '+12345678901Ki'],
    ['+123456789012Ki', '126419751948288', '123456789012Ki'],
    ['+12345678Mi', '12945381654528', '+12345678Mi'],
    ['+123456789Mi', '129453825982464', '123456789Mi'],
    ['+123456789012345678', '123456789012345678', '+123456789012345678'],
    ['+1234567890123456789', '1234567890123456789', '1234567890123456789'],
    ['+123456789n', '0.123456789', '+123456789n'],
    ['+1.234567u', '0.000001235', '1235n'],
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

  it('refuses exponents that would expand to thousands of digits', () => {
    expect(mistake('1e31')).toBe('the exponent must be from -999 to 30, not 31');
    expect(mistake('1e99999999999')).toBe('the exponent must be from -999 to 30, not 99999999999');
    expect(mistake('1e-1000')).toBe('the exponent must be from -999 to 30, not -1000');
    expect(mistake('1e30')).toBeNull();
  });

  it('refuses more digits than an amount can have', () => {
    expect(mistake('9'.repeat(60))).toMatch(/too large/);
    expect([39, 40].map((digits) => mistake('9'.repeat(digits)))).toEqual([null, 'too large: it must be below 10^39']);
    expect(mistake('1'.padStart(100, '0'))).toBeNull();
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
    // Less than one of a binary unit is decimal.
    expect(sayQuantity(addQuantity(quantity('0.00048828125Ki'), quantity('1023.5')))).toBe('1024');
  });

  it('prints a sum in canonical form, even if nothing was added', () => {
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

  it.each([
    ['1n', 1],
    ['1000000001n', 2],
    ['-1n', 0],
    ['-1000000001n', -1],
    ['9007199254740992', Number.MAX_SAFE_INTEGER],
    ['-100E', -Number.MAX_SAFE_INTEGER],
  ])('treats %s as %d bytes', (text, bytes) => {
    expect(bytesUp(quantity(text))).toBe(bytes);
  });

  it.each([
    [1_023, 'binary', '1023'],
    [1_024, 'binary', '1Ki'],
    [-1_023, 'binary', '-1023'],
    [-1_024, 'binary', '-1Ki'],
    [1_536, 'binary', '1536'],
    [2_097_152, 'binary', '2Mi'],
    [1_024, 'decimal', '1024'],
    [2_000, 'decimal', '2k'],
    [1.9, 'binary', '1'],
    [-1.9, 'binary', '-1'],
    [2 ** 63 - 1_024, 'binary', '9007199254740991Ki'],
    [2 ** 63, 'binary', '-8Ei'],
    [Number.POSITIVE_INFINITY, 'binary', '-8Ei'],
  ] as const)('prints %d measured, %s, as %s', (amount, format, printed) => {
    expect(sayQuantity(quantityOfBytes(amount, format))).toBe(printed);
  });

  it('keeps fractions of a byte when an available amount is compared with a threshold', () => {
    expect(isLess(1181116006, quantity('1.1Gi'))).toBe(true);
    expect(isLess(1181116007, quantity('1.1Gi'))).toBe(false);
    expect(isLess(-1, quantity('-0.5'))).toBe(true);
    expect(isLess(0, quantity('-0.5'))).toBe(false);
    expect(isLess(Number.MAX_SAFE_INTEGER, quantity('9007199254740991'))).toBe(false);
    expect(isLess(Number.MAX_SAFE_INTEGER, quantity('9007199254740991.5'))).toBe(true);
  });

  it("turns what is not an int64 into the lowest one, like the kubelet's arithmetic", () => {
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
    [-1, '-1 B'],
    [1024, '1 KiB'],
    [1590, '1.5 KiB'],
    [7 * 1024 ** 3, '7 GiB'],
    [5 * 1024 ** 5, '5 PiB'],
    [1024 ** 6, '1024 PiB'],
    [3 * 1024 ** 4, '3 TiB'],
  ])('says %d as %s', (bytes, said) => {
    expect(sayBytes(bytes)).toBe(said);
  });

  it('never prints an amount just below a limit as the limit', () => {
    expect(sayBytes(100 * 1024 ** 2 - 1)).toBe('99.9 MiB');
  });
});
