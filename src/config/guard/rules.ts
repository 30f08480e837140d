import { parseDuration, sayDuration } from '../../core/units/duration.ts';
import type { Problem } from '../../document/problem.ts';
import { entryOf, type Fields } from '../field.ts';
import { httpProblems } from '../section-rules.ts';

/** Rules between fields. Values of a wrong type are skipped: the schema has reported them. */
export function ruleProblems(fields: Fields): readonly Problem[] {
  return [...deadProblems(fields), ...selectorProblems(fields), ...patrolProblems(fields), ...httpProblems(fields)];
}

/** Kubernetes itself calls a node NotReady after 40 to 50 s. */
const LEAST_DEAD_MS = 60_000;
const LEAST_APART_MS = 30_000;

function deadProblems(fields: Fields): readonly Problem[] {
  const suspect = timeAt(fields, 'suspectAfter', '40s');
  const dead = timeAt(fields, 'deadAfter', '2m');
  if (suspect === null || dead === null) return [];
  const isGiven = fields.get('deadAfter') !== null;
  const enough = sayDuration(Math.max(LEAST_DEAD_MS, suspect.ms + LEAST_APART_MS));
  if (dead.ms < suspect.ms + LEAST_APART_MS) {
    const why = `is too near suspectAfter ${suspect.said}: at least 30s apart, so that all nodes of one failure are seen before the first is fenced; for example`;
    return isGiven
      ? [fields.problemAt(['deadAfter'], `${dead.said} ${why} ${enough}`)]
      : [fields.problemAt(['suspectAfter'], `deadAfter ${dead.said} ${why} deadAfter: ${enough}`)];
  }
  if (dead.ms >= LEAST_DEAD_MS) return [];
  const text = `${dead.said} is too short: at least 60s, because Kubernetes itself needs 40 to 50 s to call a node NotReady; for example 2m`;
  return [fields.problemAt(['deadAfter'], text)];
}

/** Null: not a duration. */
function timeAt(fields: Fields, name: string, fallback: string): { readonly ms: number; readonly said: string } | null {
  const said = fields.get(name)?.value ?? fallback;
  if (typeof said !== 'string') return null;
  const parsed = parseDuration(said);
  return parsed.ok ? { ms: parsed.duration.ms, said } : null;
}

function selectorProblems(fields: Fields): readonly Problem[] {
  const expressions = entryOf(fields.get('nodes')?.value, 'matchExpressions');
  return (Array.isArray(expressions) ? expressions : []).flatMap((expression: unknown, i) => {
    const operator = entryOf(expression, 'operator');
    const values = entryOf(expression, 'values');
    const isEmpty = !Array.isArray(values) || values.length === 0;
    const takesValues = operator === 'In' || operator === 'NotIn';
    const takesNone = operator === 'Exists' || operator === 'DoesNotExist';
    const path = ['nodes', 'matchExpressions', i];
    if (takesValues && isEmpty) return [fields.problemAt(path, `${operator} needs values; for example values: [a]`)];
    return takesNone && !isEmpty ? [fields.problemAt([...path, 'values'], `${operator} takes no values`)] : [];
  });
}

const LEAST_PATROL_MS = 60_000;

function patrolProblems(fields: Fields): readonly Problem[] {
  const every = entryOf(fields.get('patrol')?.value, 'every');
  const parsed = typeof every === 'string' ? parseDuration(every) : null;
  if (!parsed?.ok || parsed.duration.ms <= 0 || parsed.duration.ms >= LEAST_PATROL_MS) return [];
  return [fields.problemAt(['patrol', 'every'], `must be at least 1m, or 0 for never, not ${every}`)];
}
