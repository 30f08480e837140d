import { isObject } from '../../core/shape.ts';
import { SIGNAL_FACTS, SIGNALS } from '../../core/signal.ts';
import { differs, type Expectation, exactly, isSameList, itemsOf, keys, orAbsent, setOf } from '../expect.ts';
import type { Json, Mismatch } from '../scenario.ts';
import { among, flag, listOf, mapOf, oneOrMore, POD_NAME, type Shape, text, whole } from '../shape.ts';
import type { EvictionResult } from './result.ts';

const RESOURCES = [...new Set(Object.values(SIGNAL_FACTS).map(({ resource }) => resource))];
const LIMITS = ['emptydirfs.limit', 'ephemeralpodfs.limit', 'ephemeralcontainerfs.limit'];

const thresholds = setOf(among(SIGNALS.flatMap((signal) => [`${signal}/hard`, `${signal}/soft`])));

/** Any one of several matches (4.3). */
function anyOf(valid: readonly string[]): Expectation {
  return {
    shape: oneOrMore(among(valid)),
    compare: (path, written, actual) =>
      (Array.isArray(written) ? written.includes(actual) : written === actual) ? [] : differs(path, written, actual),
  };
}

const nodeReclaim: Expectation = {
  shape: listOf(among(['containers', 'images'])),
  compare: (path, written, actual) =>
    isSameList(itemsOf(written), itemsOf(actual)) ? [] : differs(path, written, actual),
};

/** A nested list is a group of equals, in any order. */
const ranking: Expectation = {
  shape: listOf(oneOrMore(POD_NAME)),
  compare: (path, written, actual) => {
    const found = itemsOf(actual);
    let at = 0;
    const isSame = itemsOf(written).every((place) => {
      const group = Array.isArray(place) ? place : [place];
      const here = found.slice(at, at + group.length);
      at += group.length;
      return isSameList(group.toSorted(), here.toSorted());
    });
    return isSame && at === found.length ? [] : differs(path, written, actual);
  },
};

/** The same keys with the same values, in any order. */
const annotations: Expectation = {
  shape: mapOf(text),
  compare: (path, written, actual) => {
    const entriesOf = (map: unknown): readonly string[] =>
      isObject(map) ? Object.entries(map).map((entry) => JSON.stringify(entry)) : [];
    return isSameList(entriesOf(written).toSorted(), entriesOf(actual).toSorted())
      ? []
      : differs(path, written, actual);
  },
};

const victims = setOf(text);
const victim = keys(
  {
    pod: exactly(POD_NAME),
    signal: anyOf([...SIGNALS, ...LIMITS]),
    gracePeriodSeconds: exactly(whole),
    reason: exactly(text),
    disruptionTarget: exactly(flag),
    killFailed: exactly(flag),
    message: exactly(text),
    annotations,
  },
  ['pod'],
);
/**
 * Compares the victim first; if expected and actual agree on it, the given keys. An absent killFailed means false
 * (4.4).
 */
const evicted: Expectation = {
  shape: listOf(victim.shape),
  compare: (path, written, actual) => {
    const [wanted, found] = [itemsOf(written).filter(isObject), itemsOf(actual).filter(isObject)];
    const podsOf = (entries: readonly Json[]): readonly unknown[] => entries.map(({ pod }) => pod);
    const details = wanted.flatMap((entry, i) => {
      const other = found.find(({ pod }) => pod === entry['pod']);
      return other === undefined ? [] : victim.compare([...path, i], { killFailed: false, ...entry }, other);
    });
    return [...victims.compare(path, podsOf(wanted), podsOf(found)), ...details];
  },
};

const ALTERNATIVE = {
  thresholdsObserved: thresholds,
  thresholdsMet: thresholds,
  conditions: setOf(among(['MemoryPressure', 'DiskPressure', 'PIDPressure'])),
  reclaiming: orAbsent(keys({ signal: anyOf(SIGNALS), soft: exactly(flag), resource: exactly(among(RESOURCES)) })),
  nodeReclaim,
  ranking,
  evicted,
};
const alternative = keys(ALTERNATIVE);
const oneOf: Expectation = { shape: listOf(alternative.shape, 1), compare: () => [] };
const expected = keys({ ...ALTERNATIVE, oneOf });

/** scenarios.md 4.1: what an `expect` may contain. */
export const EXPECT: Shape = expected.shape;

/**
 * scenarios.md 4: the differences between a result and what was expected. If no alternative of `oneOf` holds, the
 * mismatches of the closest one are reported. `expect` has the shape of EXPECT.
 */
export function compareLook(expect: Json, result: EvictionResult): readonly Mismatch[] {
  const [closest = []] = itemsOf(expect['oneOf'])
    .map((one, i) => alternative.compare(['expect', 'oneOf', i], one, result))
    .toSorted((a, b) => a.length - b.length);
  return [...expected.compare(['expect'], expect, result), ...closest];
}
