import type { Order } from '../core/guard/observation.ts';
import type { NodeRef } from '../core/guard/record.ts';
import { isText, partOf } from '../core/shape.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet, GuardSend } from '../kube/api/connection.ts';
import { notDone } from '../kube/api/write-failure.ts';
import type { Clock } from '../ports.ts';
import { createGuardWrites, type GuardWrites, LEADER_LEASE, type MapData } from './api-writes.ts';
import { readLeaderLease } from './leader-lease.ts';
import { type AnsweredOrder, answerIn, GUARD_ORDERS, isOrdered, withOrder, withoutOrder } from './orders.ts';
import { readOwnMap } from './own-map.ts';

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
  const map = { get: api.get, namespace, writes };
  const leader = await leaderOf(api.get, namespace);
  if (leader.kind !== 'leader') return leader;
  const node = given.node === undefined ? null : await nodeOf(api.get, given.node);
  if (node !== null && 'kind' in node) return node;
  // The compiler cannot follow that exactly the verbs with a node have one.
  const order = { ...given, ...(node === null ? {} : { node }), id, to: leader.name } as Order;
  const give = () => change(map, (data) => (isOrdered(data, id) ? null : withOrder(data, order, leader.lease)));
  const written = await give();
  if (written !== null && !written.mayBeDone) return written.end;
  // It may come late: once another one was stored, it is refused. What changes nothing would be no write.
  if (written !== null) await give();
  const endMs = clock.monoMs() + ANSWER_MS;
  while (clock.monoMs() < endMs) {
    await sleep(clock, LOOK_MS);
    const read = await readOwnMap(map, GUARD_ORDERS);
    const answer = read.kind === 'read' ? answerIn(read, id) : null;
    if (answer !== null) return { kind: 'answered', id, answer: answer.answer, leader: leader.name };
  }
  let late: AnsweredOrder | null = null;
  const withdrawn = await change(map, (data) => {
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
  const { holder, isDryRun, version } = lease.value;
  if (holder === '') return { kind: 'no-leader' } as const;
  return isDryRun
    ? ({ kind: 'dry-run', leader: holder } as const)
    : ({ kind: 'leader', name: holder, lease: version } as const);
}

async function nodeOf(get: ApiGet, name: string): Promise<Pick<NodeRef, 'name' | 'uid'> | OrderEnd> {
  const answer = await get(`/api/v1/nodes/${name}`, GET_MS);
  if (answer.kind === 'answer' && answer.status === 404) return { kind: 'no-such-node' };
  const failed = notDone(answer, null);
  const body = answer.kind === 'answer' ? answer.body : null;
  const { uid } = partOf(body, 'metadata');
  if (failed === null && isText(uid)) return { name, uid };
  return { kind: 'failed', what: `read the Node ${name}`, detail: failed?.text ?? 'it has no uid' };
}

/**
 * Read, changed and written back, again while somebody else writes in between. Null: done, or there is nothing to do.
 * `mayBeDone`: it may have been written all the same.
 */
async function change(
  { get, namespace, writes }: OrdersMap,
  next: (data: MapData) => MapData | null,
): Promise<{ readonly end: OrderEnd; readonly mayBeDone: boolean } | null> {
  const failed = (detail: string, mayBeDone = false) => ({
    end: { kind: 'failed', what: `write the ConfigMap ${GUARD_ORDERS}`, detail } as const,
    mayBeDone,
  });
  for (let tried = 1; ; tried++) {
    const read = await readOwnMap({ get, namespace }, GUARD_ORDERS);
    if (read.kind !== 'read') return failed(read.detail);
    const data = next(read.data);
    if (data === null) return null;
    const stored = await writes.putMap(GUARD_ORDERS, data, read.version, read.labels);
    if (stored.kind === 'stored') return null;
    if (stored.kind === 'failed') return failed(stored.detail, stored.mayBeDone);
    if (tried === TRIES) return failed(stored.detail);
  }
}
type OrdersMap = { readonly get: ApiGet; readonly namespace: string; readonly writes: Pick<GuardWrites, 'putMap'> };
