import { known, type Reading, unknown } from '../../core/reading.ts';
import { isObject, isText, partOf } from '../../core/shape.ts';
import type { ApiRight } from '../../words/finding-writes.ts';
import { isTerminal, type PodRef } from './api-pod.ts';
import type { ApiAnswer, ApiGet } from './connection.ts';
import { isGone, isOfAnotherUid, type NotDone, notDone, readSaid } from './write-failure.ts';

/** How the server answered the request to end a pod. */
export type DeleteAnswer =
  /** The object has a deletionTimestamp. */
  | { readonly kind: 'accepted' }
  | { readonly kind: 'gone' }
  /** Another pod has the name by now: never retried by name. */
  | { readonly kind: 'replaced' }
  | NotDone;
/** Its containers have ended: a DELETE would remove its object at once, and with it its result and its logs. */
export type Over = { readonly kind: 'over' };
export type EvictAnswer =
  | DeleteAnswer
  /** A PodDisruptionBudget refuses. `isMistake`: it will refuse until the budgets are changed. */
  | {
      readonly kind: 'refused-by-budget';
      readonly retryAfterMs: number;
      readonly text: string;
      readonly isMistake: boolean;
    };
export type EvictionVersion = 'policy/v1' | 'policy/v1beta1';

/** B1: the minimum wait before a retry, whatever the server says: 1.20 sends no time at all. */
const BUDGET_RETRY_MS = 5_000;
const PATH = '/api/v1';

/**
 * The Eviction version that the server accepts, from the `version` of `pods/eviction` in /api/v1 (B1). Query it once per
 * connection, and never by trial: 1.20 answers policy/v1 with 400. Never rejects.
 */
export const discoverEviction = async (get: ApiGet, deadlineMs: number): Promise<Reading<EvictionVersion>> =>
  readVersion(await get(PATH, deadlineMs));

/** The same for an eviction that needs it now. */
export async function findVersion(get: ApiGet, deadlineMs: number): Promise<EvictionVersion | NotDone> {
  const answer = await get(PATH, deadlineMs);
  const found = readVersion(answer);
  if (found.known) return found.value;
  const text = `it is not known which version of pods/eviction the server accepts (${found.detail})`;
  // Nothing has been sent. Only without a connection is that an outage.
  return answer.kind === 'none' && !answer.isTimeout
    ? { kind: 'unheard', isTimeout: false, text }
    : { kind: 'overload', retryAfterMs: null, text };
}

function readVersion(answer: ApiAnswer): Reading<EvictionVersion> {
  const failed = notDone(answer, null);
  if (failed !== null) {
    const isLate = failed.kind === 'unheard' && failed.isTimeout;
    return unknown(isLate ? 'timed-out' : 'unreadable', `GET ${PATH}`, failed.text);
  }
  const body = answer.kind === 'answer' ? answer.body : null;
  const resources = isObject(body) && Array.isArray(body['resources']) ? body['resources'] : [];
  const eviction = resources.find((resource) => isObject(resource) && resource['name'] === 'pods/eviction');
  if (!isObject(eviction)) return unknown('absent', `GET ${PATH}`, 'the server does not serve pods/eviction');
  const version = `${eviction['group']}/${eviction['version']}`;
  if (version === 'policy/v1' || version === 'policy/v1beta1') return known(version);
  return unknown('malformed', `GET ${PATH}`, 'pods/eviction has neither version policy/v1 nor policy/v1beta1');
}

/** Reads an answer by the table of B1. */
export function readEvictAnswer(answer: ApiAnswer, victim: PodRef): EvictAnswer {
  if (answer.kind === 'answer') {
    const { text, about, causes, retryAfterMs } = readSaid(answer);
    const wait = Math.max(BUDGET_RETRY_MS, retryAfterMs ?? 0);
    const budget = causes.find(({ reason }) => reason === 'DisruptionBudget');
    const refused = { kind: 'refused-by-budget', retryAfterMs: wait } as const;
    if (answer.status === 429 && budget !== undefined) {
      return { ...refused, text: budget.message || text, isMistake: false };
    }
    if (answer.status === 500 && /more than one PodDisruptionBudget/i.test(text)) {
      return { ...refused, text, isMistake: true };
    }
    if (answer.status === 403 && about.kind === 'poddisruptionbudget') return { ...refused, text, isMistake: false };
  }
  const read = readDeleteAnswer(answer, victim, 'create pods/eviction');
  // A webhook or a policy refuses: that is no missing right.
  return read.kind === 'forbidden' && read.isDenied ? { kind: 'rejected', status: 403, text: read.text } : read;
}

