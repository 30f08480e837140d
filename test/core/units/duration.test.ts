import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDuration, sayDuration, sayNanoseconds, sayTenths } from '../../../src/core/units/duration.ts';

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
    ['+5s', '5000000000', '5s'],
    ['+0', '0', '0s'],
    ['5.6s', '5600000000', '5.6s'],
    ['1.004s', '1004000000', '1.004s'],
    ['1.0040s', '1004000000', '1.004s'],
    ['100.00100s', '100001000000', '1m40.001s'],
    ['11\u00b5s', '11000', '11\u00b5s'],
    ['-2m3.4s', '-123400000000', '-2m3.4s'],
    ['1h2m3s4ms5us6ns', '3723004005006', '1h2m3.004005006s'],
    ['39h9m14.425s', '140954425000000', '39h9m14.425s'],
    ['1ns', '1', '1ns'],
    ['999ns', '999', '999ns'],
    ['1001ns', '1001', '1.001\u00b5s'],
    ['999999ns', '999999', '999.999\u00b5s'],
    ['1000001ns', '1000001', '1.000001ms'],
    ['60s', '60000000000', '1m0s'],
    ['59m', '3540000000000', '59m0s'],
    ['60m', '3600000000000', '1h0m0s'],
    ['52763797000ns', '52763797000', '52.763797s'],
    // Go's own table: what its arithmetic makes of many digits.
    ['0.3333333333333333333h', '1200000000000', '20m0s'],
    ['0.100000000000000000000h', '360000000000', '6m0s'],
    ['0.830103483285477580700h', '2988372539827', '49m48.372539827s'],
    ['0.9223372036854775807s', '922337203', '922.337203ms'],
    ['0.9223372036854775809s', '922337203', '922.337203ms'],
    ['0.00799729899499999999399h', '28790276381', '28.790276381s'],
    ['0.9992999899999999909m', '59957999399', '59.957999399s'],
    ['9007199254740993ns', '9007199254740993', '2501h59m59.254740993s'],
    ['9007199254.740993ms', '9007199254740993', '2501h59m59.254740993s'],
    ['9223372036854775807ns', '9223372036854775807', '2562047h47m16.854775807s'],
    ['9223372036854775.807us', '9223372036854775807', '2562047h47m16.854775807s'],
    ['9223372036s854ms775us807ns', '9223372036854775807', '2562047h47m16.854775807s'],
    ['-9223372036854775.808us', '-9223372036854775808', '-2562047h47m16.854775808s'],
    ['-9223372036s854ms775us808ns', '-9223372036854775808', '-2562047h47m16.854775808s'],
    ['00000000000000000000000009223372036s', '9223372036000000000', '2562047h47m16s'],
    ['0.999999999s', '999999999', '999.999999ms'],
    ['1us', '1000', '1\u00b5s'],
    ['1ms', '1000000', '1ms'],
    ['-0s', '0', '0s'],
    ['0.5s0.5s', '1000000000', '1s'],
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
    ['1.5.5s', 'time: missing unit in duration "1.5.5s"'],
    ['1h-1m', 'time: unknown unit "h-" in duration "1h-1m"'],
    ['1s2', 'time: missing unit in duration "1s2"'],
    ['00', 'time: missing unit in duration "00"'],
    ['1s1x', 'time: unknown unit "x" in duration "1s1x"'],
    [`${'0'.repeat(200)}s`, 'longer than 200 characters'],
    ['1constructor', 'time: unknown unit "constructor" in duration "1constructor"'],
  ])("refuses %s in Go's words", (text, said) => {
    expect(nanoseconds(text)).toBe(said);
  });

  it.each([
    ...['+', '-', '.', '-.', '.h', '1s.', '--1s', '3000000h', '9223372036854775.808us', '9223372036854ms775us808ns'],
    ...['9223372037s', '-9223372037s', '-9223372036854775809ns', '153722868m', '2562047h48m', '10000000000000000000ns'],
    ...['10000000000000000us', '10000000000000ms', '-10000000000s', '9223372036s1s', '99999999999999999999ns'],
  ])('refuses %s, which has no number or one that is too large', (text) => {
    expect(nanoseconds(text)).toBe(`time: invalid duration "${text}"`);
  });

  it('reads a text of 200 characters', () => {
    expect(nanoseconds(`${'0'.repeat(198)}1s`)).toBe('1000000000');
  });

  it('gives milliseconds that distinguish a nanosecond from nothing', () => {
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
    [86_400_000_000.5, '24000h0m0.0005s'],
    [-1e-9, '0s'],
  ])('says %d ms as %s', (ms, said) => {
    expect(sayDuration(ms)).toBe(said);
  });
});

describe('sayTenths', () => {
  it.each([
    [1_249, '1.2s'],
    [1_250, '1.3s'],
    [49, '0s'],
    [60_040, '1m0s'],
  ])('says %d ms as %s', (ms, said) => {
    expect(sayTenths(ms)).toBe(said);
  });
});

describe('durations', () => {
  const INT64 = 2n ** 63n;

  it('are the same to the nanosecond when printed and parsed again', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -INT64, max: INT64 - 1n }), (nanos) => {
        expect(nanoseconds(sayNanoseconds(`${nanos}`))).toBe(`${nanos}`);
      }),
    );
  });

  it('are the sum of their terms', () => {
    const factors = { ns: 1n, us: 1_000n, ms: 1_000_000n, s: 10n ** 9n, m: 60n * 10n ** 9n, h: 3600n * 10n ** 9n };
    const term = fc.tuple(fc.nat(1_000_000), fc.constantFrom(...(['ns', 'us', 'ms', 's', 'm', 'h'] as const)));
    fc.assert(
      fc.property(fc.array(term, { minLength: 1, maxLength: 2 }), (terms) => {
        const sum = terms.reduce((total, [count, unit]) => total + BigInt(count) * factors[unit], 0n);
        expect(nanoseconds(terms.map(([count, unit]) => `${count}${unit}`).join(''))).toBe(`${sum}`);
      }),
    );
  });

  it('are parsed or refused, whatever the text', () => {
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
