import { isObject } from '../../core/shape.ts';
import { allOrAbsent, differs, type Expectation, exactly, itemsOf, keys, orAbsent, setOf } from '../expect.ts';
import type { Json, Mismatch } from '../scenario.ts';
import { flag, instant, listOf, mapOf, orNull, ours, readMs, type Shape, text, whole } from '../shape.ts';
import type { GuardResult, Held } from './result.ts';

const names = setOf(text);

/** The whole map: a node that is not in it has 0. */
const counts: Expectation = {
  shape: mapOf(whole),
  compare: (path, written, actual) => {
    const [wanted, found] = [countsIn(written), countsIn(actual)];
    return wanted === found ? [] : differs(path, written, actual);
  },
};
function countsIn(value: unknown): string {
  const entries = Object.entries(isObject(value) ? value : {}).filter(([, count]) => count !== 0);
  return JSON.stringify(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

type Span = { readonly from?: unknown; readonly until?: unknown };
const span = { from: instant, until: orNull(instant) };
const isAt = (value: unknown): value is number => typeof value === 'number';
const endOf = (until: unknown): number => (isAt(until) ? until : Number.POSITIVE_INFINITY);

/** Each was held at least so long, and cost at most so much; others may have been held too. An empty list: nothing was. */
const held: Expectation = {
  shape: listOf(ours({ scope: text, gate: text, ...span, memberSeconds: whole }, ['scope', 'gate'])),
  compare: (path, written, actual) => {
    const wanted = itemsOf(written).filter(isObject);
    if (wanted.length === 0) return itemsOf(actual).length === 0 ? [] : differs(path, [], actual);
    return wanted.flatMap((hold, i) => {
      const isThere = itemsOf(actual).some((one) => covers(hold, one as Held));
      return isThere ? [] : differs([...path, i], hold, actual);
    });
  },
};
function covers({ scope, gate, from, until, memberSeconds }: Span & Json, actual: Held): boolean {
  if (scope !== actual.scope || gate !== actual.gate || !isAtMost(actual.memberSeconds, memberSeconds)) return false;
  const [fromMs, untilMs] = [readMs(from), readMs(until)];
  return (fromMs === null || actual.from <= fromMs) && (untilMs === null || endOf(actual.until) >= untilMs);
}

/** Exactly these nodes, and only within the given times. */
const tainted: Expectation = {
  shape: listOf(ours({ node: text, ...span }, ['node'])),
  compare: (path, written, actual) => {
    const found = itemsOf(actual).filter(isObject);
    const wanted = itemsOf(written).filter(isObject);
    const isWanted = (one: Json): boolean => wanted.some((span) => span['node'] === one['node'] && isWithin(span, one));
    const isFound = (span: Json): boolean => found.some((one) => one['node'] === span['node']);
    return found.every(isWanted) && wanted.every(isFound) ? [] : differs(path, written, actual);
  },
};
function isWithin(wanted: Span, { from, until }: Span): boolean {
  const [fromMs, untilMs] = [readMs(wanted.from), readMs(wanted.until)];
  return (fromMs === null || (isAt(from) && from >= fromMs)) && (untilMs === null || endOf(until) <= untilMs);
}

const backElsewhere: Expectation = {
  shape: listOf(ours({ pod: text, within: instant }, ['pod'])),
  compare: (path, written, actual) => {
    const wanted = itemsOf(written).filter(isObject);
    const found = itemsOf(actual).filter(isObject);
    if (wanted.length === 0) return found.length === 0 ? [] : differs(path, [], actual);
    return wanted.flatMap((one, i) => {
      const withinMs = readMs(one['within']) ?? Number.POSITIVE_INFINITY;
      const isThere = found.some(({ pod, within }) => pod === one['pod'] && isAt(within) && within <= withinMs);
      return isThere ? [] : differs([...path, i], one, actual);
    });
  },
};

/** At most so many seconds, of the members that are named. */
const withoutMember: Expectation = {
  shape: listOf(ours({ pod: text, seconds: whole, isBack: flag }, ['pod'])),
  compare: (path, written, actual) => {
    const found = new Map(
      itemsOf(actual)
        .filter(isObject)
        .map((one) => [one['pod'], one]),
    );
    return itemsOf(written)
      .filter(isObject)
      .flatMap(({ pod, seconds, isBack }, i) => {
        const one = found.get(pod);
        const isKept =
          one !== undefined && isAtMost(one['seconds'], seconds) && (isBack ?? one['isBack']) === one['isBack'];
        return isKept ? [] : differs([...path, i], itemsOf(written)[i], one);
      });
  },
};
const isAtMost = (actual: unknown, most: unknown): boolean => endOf(actual) <= endOf(most);

/** Of the nodes that are named. */
const phases: Expectation = {
  shape: mapOf(text),
  compare: (path, written, actual) =>
    Object.entries(isObject(written) ? written : {}).flatMap(([node, phase]) => {
      const found = isObject(actual) ? actual[node] : undefined;
      return found === phase ? [] : differs([...path, node], phase, found);
    }),
};

const expected = keys({
  ...allOrAbsent({
    fenced: names,
    poweredOff: counts,
    held,
    tainted,
    backElsewhere,
    recovered: names,
    leftOff: names,
    phases,
    withoutMember,
    runTwice: names,
  }),
  leader: orAbsent(exactly(text)),
});

export const EXPECT: Shape = expected.shape;

/** The differences from the expected result. `expect` has the shape of EXPECT. */
export function compareGuard(expect: Json, result: GuardResult): readonly Mismatch[] {
  return expected.compare(['expect'], expect, result);
}
