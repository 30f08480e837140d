import * as z from 'zod/mini';
import { SHUTDOWN_REFUSALS } from '../config/shutdown.ts';
import { type Path, sayPath } from '../document/problem.ts';
import { isObject } from './envelope.ts';
import type { Mismatch } from './scenario.ts';
import type { ShutdownResult } from './shutdown-result.ts';
import { instant, seconds } from './shutdown-time.ts';

/** An absent key is not checked; null must be absent or null (shutdown-scenarios.md 4.1). */
const may = <S extends z.core.SomeType>(schema: S) => z.optional(z.nullable(schema));
const names = may(z.array(z.string()));

const group = z.strictObject({ priority: may(z.int()), periodSeconds: may(seconds), pods: names });
const phase = z.strictObject({
  priority: may(z.int()),
  periodSeconds: may(seconds),
  start: may(instant),
  end: may(instant),
  endedBy: may(z.enum(['done', 'period', 'volumeTimeout', 'cancelled'])),
  stillRunning: names,
  volumesPending: names,
});
const status = z.strictObject({
  phase: may(z.string()),
  reason: may(z.string()),
  message: may(z.string()),
  disruptionTarget: may(z.boolean()),
});
const pod = z.strictObject({
  group: may(z.int()),
  gracePeriodSeconds: may(seconds),
  effectiveGracePeriodSeconds: may(seconds),
  start: may(instant),
  sigtermAt: may(instant),
  killedAt: may(instant),
  stoppedAt: may(instant),
  status: may(status),
});

/** shutdown-scenarios.md section 4, with times in milliseconds. */
export const expectSchema = z
  .strictObject({
    configErrors: may(z.array(z.enum(SHUTDOWN_REFUSALS))),
    enabled: may(z.boolean()),
    inhibitDelay: may(instant),
    dropInSeconds: may(seconds),
    readBacks: may(z.int()),
    armed: may(z.boolean()),
    groups: may(z.array(group)),
    phases: may(z.array(phase)),
    pods: may(z.record(z.string(), z.nullable(pod))),
    lockReleasedAt: may(instant),
    shutdownProceedsAt: may(instant),
    refusesPods: may(z.strictObject({ from: may(instant), until: may(instant) })),
    lockRetakenAt: may(instant),
  })
  .check((context) => {
    const { configErrors, ...others } = context.value;
    if (!configErrors || configErrors.length === 0 || Object.keys(others).length === 0) return;
    const message = 'excludes all other keys of expect';
    context.issues.push({ code: 'custom', message, input: configErrors, path: ['configErrors'] });
  });
export type ExpectedShutdown = z.output<typeof expectSchema>;

/** Where the result differs from what was expected, by the rules of shutdown-scenarios.md 4.1. */
export function compareShutdown(expect: ExpectedShutdown, result: ShutdownResult): readonly Mismatch[] {
  const mismatches: Mismatch[] = [];
  compare(['expect'], expect, result, mismatches);
  return mismatches;
}

/** Lists whose order says nothing; `pods` of a group, not the map. */
const SETS = ['configErrors', 'pods', 'stillRunning', 'volumesPending'];

function compare(path: Path, expected: unknown, actual: unknown, mismatches: Mismatch[]): void {
  if (expected === undefined) return;
  const tell = () => void mismatches.push({ path: sayPath(path), expected, actual: actual ?? null });
  if (expected === null) {
    if (actual !== null && actual !== undefined) tell();
  } else if (Array.isArray(expected)) {
    if (!Array.isArray(actual)) tell();
    else if (SETS.includes(String(path.at(-1)))) {
      if (!isSameSet(expected, actual)) tell();
    } else compareList(path, expected, actual, mismatches);
  } else if (isObject(expected)) {
    if (!isObject(actual)) tell();
    else for (const [key, value] of Object.entries(expected)) compare([...path, key], value, actual[key], mismatches);
  } else if (expected !== actual) tell();
}

function compareList(
  path: Path,
  expected: readonly unknown[],
  actual: readonly unknown[],
  mismatches: Mismatch[],
): void {
  const isPhases = path.at(-1) === 'phases';
  for (let i = 0; i < Math.max(expected.length, actual.length); i++) {
    const entry = [expected[i], actual[i]].map((value) => (isPhases ? withAbsentSets(value) : value));
    // One that was not expected at all must not be there.
    compare([...path, i], entry[0] ?? null, entry[1], mismatches);
  }
}

/** In a phase an absent set is an empty one. */
function withAbsentSets(phaseValue: unknown): unknown {
  return isObject(phaseValue) ? { stillRunning: [], volumesPending: [], ...phaseValue } : phaseValue;
}

function isSameSet(a: readonly unknown[], b: readonly unknown[]): boolean {
  const [first, second] = [new Set(a), new Set(b)];
  return first.size === second.size && [...first].every((value) => second.has(value));
}
