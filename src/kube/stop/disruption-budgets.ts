import { known, type Reading, unknown } from '../../core/reading.ts';
import { isObject, isText } from '../../core/shape.ts';
import type { ApiGet } from '../api/connection.ts';
import { notDone } from '../api/write-failure.ts';

/** A budget that allows no eviction of any of its pods, even while all of them are healthy. */
export type StrictBudget = { readonly namespace: string; readonly name: string; readonly pods: number };

const DEADLINE_MS = 3_000;
const MOST = 500;

/**
 * The strict budgets of the whole cluster; unknown if these credentials may not list budgets, as with
 * config/kubernetes. Never rejects.
 */
export async function strictBudgets(get: ApiGet): Promise<Reading<readonly StrictBudget[]>> {
  const path = `/apis/policy/v1/poddisruptionbudgets?limit=${MOST}`;
  const answer = await get(path, DEADLINE_MS);
  const failed = notDone(answer, null);
  if (failed !== null) return unknown('unreadable', 'poddisruptionbudgets', failed.text);
  const items = answer.kind === 'answer' && isObject(answer.body) ? answer.body['items'] : null;
  if (!Array.isArray(items)) return unknown('malformed', 'poddisruptionbudgets', 'not a list');
  return known(items.flatMap(strictIn));
}

function strictIn(item: unknown): readonly StrictBudget[] {
  const metadata = isObject(item) ? item['metadata'] : null;
  const status = isObject(item) ? item['status'] : null;
  if (!isObject(metadata) || !isObject(status)) return [];
  const { namespace, name } = metadata;
  const { desiredHealthy, expectedPods } = status;
  if (!isText(namespace) || !isText(name)) return [];
  if (typeof desiredHealthy !== 'number' || typeof expectedPods !== 'number') return [];
  return expectedPods > 0 && desiredHealthy >= expectedPods ? [{ namespace, name, pods: expectedPods }] : [];
}
