import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  addQuantity,
  bytesUp,
  compareQuantity,
  isLess,
  parseQuantity,
  type Quantity,
  sayQuantity,
} from '../../../src/core/units/quantity.ts';

/** Amounts below 10^21: above that the kubelet's own print loses the suffix, which is repeated here. */
const digits = fc.bigInt({ min: 0n, max: 10n ** 12n - 1n });
const suffix = fc.constantFrom('', 'n', 'u', 'm', 'k', 'M', 'G', 'Ki', 'Mi', 'Gi', 'Ti', 'e3', 'E-2', 'e+6');
const text = fc
  .tuple(fc.constantFrom('', '+', '-'), digits, fc.option(fc.nat(999_999)), suffix)
  .map(([sign, whole, fraction, of]) => `${sign}${whole}${fraction === null ? '' : `.${fraction}`}${of}`);

const quantity = text.map((written): Quantity => {
  const parsed = parseQuantity(written);
  if (!parsed.ok) throw new Error(`${written}: ${parsed.text}`);
  return parsed.quantity;
});
const nanosOf = ({ nanos }: Quantity): bigint => BigInt(nanos);

describe('quantities', () => {
  it('are the same amount when printed and parsed again', () => {
    fc.assert(
      fc.property(quantity, (amount) => {
        for (const printed of [sayQuantity(amount), sayQuantity({ ...amount, text: null })]) {
          const again = parseQuantity(printed);
          expect(again.ok ? again.quantity.nanos : again.text).toBe(amount.nanos);
        }
      }),
    );
  });

  it('are ordered like their amounts', () => {
    fc.assert(
      fc.property(quantity, quantity, (a, b) => {
        const order = nanosOf(a) < nanosOf(b) ? -1 : nanosOf(a) > nanosOf(b) ? 1 : 0;
        expect(compareQuantity(a, b)).toBe(order);
        expect(compareQuantity(b, a)).toBe(order === 0 ? 0 : -order);
      }),
    );
  });

  it('add up exactly, in any order', () => {
    fc.assert(
      fc.property(quantity, quantity, quantity, (a, b, c) => {
        const sum = addQuantity(addQuantity(a, b), c);
        expect(nanosOf(sum)).toBe(nanosOf(a) + nanosOf(b) + nanosOf(c));
        expect(addQuantity(a, addQuantity(b, c)).nanos).toBe(sum.nanos);
      }),
    );
  });

  it('compare with a whole number as exactly as two quantities', () => {
    fc.assert(
      fc.property(quantity, fc.maxSafeInteger(), fc.integer({ min: -2, max: 2 }), (amount, far, near) => {
        for (const whole of [far, bytesUp(amount) + near]) {
          if (!Number.isSafeInteger(whole)) continue;
          expect(isLess(whole, amount)).toBe(BigInt(whole) * 10n ** 9n < nanosOf(amount));
        }
      }),
    );
  });

  it('are parsed or refused, whatever the text', () => {
    const hostile = fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'+-.0123456789eEinumkKMGTP%') }));
    fc.assert(
      fc.property(hostile, (written) => {
        const parsed = parseQuantity(written);
        if (parsed.ok) expect(parsed.quantity.nanos).toMatch(/^-?[0-9]{1,48}$/);
        else expect(parsed.text).not.toBe('');
      }),
      { numRuns: 2_000 },
    );
  });
});