export function readDeleteAnswer(answer: ApiAnswer, victim: PodRef, right: ApiRight): DeleteAnswer {
  if (isGone(answer, victim.name)) return { kind: 'gone' };
  if (isOfAnotherUid(answer)) return { kind: 'replaced' };
  const failed = notDone(answer, right);
  if (failed !== null) return failed;
  if (answer.kind === 'answer' && isSuccess(answer.body, victim)) return { kind: 'accepted' };
  // A proxy in between may answer in the place of the server. As good as none: it may have been done.
  const text = 'the answer was a success, but neither a Status nor this pod';
  return { kind: 'unheard', isTimeout: true, text };
}

/** Of a dry run. */
export function readRehearsal(answer: ApiAnswer, victim: PodRef): DeleteAnswer | Over {
  const read = readDeleteAnswer(answer, victim, 'delete pods');
  return read.kind === 'accepted' && answer.kind === 'answer' && isOver(answer.body) ? { kind: 'over' } : read;
}

const isOver = (pod: unknown): boolean => isTerminal({ phase: partOf(pod, 'status')['phase'] });

/** The pod that is being deleted, or a Status. */
function isSuccess(body: unknown, { uid }: PodRef): boolean {
  if (!isObject(body)) return false;
  const { kind, status, metadata } = body;
  return kind === 'Status' ? status === 'Success' : isObject(metadata) && metadata['uid'] === uid;
}

/** The pod as a GET shows it; else why it does not. `no-pod`: the answer is something else, as of a proxy. */
function readPod(
  answer: ApiAnswer,
  { name, uid }: PodRef,
): { readonly kind: 'pod'; readonly body: unknown } | { readonly kind: 'no-pod' } | DeleteAnswer {
  if (isGone(answer, name)) return { kind: 'gone' };
  const failed = notDone(answer, null);
  if (failed !== null) return failed;
  const body = answer.kind === 'answer' ? answer.body : null;
  const its = partOf(body, 'metadata')['uid'];
  if (!isText(its)) return { kind: 'no-pod' };
  return its === uid ? { kind: 'pod', body } : { kind: 'replaced' };
}

/** What a GET of the pod reveals about where it runs. Null: on this node, so that its end may be requested. */
export function readPlace(answer: ApiAnswer, pod: PodRef, nodeName: string): DeleteAnswer | Over | null {
  const read = readPod(answer, pod);
  if (read.kind === 'no-pod')
    return { kind: 'unheard', isTimeout: false, text: 'the answer is no pod, so its node is not known' };
  if (read.kind !== 'pod') return read;
  if (partOf(read.body, 'spec')['nodeName'] === nodeName) return isOver(read.body) ? { kind: 'over' } : null;
  return { kind: 'rejected', status: 200, text: 'not sent: the API server does not show it on this node' };
}

/** What a GET of the pod reveals about a request that got no answer. Null: the server has not accepted it. */
export function readUnheard(answer: ApiAnswer, pod: PodRef): Reading<DeleteAnswer | null> {
  const read = readPod(answer, pod);
  const where = `GET of pod ${pod.name}`;
  if (read.kind === 'no-pod')
    return unknown('malformed', where, 'the API server answered with something that is no pod');
  if (read.kind !== 'pod') return 'text' in read ? unknown('unreadable', where, read.text) : known(read);
  const { deletionTimestamp } = partOf(read.body, 'metadata');
  return known(isText(deletionTimestamp) ? { kind: 'accepted' } : null);
}
