import type { OrderAnswer } from '../core/guard/decision.ts';
import { GATES } from '../core/guard/decision.ts';
import type { Order, ReleaseScope } from '../core/guard/observation.ts';
import { isNumber, isObject, isOneOf, isText, orNull, parseJson, shape } from '../core/shape.ts';
import type { MapData } from './api-writes.ts';
import { mapData } from './own-map.ts';

/**
 * The ConfigMap `guard-orders`. A person adds `order-<id>`, the leader adds `answer-<id>`, both JSON. What a person writes is
 * checked here as far as it can be understood; what cannot be is refused by the core, and answered. How old an order is shows
 * in its `lease`, the resourceVersion of the leader's Lease when it was given (G7).
 */
export const GUARD_ORDERS = 'guard-orders';
const ORDER = 'order-';
const ANSWER = 'answer-';
const ID = /^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$/;
const MAX_ORDERS = 100;
/** Of one order; and of what a person says in it. */
const MAX_BYTES = 8 * 1024;
const MAX_TEXT = 500;
/** Answered orders that stay, so that a person can look them up. */
const KEPT_ANSWERS = 50;

export type AnsweredOrder = { readonly answer: OrderAnswer; readonly wallMs: number };

/** Another order, for a person to write. `lease`: as read for it. */
export const withOrder = (data: MapData, order: Order, lease: string): MapData => ({
  ...data,
  [ORDER + order.id]: JSON.stringify({ ...order, lease }, null, 1),
});

/** Taken back by the person: nobody has answered it. */
export const withoutOrder = (data: MapData, id: string): MapData =>
  Object.fromEntries(Object.entries(data).filter(([key]) => key !== ORDER + id));

/** Null: not answered yet, or what stands there is no answer. */
export function answerIn(map: unknown, id: string): AnsweredOrder | null {
  const answered = parseJson(mapData(map)[ANSWER + id] ?? '');
  return isAnswered(answered) ? answered : null;
}

/** An answer, for the leader to write; the oldest answered orders go, and those that seem to be of a later time. */
export function withAnswer(data: MapData, id: string, answered: AnsweredOrder): MapData {
  const next = { ...data, [ANSWER + id]: JSON.stringify(answered, null, 1) };
  const wallMsOf = (one: string): number => answerIn({ data: next }, one)?.wallMs ?? 0;
  const old = idsIn(data, ANSWER)
    .filter((one) => one !== id)
    .map((one) => ({ one, wallMs: wallMsOf(one) > answered.wallMs ? 0 : wallMsOf(one) }))
    .sort((a, b) => b.wallMs - a.wallMs)
    .slice(KEPT_ANSWERS - 1)
    .flatMap(({ one }) => [ORDER + one, ANSWER + one]);
  return Object.fromEntries(Object.entries(next).filter(([key]) => !old.includes(key)));
}

/** Whether the order is still there to be answered. */
export const isOrdered = (data: MapData, id: string): boolean => Object.hasOwn(data, ORDER + id);

/**
 * Orders without an answer, by id. `map`: the ConfigMap as the API has it; null: there is none. One with a `lease` that is not
 * recent was written for a leader of that time: for nobody.
 */
export function readOrders(map: unknown, isRecent: (lease: string) => boolean): readonly Order[] {
  const data = mapData(map);
  return idsIn(data, ORDER)
    .filter((id) => !Object.hasOwn(data, ANSWER + id))
    .sort()
    .slice(0, MAX_ORDERS)
    .map((id) => orderIn(id, data[ORDER + id] ?? '', isRecent));
}

const idsIn = (data: MapData, prefix: string): readonly string[] =>
  Object.keys(data).flatMap((key) => {
    const id = key.startsWith(prefix) ? key.slice(prefix.length) : '';
    return ID.test(id) ? [id] : [];
  });

function orderIn(id: string, text: string, isRecent: (lease: string) => boolean): Order {
  const said = Buffer.byteLength(text) <= MAX_BYTES ? parseJson(text) : null;
  const field = (name: string): unknown => (isObject(said) ? said[name] : null);
  const word = (name: string): string => textOf(field(name));
  const whose = { id, to: isRecent(word('lease')) ? word('to') : '', by: word('by'), because: word('because') };
  const verb = word('verb');
  switch (verb) {
    case 'pause':
    case 'resume':
      return { ...whose, verb };
    case 'release': {
      const scope = scopeOf(field('scope'));
      const forMs = field('forMs');
      if (scope === null || !isNumber(forMs) || forMs <= 0) break;
      return { ...whose, verb, scope, forMs };
    }
    case 'fence':
    case 'power-on':
    case 'rehearse':
      return { ...whose, verb, node: nodeOf(field('node')) };
    case 'confirm-off':
      return {
        ...{ ...whose, verb, node: nodeOf(field('node')) },
        ...{ checked: word('checked'), isDeviceWrong: field('isDeviceWrong') === true },
      };
  }
  return { ...whose, verb: 'unknown', said: verb };
}

/** Longer than any honest one is none: '' names nobody and nothing, and is refused. */
const textOf = (value: unknown): string => (isText(value) && value.length <= MAX_TEXT ? value : '');

const nodeOf = (value: unknown): { readonly name: string; readonly uid: string } =>
  isObject(value) ? { name: textOf(value['name']), uid: textOf(value['uid']) } : { name: '', uid: '' };

function scopeOf(value: unknown): ReleaseScope | null {
  if (!isObject(value)) return null;
  const [name, label, domain] = [textOf(value['name']), textOf(value['label']), textOf(value['value'])];
  switch (value['kind']) {
    case 'cluster':
      return { kind: 'cluster' };
    case 'domain':
      return label === '' ? null : { kind: 'domain', label, value: domain };
    case 'node':
      return name === '' ? null : { kind: 'node', name };
    default:
      return null;
  }
}

const isAnswer = (value: unknown): value is OrderAnswer =>
  isObject(value) &&
  (value['isAccepted'] === true
    ? orNull(isText)(value['fencing'])
    : value['isAccepted'] === false && orNull(isOneOf(...GATES))(value['gate']) && isText(value['why']));
const isAnswered = shape<AnsweredOrder>({ answer: isAnswer, wallMs: isNumber });
