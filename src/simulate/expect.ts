import { isObject } from '../core/shape.ts';
import { type Path, sayPath } from '../document/problem.ts';
import type { Mismatch } from './scenario.ts';
import * as shapes from './shape.ts';

/**
 * What an `expect` may contain for a value: its shape, and how to compare it with the actual value. `compare` gets only values
 * of that shape; absent keys are not checked.
 */
export type Expectation = { readonly shape: shapes.Shape; readonly compare: Compare };
type Compare = (path: Path, written: unknown, actual: unknown) => readonly Mismatch[];

export function differs(path: Path, expected: unknown, actual: unknown): readonly Mismatch[] {
  return [{ path: sayPath(path), expected, actual: actual ?? null }];
}

export const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

export function isSameList(a: readonly unknown[], b: readonly unknown[]): boolean {
  return a.length === b.length && a.every((entry, i) => entry === b[i]);
}

/** `read`: in the unit of the result. */
export function exactly(shape: shapes.Shape, read: (written: unknown) => unknown = (written) => written): Expectation {
  return {
    shape,
    compare: (path, written, actual) => (read(written) === actual ? [] : differs(path, read(written), actual)),
  };
}

/** A list whose order does not matter. One that does not apply is empty. */
export function setOf(item: shapes.Shape): Expectation {
  return {
    shape: shapes.listOf(item),
    compare: (path, written, actual) => {
      const expected = [...new Set(itemsOf(written))].toSorted();
      return isSameList(expected, [...new Set(itemsOf(actual))].toSorted()) ? [] : differs(path, expected, actual);
    },
  };
}

/** Null must be absent or null. */
export function orAbsent({ shape, compare }: Expectation): Expectation {
  return {
    shape: shapes.orNull(shape),
    compare: (path, written, actual) => {
      if (written !== null) return compare(path, written, actual);
      return actual === null || actual === undefined ? [] : differs(path, null, actual);
    },
  };
}

/** A list that is compared entry by entry; an unexpected entry is a mismatch. */
export function eachOf(item: Expectation): Expectation {
  const { compare } = orAbsent(item);
  return {
    shape: shapes.listOf(item.shape),
    compare: (path, written, actual) => {
      const [wanted, found] = [itemsOf(written), itemsOf(actual)];
      const length = Math.max(wanted.length, found.length);
      return Array.from({ length }, (_, i) => compare([...path, i], wanted[i] ?? null, found[i])).flat();
    },
  };
}

/** A mapping with keys of the result's own. */
export function byName(item: Expectation): Expectation {
  return { shape: shapes.mapOf(item.shape), compare: comparing(() => item) };
}

type Keys = { readonly [key: string]: Expectation };

export function keys(fields: Keys, required: readonly string[] = []): Expectation {
  const ofFields = Object.entries(fields).map(([key, { shape }]) => [key, shape] as const);
  return { shape: shapes.ours(Object.fromEntries(ofFields), required), compare: comparing((key) => fields[key]) };
}

export function allOrAbsent(fields: Keys): Keys {
  return Object.fromEntries(Object.entries(fields).map(([key, field]) => [key, orAbsent(field)]));
}

function comparing(itemAt: (key: string) => Expectation | undefined): Compare {
  return (path, written, actual) => {
    if (!isObject(written) || !isObject(actual)) return differs(path, written, actual);
    return Object.entries(written).flatMap(
      ([key, wanted]) => itemAt(key)?.compare([...path, key], wanted, actual[key]) ?? [],
    );
  };
}
