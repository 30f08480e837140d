import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDuration, sayDuration, sayNanoseconds } from '../../../src/core/units/duration.ts';

function nanoseconds(text: string): string {
  const parsed = parseDuration(text);
  return parsed.ok ? parsed.duration.nanoseconds : parsed.text;
}

describe('parseDuration', () => {
  it.each([
    ['1m30s', '90000000000', '1m30s'],
    ['1.5h', '5400000000000', '1h30m0s'],
    ['1h1h', '7200000000000', '2h0m0s'],
    ['.5s', '500000000', '500ms'],
    ['1.s', '1000000000', '1s'],
    ['100us', '100000', '100\u00b5s'],
    ['100\u03bcs', '100000', '100\u00b5s'],
    ['0.9999999999s', '999999999', '999.999999ms'],
    ['-5s', '-5000000000', '-5s'],
    ['0', '0', '0s'],
    ['-0', '0', '0s'],
    ['2562047h47m16.854775807s', '9223372036854775807', '2562047h47m16.854775807s'],
    ['-9223372036854775808ns', '-9223372036854775808', '-2562047h47m16.854775808s'],
  ])('reads %s as %s ns and prints it as %s', (text, nanos, said) => {
    expect([nanoseconds(text), sayNanoseconds(nanoseconds(text))]).toEqual([nanos, said]);
  });

  it.each([
    ['90', 'time: missing unit in duration "90"'],
    ['1d', 'time: unknown unit "d" in duration "1d"'],
    ['5 s', 'time: unknown unit " s" in duration "5 s"'],
    ['1S', 'time: unknown unit "S" in duration "1S"'],
    ['', 'time: invalid duration ""'],
    ['.s', 'time: invalid duration ".s"'],
    ['2562048h', 'time: invalid duration "2562048h"'],
    ['9223372036854775808ns', 'time: invalid duration "9223372036854775808ns"'],
    ['99999999999999999999s', 'time: invalid duration "99999999999999999999s"'],
    ['1constructor', 'time: unknown unit "constructor" in duration "1constructor"'],
  ])("refuses %s in Go's words", (text, said) => {
    expect(nanoseconds(text)).toBe(said);
  });

  it('gives milliseconds that tell a nanosecond from nothing', () => {
    const parsed = parseDuration('1ns');
    expect(parsed.ok && parsed.duration.ms).toBe(1e-6);
  });
});

describe('sayDuration', () => {
  it.each([
    [90_000, '1m30s'],
    [0, '0s'],
    [0.1, '100\u00b5s'],
    [-5_000, '-5s'],
    [59_999.999_999_9, '1m0s'],
  ])('says %d ms as %s', (ms, said) => {
    expect(sayDuration(ms)).toBe(said);
  });
});

describe('durations', () => {
  const INT64 = 2n ** 63n;

  it('printed and read again are the same, to the nanosecond', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -INT64, max: INT64 - 1n }), (nanos) => {
        expect(nanoseconds(sayNanoseconds(`${nanos}`))).toBe(`${nanos}`);
      }),
    );
  });

  it('add up from their terms', () => {
    const factors = { ns: 1n, us: 1_000n, ms: 1_000_000n, s: 10n ** 9n, m: 60n * 10n ** 9n, h: 3600n * 10n ** 9n };
    const term = fc.tuple(fc.nat(1_000_000), fc.constantFrom(...(['ns', 'us', 'ms', 's', 'm', 'h'] as const)));
    fc.assert(
      fc.property(fc.array(term, { minLength: 1, maxLength: 2 }), (terms) => {
        const sum = terms.reduce((total, [count, unit]) => total + BigInt(count) * factors[unit], 0n);
        expect(nanoseconds(terms.map(([count, unit]) => `${count}${unit}`).join(''))).toBe(`${sum}`);
      }),
    );
  });

  it('are read or refused, whatever the text', () => {
    const hostile = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'+-.0123456789nusmh\u00b5') }));
    fc.assert(
      fc.property(hostile, (text) => {
        const parsed = parseDuration(text);
        if (parsed.ok) expect(parsed.duration.nanoseconds).toMatch(/^(0|-?[1-9][0-9]{0,18})$/);
        else expect(parsed.text).not.toBe('');
      }),
      { numRuns: 2_000 },
    );
  });
});
