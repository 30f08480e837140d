import type { Order } from '../core/guard/observation.ts';
import type { NodeRef } from '../core/guard/record.ts';
import { isObject, isText } from '../core/shape.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet, GuardSend } from '../kube/connection.ts';
import { notDone } from '../kube/write-failure.ts';
import type { Clock } from '../ports.ts';
import { createGuardWrites, type GuardWrites, LEADER_LEASE, versionOf } from './api-writes.ts';
import { readLeaderLease } from './leader-lease.ts';
import { type AnsweredOrder, answerIn, dataOf, GUARD_ORDERS, withOrder, withoutOrder } from './orders.ts';

type Distribute<O, K extends string> = O extends unknown ? Omit<O, K> : never;
type Given = Distribute<Exclude<Order, { verb: 'unknown' }>, 'id' | 'to'>;
/** An order before it is known for which leader it is, and which Node has the name. */
export type OrderGiven = Distribute<Given, 'node'> & { readonly node?: string };

export type OrderEnd =
  | {
      readonly kind: 'answered';
      readonly id: string;
      readonly answer: AnsweredOrder['answer'];
      readonly leader: string;
    }
  | { readonly kind: 'no-such-node' }
  /** The leader is in dry run: it writes nothing, no answer either. Nothing was written. */
  | { readonly kind: 'dry-run'; readonly leader: string }
  /** Nobody holds the lease. Nothing was written. */
  | { readonly kind: 'no-leader' }
  /** `isWithdrawn` false: it may still be carried out. */
  | { readonly kind: 'no-answer'; readonly leader: string; readonly isWithdrawn: boolean }
  /** The API server did not do what was asked for; `what`: as a verb with its object. */
  | { readonly kind: 'failed'; readonly what: string; readonly detail: string };

export type OrderNeeds = {
  readonly api: { readonly get: ApiGet; readonly send: GuardSend };
  readonly clock: Clock;
  readonly namespace: string;
  /** Of the order; lower-case letters, digits and `-`. */
  readonly id: string;
};

const GET_MS = 5_000;
const ANSWER_MS = 30_000;
const LOOK_MS = 500;
const TRIES = 5;

/**
 * Writes an order of a person for the guard that leads, and waits for the answer. An order that nobody answers is taken back:
 * nobody may be surprised by it later. Never rejects.
 */
export async function giveOrder(given: OrderGiven, { api, clock, namespace, id }: OrderNeeds): Promise<OrderEnd> {
  const writes = createGuardWrites({ send: api.send, namespace });
  const place = `/api/v1/namespaces/${namespace}/configmaps/${GUARD_ORDERS}`;
  const leader = await leaderOf(api.get, namespace);
  if (leader.kind !== 'leader') return leader;
  const node = given.node === undefined ? null : await nodeOf(api.get, given.node);
  if (node !== null && 'kind' in node) return node;
  // The compiler cannot follow that exactly the verbs with a node have one.
  const order = { ...given, ...(node === null ? {} : { node }), id, to: leader.name } as Order;
  const written = await change(api.get, writes, place, (data) => withOrder(data, order));
  if (written !== null) return written;
  const endMs = clock.monoMs() + ANSWER_MS;
  while (clock.monoMs() < endMs) {
    await sleep(clock, LOOK_MS);
    const answer = answerIn(await bodyOf(api.get, place), id);
    if (answer !== null) return { kind: 'answered', id, answer: answer.answer, leader: leader.name };
  }
  let late: AnsweredOrder | null = null;
  const withdrawn = await change(api.get, writes, place, (data) => {
    late = answerIn({ data }, id);
    return late === null ? withoutOrder(data, id) : null;
  });
  const answered = late as AnsweredOrder | null;
  if (answered !== null) return { kind: 'answered', id, answer: answered.answer, leader: leader.name };
  return { kind: 'no-answer', leader: leader.name, isWithdrawn: withdrawn === null };
}

async function leaderOf(get: ApiGet, namespace: string) {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${LEADER_LEASE}`;
  const answer = await get(path, GET_MS);
  if (answer.kind === 'answer' && answer.status === 404) return { kind: 'no-leader' } as const;
  const failed = notDone(answer, null);
  const lease = readLeaderLease(answer.kind === 'answer' ? answer.body : null);
  if (failed !== null || !lease.known) {
    const detail = failed?.text ?? (lease.known ? '' : lease.detail);
    return { kind: 'failed', what: `read the Lease ${namespace}/${LEADER_LEASE}`, detail } as const;
  }
  const { holder, isDryRun } = lease.value;
  if (holder === '') return { kind: 'no-leader' } as const;
  return isDryRun ? ({ kind: 'dry-run', leader: holder } as const) : ({ kind: 'leader', name: holder } as const);
}

async function nodeOf(get: ApiGet, name: string): Promise<Pick<NodeRef, 'name' | 'uid'> | OrderEnd> {
  const answer = await get(`/api/v1/nodes/${name}`, GET_MS);
  if (answer.kind === 'answer' && answer.status === 404) return { kind: 'no-such-node' };
  const failed = notDone(answer, null);
  const body = answer.kind === 'answer' ? answer.body : null;
  const metadata = isObject(body) && isObject(body['metadata']) ? body['metadata'] : {};
  const { uid } = metadata;
  if (failed === null && isText(uid)) return { name, uid };
  return { kind: 'failed', what: `read the Node ${name}`, detail: failed?.text ?? 'it has no uid' };
}

async function bodyOf(get: ApiGet, place: string): Promise<unknown> {
  const answer = await get(place, GET_MS);
  return answer.kind === 'answer' && answer.status === 200 ? answer.body : null;
}

type Data = ReturnType<typeof dataOf>;

/** Read, changed and written back, again while somebody else writes in between. Null: done, or there is nothing to do. */
async function change(
  get: ApiGet,
  writes: Pick<GuardWrites, 'putMap'>,
  place: string,
  next: (data: Data) => Data | null,
): Promise<OrderEnd | null> {
  const failed = (detail: string): OrderEnd => ({
    kind: 'failed',
    what: `write the ConfigMap ${GUARD_ORDERS}`,
    detail,
  });
  for (let tried = 1; ; tried++) {
    const answer = await get(place, GET_MS);
    const isAbsent = answer.kind === 'answer' && answer.status === 404;
    const problem = isAbsent ? null : notDone(answer, null);
    if (problem !== null) return failed(problem.text);
    const body = answer.kind === 'answer' ? answer.body : null;
    const data = next(dataOf(body));
    if (data === null) return null;
    const stored = await writes.putMap(GUARD_ORDERS, data, isAbsent ? null : versionOf(body));
    if (stored.kind === 'stored') return null;
    if (stored.kind === 'failed' || tried === TRIES) return failed(stored.detail);
  }
}
