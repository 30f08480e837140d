import { isObject, isText } from '../core/shape.ts';
import type { ApiGet } from './connection.ts';
import { messageOf } from './line-stream.ts';

type Listed<T> =
  | { readonly ok: true; readonly pods: readonly T[]; readonly resourceVersion: string }
  | {
      readonly ok: false;
      /** null: there was no answer. */
      readonly status: number | null;
      readonly detail: string;
      readonly retryAfterMs: number | null;
    };

/** C1 */
const DEADLINE_MS = 10_000;
const PAGE = 500;
const MAX_PAGES = 100;

export function podsPath(nodeName: string, query: { readonly [name: string]: string }): string {
  return `/api/v1/pods?${new URLSearchParams({ fieldSelector: `spec.nodeName=${nodeName}`, ...query })}`;
}

/** Reading a pod takes 0.1 to 0.4 ms: this many at a time do not delay the looks of a busy node. */
const PODS_A_TURN = 25;

/**
 * Lists all pods of a node, page by page. Each pod goes to `reduce` at once, so that at most one page is held; `pause` runs
 * in between. `from`: '0' = any cached version, '' = the most recent one, else nothing older than that resourceVersion.
 * Never rejects.
 */
export async function listPods<T>(
  get: ApiGet,
  nodeName: string,
  from: string,
  reduce: (object: unknown) => T,
  pause: () => Promise<void>,
): Promise<Listed<T>> {
  const pods: T[] = [];
  let query: { readonly [name: string]: string } = versionQuery(from);
  for (let page = 0; page < MAX_PAGES; page++) {
    const answer = await get(podsPath(nodeName, { limit: String(PAGE), ...query }), DEADLINE_MS);
    if (answer.kind === 'none') return { ok: false, status: null, detail: answer.detail, retryAfterMs: null };
    const { status, body, retryAfterMs, problem } = answer;
    if (status !== 200) return { ok: false, status, detail: messageOf(body), retryAfterMs };
    const metadata = isObject(body) && isObject(body['metadata']) ? body['metadata'] : {};
    const { resourceVersion, continue: next } = metadata;
    const items = isObject(body) ? body['items'] : null;
    // Some servers send null for an empty list.
    if (!isText(resourceVersion) || (items !== null && !Array.isArray(items)) || problem !== undefined) {
      return { ok: false, status, detail: `not a list of pods: ${problem ?? 'malformed'}`, retryAfterMs };
    }
    for (const object of items ?? []) {
      pods.push(reduce(object));
      if (pods.length % PODS_A_TURN === 0) await pause();
    }
    if (!isText(next) || next === '') return { ok: true, pods, resourceVersion };
    query = { continue: next };
  }
  return { ok: false, status: 200, detail: `more than ${MAX_PAGES * PAGE} pods`, retryAfterMs: null };
}

function versionQuery(from: string): { readonly [name: string]: string } {
  if (from === '') return {};
  return from === '0' ? { resourceVersion: from } : { resourceVersion: from, resourceVersionMatch: 'NotOlderThan' };
}
