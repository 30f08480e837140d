import { describe, expect, it } from 'vitest';
import { addQuantity, parseQuantity } from '../../src/core/units/quantity.ts';
import { quantityText } from '../../src/record/scenarios/scenario-pod.ts';

function amount(text: string) {
  const parsed = parseQuantity(text);
  if (!parsed.ok) throw new Error(parsed.text);
  return parsed.quantity;
}

describe('an amount in a recorded scenario', () => {
  it.each([
    ['1Gi', '512Mi', '1536Mi'],
    ['1.1Gi', '0', '1181116006400m'],
    ['1e3', '1', '1001'],
    // The kubelet prints `1` here: it has no suffix above E.
    ['999E', '1E', '1000000000000000000000'],
  ])('is the same when it is read again: %s and %s', (a, b, said) => {
    const sum = addQuantity(amount(a), amount(b));
    expect(quantityText(sum)).toBe(said);
    expect(amount(quantityText(sum)).nanos).toBe(sum.nanos);
  });
});
