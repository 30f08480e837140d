import { isObject } from '../../core/shape.ts';
import { SIGNAL_FACTS, SIGNALS } from '../../core/signal.ts';
import type { Json, Mismatch } from '../scenario.ts';
import { among, flag, listOf, mapOf, oneOrMore, orNull, ours, POD_NAME, type Shape, text, whole } from '../shape.ts';
import type { EvictionResult } from './result.ts';

type Mismatches = readonly Mismatch[];

/**
 * scenarios.md 4: where a result is not what was expected. An absent key is not checked; where no alternative of
 * `oneOf` holds, the mismatches of the closest one are told. `expect` has the shape of EXPECT.
 */
export function compareLook(expect: Json, result: EvictionResult): Mismatches {
  const common = compareKeys('expect', expect, result);
  let closest: Mismatches | null = null;
  for (const [i, alternative] of itemsOf(expect['oneOf']).entries()) {
    const found = isObject(alternative) ? compareKeys(`expect.oneOf[${i}]`, alternative, result) : [];
    if (closest === null || found.length < closest.length) closest = found;
  }
  return [...common, ...(closest ?? [])];
}

function compareKeys(at: string, expect: Json, result: EvictionResult): Mismatches {
  const on = <K extends keyof EvictionResult>(
    key: K,
    compare: (at: string, expected: unknown, actual: EvictionResult[K]) => Mismatches,
  ): Mismatches => (expect[key] === undefined ? [] : compare(`${at}.${key}`, expect[key], result[key]));
  return [
    ...on('thresholdsObserved', compareSet),
    ...on('thresholdsMet', compareSet),
    ...on('conditions', compareSet),
    ...on('reclaiming', compareReclaiming),
    ...on('nodeReclaim', compareList),
    ...on('ranking', compareRanking),
    ...on('evicted', compareEvicted),
  ];
}

function compareSet(path: string, expected: unknown, actual: readonly string[]): Mismatches {
  const wanted = [...new Set(itemsOf(expected).map(String))].toSorted();
  return isSameList(wanted, actual) ? [] : [{ path, expected: wanted, actual }];
}

function compareList(path: string, expected: unknown, actual: readonly string[]): Mismatches {
  return isSameList(itemsOf(expected), actual) ? [] : [{ path, expected, actual }];
}

function compareReclaiming(path: string, expected: unknown, actual: EvictionResult['reclaiming']): Mismatches {
  if (isObject(expected) && actual !== null) return compareFields(path, expected, actual);
  return expected === actual ? [] : [{ path, expected, actual }];
}

/** A nested list is a group of equals, in any order. */
function compareRanking(path: string, expected: unknown, actual: readonly string[]): Mismatches {
  let at = 0;
  const isSame = itemsOf(expected).every((place) => {
    const group = Array.isArray(place) ? place : [place];
    const here = actual.slice(at, at + group.length);
    at += group.length;
    return isSameList(group.toSorted(), here.toSorted());
  });
  return isSame && at === actual.length ? [] : [{ path, expected, actual }];
}

/** Who is first; then, of those who were to be evicted and were, the keys given. An absent killFailed is false (4.4). */
function compareEvicted(path: string, expected: unknown, actual: EvictionResult['evicted']): Mismatches {
  const wanted = itemsOf(expected).filter(isObject);
  const who = compareSet(
    path,
    wanted.map(({ pod }) => pod),
    actual.map(({ pod }) => pod).toSorted(),
  );
  const fields = wanted.flatMap((entry, i) => {
    const other = actual.find(({ pod }) => pod === entry['pod']);
    return other === undefined ? [] : compareFields(`${path}[${i}]`, { killFailed: false, ...entry }, other);
  });
  return [...who, ...fields];
}

function compareFields(path: string, expected: Json, actual: Json): Mismatches {
  return Object.entries(expected).flatMap(([key, wanted]) => {
    const is = actual[key];
    // Any of several signals will do (4.3).
    const isSame = Array.isArray(wanted)
      ? wanted.includes(is)
      : isObject(wanted)
        ? isSameMap(wanted, is)
        : wanted === is;
    return isSame ? [] : [{ path: `${path}.${key}`, expected: wanted, actual: is }];
  });
}

function isSameMap(a: Json, b: unknown): boolean {
  if (!isObject(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && a[key] === b[key]);
}

function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((entry, i) => entry === b[i]);
}

function itemsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

const RESOURCES = [...new Set(Object.values(SIGNAL_FACTS).map(({ resource }) => resource))];
const LIMITS = ['emptydirfs.limit', 'ephemeralpodfs.limit', 'ephemeralcontainerfs.limit'];

const thresholds = listOf(among(SIGNALS.flatMap((signal) => [`${signal}/hard`, `${signal}/soft`])));

const ALTERNATIVE = {
  thresholdsObserved: thresholds,
  thresholdsMet: thresholds,
  conditions: listOf(among(['MemoryPressure', 'DiskPressure', 'PIDPressure'])),
  reclaiming: orNull(ours({ signal: oneOrMore(among(SIGNALS)), soft: flag, resource: among(RESOURCES) })),
  nodeReclaim: listOf(among(['containers', 'images'])),
  ranking: listOf(oneOrMore(POD_NAME)),
  evicted: listOf(
    ours(
      {
        pod: POD_NAME,
        signal: oneOrMore(among([...SIGNALS, ...LIMITS])),
        gracePeriodSeconds: whole,
        reason: text,
        disruptionTarget: flag,
        killFailed: flag,
        message: text,
        annotations: mapOf(text),
      },
      ['pod'],
    ),
  ),
};

/** scenarios.md 4.1: what an `expect` may say. */
export const EXPECT: Shape = ours({ ...ALTERNATIVE, oneOf: listOf(ours(ALTERNATIVE), 1) });
