import { isObject } from '../../core/shape.ts';
import { type Path, sayPath } from '../../document/problem.ts';
import type { Json, Mismatch } from '../scenario.ts';
import { readMs } from '../shape.ts';
import type { ShutdownResult } from './result.ts';
import { MS_KEYS, readSeconds, SECONDS_KEYS } from './shape.ts';

/**
 * shutdown-scenarios.md 4.1: where the result is not what was expected. An absent key is not checked, null must be
 * absent or null. `expect` has been checked.
 */
export function compareShutdown(expect: Json, result: ShutdownResult): readonly Mismatch[] {
  const mismatches: Mismatch[] = [];
  compare(['expect'], expect, result, mismatches);
  return mismatches;
}

/** Lists whose order says nothing; `pods` of a group, not the map. */
const SETS = ['configErrors', 'pods', 'stillRunning', 'volumesPending'];

function compare(path: Path, written: unknown, actual: unknown, mismatches: Mismatch[]): void {
  const key = String(path.at(-1));
  const expected = inUnitOf(key, written);
  if (expected === undefined) return;
  const tell = () => void mismatches.push({ path: sayPath(path), expected, actual: actual ?? null });
  if (expected === null) {
    if (actual !== null && actual !== undefined) tell();
  } else if (Array.isArray(expected)) {
    // A list that does not apply is empty.
    const found = actual ?? [];
    if (!Array.isArray(found)) tell();
    else if (!SETS.includes(key)) compareList(path, expected, found, mismatches);
    else if (!isSameSet(expected, found)) tell();
  } else if (isObject(expected)) {
    if (!isObject(actual)) tell();
    else
      for (const [name, value] of Object.entries(expected)) compare([...path, name], value, actual[name], mismatches);
  } else if (expected !== actual) tell();
}

function inUnitOf(key: string, written: unknown): unknown {
  if (typeof written !== 'string') return written;
  if (MS_KEYS.includes(key)) return readMs(written);
  return SECONDS_KEYS.includes(key) ? readSeconds(written) : written;
}

function compareList(
  path: Path,
  expected: readonly unknown[],
  actual: readonly unknown[],
  mismatches: Mismatch[],
): void {
  const isPhases = path.at(-1) === 'phases';
  for (let i = 0; i < Math.max(expected.length, actual.length); i++) {
    // One that was not expected at all must not be there.
    const [wanted = null, found] = [expected[i], actual[i]].map((entry) => (isPhases ? withAbsentSets(entry) : entry));
    compare([...path, i], wanted, found, mismatches);
  }
}

/** In a phase an absent set is an empty one. */
function withAbsentSets(phase: unknown): unknown {
  return isObject(phase) ? { stillRunning: [], volumesPending: [], ...phase } : phase;
}

function isSameSet(a: readonly unknown[], b: readonly unknown[]): boolean {
  const [first, second] = [new Set(a), new Set(b)];
  return first.size === second.size && [...first].every((value) => second.has(value));
}
