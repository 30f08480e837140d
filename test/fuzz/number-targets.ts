import { join } from 'node:path';
import { parseDuration, sayDuration, sayNanoseconds } from '../../src/core/units/duration.ts';
import { parseFloat32 } from '../../src/core/units/float32.ts';
import {
  bytesUp,
  decimalOf,
  isLess,
  parseQuantity,
  type Quantity,
  sayQuantity,
} from '../../src/core/units/quantity.ts';
import { quantityText } from '../../src/record/scenarios/scenario-pod.ts';
import type { Chance } from './chance.ts';
import { linesOf } from './corpus.ts';
import { must, same, sentence } from './oracle.ts';
import { type Example, example, type Target, type Workplace } from './target.ts';
import { NUMBERS } from './token.ts';

/** The recorded inputs of one kind, and what somebody once wrote. */
const recorded =
  (kind: string, ...more: readonly string[]) =>
  ({ root }: Workplace): readonly Example[] => {
    const lines = linesOf(join(root, 'test/conformance/config.jsonl.gz'), 100_000);
    const cases: readonly { readonly case: string; readonly input: unknown }[] = lines.map((line) => JSON.parse(line));
    const inputs = cases.filter((one) => one.case === kind).map(({ input }) => String(input));
    return [...inputs, ...more].map((text) => example(text));
  };

function digits(chance: Chance): string {
  const length = chance.pick([0, 1, 1, 2, 3, 5, 9, 16, 19, 20, 40, 60, 99]);
  const digit = (): string => (chance.isOneIn(3) ? chance.pick(['0', '9']) : String(chance.below(10)));
  return Array.from({ length }, digit).join('');
}

function decimal(chance: Chance): string {
  if (chance.isOneIn(12)) return chance.pick(NUMBERS);
  const fraction = chance.isOneIn(2) ? '' : `.${digits(chance)}`;
  return chance.pick(['', '', '', '+', '-']) + digits(chance) + fraction;
}

const SUFFIXES = [
  '',
  'n',
  'u',
  'm',
  'k',
  'M',
  'G',
  'T',
  'P',
  'E',
  'Ki',
  'Mi',
  'Gi',
  'Ti',
  'Pi',
  'Ei',
  'K',
  'mi',
  'e',
] as const;

function exponent(chance: Chance): string {
  const size = chance.pick([3, 20, 60, 400, 1_100]);
  return chance.pick(['e', 'E', 'p']) + chance.pick(['', '+', '-', '--']) + chance.below(size);
}

const quantities: Target = {
  name: 'quantity',
  syntax: 'text',
  examples: recorded('quantity', '64Mi', '1.5Gi'),
  generate: (chance) => decimal(chance) + (chance.isOneIn(3) ? exponent(chance) : chance.pick(SUFFIXES)),
  open: () => (input) => {
    const text = input.toString();
    const parsed = parseQuantity(text);
    if (!parsed.ok) {
      sentence(parsed.text, 'a refused quantity');
      return false;
    }
    const { quantity } = parsed;
    must(/^-?\d{1,48}$/.test(quantity.nanos), 'a quantity without its digits', () => quantity.nanos);
    must(Number.isSafeInteger(bytesUp(quantity)), 'a quantity that is no byte count', () => text);
    isLess(0, quantity);
    again(decimalOf(quantity), quantity, 'decimalOf', text);
    again(quantityText(quantity), quantity, 'quantityText', text);
    again(quantityText({ ...quantity, text: null }), quantity, 'quantityText of a computed amount', text);
    // What the kubelet prints above 999E has no suffix; repeated, not repaired (kubelet-eviction.md 2.6).
    if (BigInt(quantity.nanos) < 10n ** 30n && BigInt(quantity.nanos) > -(10n ** 30n)) {
      again(sayQuantity(quantity), quantity, 'sayQuantity', text);
      again(sayQuantity({ ...quantity, text: null }), quantity, 'sayQuantity of a computed amount', text);
    }
    return true;
  },
};

/** What was printed is the same amount again. */
function again(said: string, { nanos }: Quantity, by: string, from: string): void {
  const parsed = parseQuantity(said);
  must(parsed.ok, `${by} prints what cannot be read`, () => `${from} -> ${said}`);
  if (parsed.ok) must(parsed.quantity.nanos === nanos, `${by} prints another amount`, () => `${from} -> ${said}`);
}

const UNITS = ['ns', 'us', 'µs', 'μs', 'ms', 's', 'm', 'h', 'd', '', 'S'] as const;

const durations: Target = {
  name: 'duration',
  syntax: 'text',
  examples: recorded('duration', '1m30s'),
  generate: (chance) => {
    const terms = Array.from({ length: chance.pick([1, 1, 2, 3, 6]) }, () => decimal(chance) + chance.pick(UNITS));
    return terms.join('');
  },
  open: () => (input) => {
    const text = input.toString();
    const parsed = parseDuration(text);
    if (!parsed.ok) {
      sentence(parsed.text.replaceAll(/[\u007f-\uffff]/g, '?'), 'a refused duration');
      return false;
    }
    const { nanoseconds, ms } = parsed.duration;
    must(/^-?\d{1,19}$/.test(nanoseconds), 'a duration without its digits', () => nanoseconds);
    must(Number.isFinite(ms), 'a duration that is no number', () => text);
    const said = parseDuration(sayNanoseconds(nanoseconds));
    must(said.ok && said.duration.nanoseconds === nanoseconds, 'a duration is printed as another', () => text);
    must(
      parseDuration(sayDuration(ms)).ok || Math.abs(ms) > 9.2e15,
      'sayDuration prints what cannot be read',
      () => text,
    );
    return true;
  },
};

const percentages: Target = {
  name: 'float32',
  syntax: 'text',
  examples: ({ root }) =>
    recorded(
      'threshold',
      '10',
      '33.3',
      '0x1.8p3',
      '1_0',
      'NaN',
      '-Inf',
    )({ root, scratch: '' }).map(({ body }) => example(body.toString().replace(/%$/, ''))),
  generate: (chance) => {
    const hex = Array.from({ length: chance.below(20) }, () => chance.pick(['0', '1', '8', 'f', 'A', '.', '_'])).join(
      '',
    );
    if (chance.isOneIn(4)) return `0x${hex}p${chance.pick(['', '-', '+'])}${chance.below(300)}`;
    return decimal(chance) + (chance.isOneIn(3) ? exponent(chance) : '');
  },
  open: () => (input) => {
    const text = input.toString();
    const parsed = parseFloat32(text);
    if (!parsed.ok) {
      sentence(parsed.text.replaceAll(/[\u007f-\uffff]/g, '?'), 'a refused percentage');
      return false;
    }
    const { value } = parsed;
    must(Object.is(Math.fround(value), value), 'a float32 that is none', () => `${text} -> ${value}`);
    must(Number.isFinite(value) || /^[+-]?(nan|inf)/i.test(text), 'a number without an end', () => text);
    if (Number.isFinite(value)) {
      const said = parseFloat32(String(value));
      same(said.ok ? said.value : said.text, value, 'a float32 is read back as another');
    }
    return true;
  },
};

export const NUMBER_TARGETS: readonly Target[] = [quantities, durations, percentages];
