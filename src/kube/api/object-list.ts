import { known, type Reading, unknown } from '../../core/reading.ts';
import { isObject, isText, partOf } from '../../core/shape.ts';
import type { ApiAnswer, ApiGet } from './connection.ts';
import { messageOf } from './line-stream.ts';

export type Listed<T> =
  | { readonly ok: true; readonly objects: readonly T[]; readonly resourceVersion: string }
  | {
      readonly ok: false;
      /** null: there was no answer. */
      readonly status: number | null;
      readonly detail: string;
      readonly retryAfterMs: number | null;
    };

const PAGE = 500;
/** An object has 1.5 MiB at most, and rarely more than a few KiB: anybody may make large ones. */
const SMALL_PAGE = 20;
const MAX_OBJECTS = 50_000;
const MAX_PAGES = MAX_OBJECTS / SMALL_PAGE;

type Query = { readonly [name: string]: string };
/** The path of a resource with a query, such as `{ limit: '500' }`. */
export type PathOf = (query: Query) => string;
/** `always`: what every query of it asks for. */
export const pathWith =
  (path: string, always: Query = {}): PathOf =>
  (query) =>
    `${path}?${new URLSearchParams({ ...always, ...query })}`;

/** Reading a pod takes 0.1 to 0.4 ms: this many at a time do not delay the looks of a busy node. */
const OBJECTS_A_TURN = 25;

/**
 * Lists all objects of a path, page by page. Each goes to `reduce` at once, so that at most one page is held; `pause` runs
 * in between. `from`: '0' = any cached version, '' = the most recent one, else nothing older than that resourceVersion. If a page
 * is too large, or does not arrive in time, the most recent version in small ones: a server gives what it has cached as a whole,
 * whatever the limit. `deadlineMs` is that of one page. Never rejects.
 */
export async function listObjects<T>(
  get: ApiGet,
  pathOf: PathOf,
  from: string,
  deadlineMs: number,
  reduce: (object: unknown) => T,
  pause: () => Promise<void>,
): Promise<Listed<T>> {
  const objects: T[] = [];
  let query: Query = versionQuery(from);
  let limit = PAGE;
  for (let page = 0; page < MAX_PAGES && objects.length < MAX_OBJECTS; page++) {
    const answer = await get(pathOf({ limit: String(limit), ...query }), deadlineMs);
    if (answer.isTooMuch && limit !== SMALL_PAGE) {
      limit = SMALL_PAGE;
      if (query['continue'] === undefined) query = versionQuery('');
      continue;
    }
    if (answer.kind === 'none') return { ok: false, status: null, detail: answer.detail, retryAfterMs: null };
    const { status, body, retryAfterMs, problem } = answer;
    if (status !== 200) return { ok: false, status, detail: messageOf(body), retryAfterMs };
    const { resourceVersion, continue: next } = partOf(body, 'metadata');
    const items = isObject(body) ? body['items'] : null;
    // Some servers send null for an empty list.
    if (!isText(resourceVersion) || (items !== null && !Array.isArray(items)) || problem !== undefined) {
      return { ok: false, status, detail: `not a list: ${problem ?? 'malformed'}`, retryAfterMs };
    }
    for (const object of items ?? []) {
      objects.push(reduce(object));
      if (objects.length % OBJECTS_A_TURN === 0) await pause();
    }
    if (!isText(next) || next === '') return { ok: true, objects, resourceVersion };
    query = { continue: next };
  }
  return { ok: false, status: 200, detail: `more than ${MAX_OBJECTS} objects`, retryAfterMs: null };
}

function versionQuery(from: string): Query {
  if (from === '') return {};
  return from === '0' ? { resourceVersion: from } : { resourceVersion: from, resourceVersionMatch: 'NotOlderThan' };
}

const NOT_FOUND = 404;

/** The object that was asked for; null: it does not exist. `where`: its path. */
export function objectIn(answer: ApiAnswer, where: string): Reading<unknown> {
  if (answer.kind === 'none') return unknown(answer.isTimeout ? 'timed-out' : 'unreadable', where, answer.detail);
  if (answer.status === NOT_FOUND) return known(null);
  if (answer.status !== 200 || answer.problem !== undefined) {
    return unknown('unreadable', where, answer.problem ?? messageOf(answer.body));
  }
  return known(answer.body);
}
