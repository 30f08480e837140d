/** Whether a result of the model is what a scenario expects: scenarios.md 4 and shutdown-scenarios.md 4, read once more. */
import { at, entriesOf, type Json, listOf } from './json.ts';

const SETS = ['thresholdsObserved', 'thresholdsMet', 'conditions'];

/** The JSON form of any plain value, with its keys in order, so that equal means equal text. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    one !== null && typeof one === 'object' && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );
}

const same = (a: unknown, b: unknown) => canonical(a) === canonical(b);
const asSet = (value: Json) => listOf(value).map(canonical).sort();

/** The keys of `expect` that a result does not meet; empty = agrees. */
export function disagreements(expect: Json, result: Json): readonly string[] {
  const wrong: string[] = [];
  for (const [key, wanted] of Object.entries(entriesOf(expect))) {
    const got = at(result, key);
    if (key === 'oneOf') {
      if (!listOf(wanted).some((one) => disagreements(one, result).length === 0)) wrong.push(key);
    } else if (SETS.includes(key) ? !same(asSet(wanted), asSet(got)) : !agrees(key, wanted, got)) {
      wrong.push(`${key}: expected ${canonical(wanted)}, got ${canonical(got)}`);
    }
  }
  return wrong;
}

function agrees(key: string, wanted: Json, got: Json): boolean {
  if (key === 'reclaiming' && wanted !== null) return got !== null && keysAgree(wanted, got);
  if (key === 'ranking') return sameOrder(listOf(wanted), listOf(got));
  if (key !== 'evicted') return same(wanted, got);
  const all = listOf(got);
  return (
    listOf(wanted).length === all.length &&
    listOf(wanted).every((one) => {
      const other = all.find((evicted) => at(evicted, 'pod') === at(one, 'pod')) ?? null;
      return other !== null && keysAgree({ killFailed: false, ...entriesOf(one) }, other);
    })
  );
}

function keysAgree(wanted: Json, got: Json): boolean {
  return Object.entries(entriesOf(wanted)).every(([key, value]) => {
    const own = at(got, key);
    return key === 'signal' && Array.isArray(value) ? value.includes(own) : same(value, own);
  });
}

/** Groups of equals may come in any order. */
function sameOrder(wanted: readonly Json[], got: readonly Json[]): boolean {
  let position = 0;
  for (const entry of wanted) {
    const group = Array.isArray(entry) ? listOf(entry) : [entry];
    if (!same(asSet(group), asSet(got.slice(position, position + group.length)))) return false;
    position += group.length;
  }
  return position === got.length;
}
