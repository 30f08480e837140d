/**
 * What a scenario is made of before anybody has understood it. The model reads well-formed scenarios only: what is
 * malformed is an error of the test, so these readers throw.
 */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** The value under the keys, one after the other; null if any of them is absent. */
export function at(value: Json, ...keys: readonly (string | number)[]): Json {
  let here: Json = value;
  for (const key of keys) {
    if (here === null || typeof here !== 'object') return null;
    if (Array.isArray(here)) here = typeof key === 'number' ? (here[key] ?? null) : null;
    else here = Object.hasOwn(here, key) ? (entriesOf(here)[key] ?? null) : null;
  }
  return here;
}

/** The keys and values of an object; absent = none. */
export function entriesOf(value: Json): { readonly [key: string]: Json } {
  if (value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) throw new Error(`not an object: ${JSON.stringify(value)}`);
  return value as { readonly [key: string]: Json };
}

/** The elements of a list; absent = none. */
export function listOf(value: Json): readonly Json[] {
  if (value === null) return [];
  if (!Array.isArray(value)) throw new Error(`not a list: ${JSON.stringify(value)}`);
  return value as readonly Json[];
}

export function textOf(value: Json, absent: string): string {
  if (value === null) return absent;
  if (typeof value !== 'string') throw new Error(`not a text: ${JSON.stringify(value)}`);
  return value;
}

export function numberOf(value: Json, absent: number): number {
  if (value === null) return absent;
  if (typeof value !== 'number') throw new Error(`not a number: ${JSON.stringify(value)}`);
  return value;
}

/** RFC 7386: objects merge, null removes, everything else replaces. */
export function mergePatch(target: Json, patch: Json): Json {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const base = target !== null && typeof target === 'object' && !Array.isArray(target) ? entriesOf(target) : {};
  const merged: { [key: string]: Json } = { ...base };
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key] ?? null, value);
  }
  return merged;
}
