import { GATES, type OrderAnswer } from '../core/guard/decision.ts';
import type { Order, ReleaseScope } from '../core/guard/observation.ts';
import {
  type Check,
  isFlag,
  isNumber,
  isObject,
  isOneOf,
  isText,
  optional,
  orNull,
  parseJson,
  shape,
} from '../core/shape.ts';

/** The ConfigMap in which persons leave orders and the leader its answers: for each order its id and one JSON text. */
export const GUARD_ORDERS = 'guard-orders';

export type BookedOrder = {
  readonly order: Order;
  /** When it was given, by the clock of the person's machine: for display. */
  readonly atWallMs: number;
  readonly answer: BookedAnswer | null;
};
/** `by`: the leader that gave it. */
export type BookedAnswer = { readonly said: OrderAnswer; readonly by: string; readonly atWallMs: number };

/** The field `data` of a ConfigMap. */
export type BookData = { readonly [id: string]: string };

const MAX_ORDERS = 200;
/** A person's name, and why; in characters. */
export const MAX_BY = 200;
export const MAX_BECAUSE = 1_000;
const MAX_TEXT = 8 * 1024;

/** Whoever may write the ConfigMap may write anything: what is no order is one with an unknown verb, to be refused. */
export function readOrderBook(data: unknown): readonly BookedOrder[] {
  const entries = Object.entries(isObject(data) ? data : {}).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.slice(-MAX_ORDERS).map(([id, text]) => bookedIn(id, text));
}

function bookedIn(id: string, text: unknown): BookedOrder {
  const value = isText(text) && text.length <= MAX_TEXT ? parseJson(text) : null;
  const { order, atWallMs, answer } = isObject(value) ? value : {};
  return {
    order: orderIn(id, order),
    atWallMs: isNumber(atWallMs) ? atWallMs : 0,
    answer: isAnswer(answer) ? answer : null,
  };
}

function orderIn(id: string, value: unknown): Order {
  if (!isObject(value) || !isSaid(value)) {
    return { id, to: '', by: '', because: '', verb: 'unknown', said: 'not an order' };
  }
  const { to, by, because, verb } = value;
  const given = { id, to, by, because };
  const known = Object.hasOwn(VERBS, verb) ? VERBS[verb as KnownVerb](value) : null;
  return known === null ? { ...given, verb: 'unknown', said: verb.slice(0, MAX_BY) } : { ...given, ...known };
}

type KnownVerb = Exclude<Order['verb'], 'unknown'>;
type Special = Order extends infer O ? (O extends Order ? Omit<O, keyof Given> : never) : never;
type Given = Pick<Order, 'id' | 'to' | 'by' | 'because'>;
type Json = { readonly [name: string]: unknown };

const upTo =
  (most: number): Check =>
  (value) =>
    isText(value) && value.length <= most;
const isSaid = shape<Omit<Given, 'id'> & { readonly verb: string }>({
  to: upTo(MAX_BY),
  by: upTo(MAX_BY),
  because: upTo(MAX_BECAUSE),
  verb: isText,
});
const isNode = shape<{ readonly name: string; readonly uid: string }>({ name: isText, uid: isText });

const onNode =
  (verb: 'fence' | 'power-on' | 'rehearse') =>
  ({ node }: Json): Special | null =>
    isNode(node) ? { verb, node: { name: node.name, uid: node.uid } } : null;

/** What is special of each verb; null: it is not all there. */
const VERBS: { readonly [V in KnownVerb]: (value: Json) => Special | null } = {
  pause: () => ({ verb: 'pause' }),
  resume: () => ({ verb: 'resume' }),
  release: ({ scope, forMs }) => (isScope(scope) && isNumber(forMs) ? { verb: 'release', scope, forMs } : null),
  fence: onNode('fence'),
  'power-on': onNode('power-on'),
  rehearse: onNode('rehearse'),
  'confirm-off': ({ node, checked, isDeviceWrong }) =>
    isNode(node) && isText(checked) && isFlag(isDeviceWrong)
      ? { verb: 'confirm-off', node: { name: node.name, uid: node.uid }, checked, isDeviceWrong }
      : null,
};

function isScope(value: unknown): value is ReleaseScope {
  if (!isObject(value)) return false;
  const { kind, label, value: of, name } = value;
  return kind === 'cluster' || (kind === 'domain' && isText(label) && isText(of)) || (kind === 'node' && isText(name));
}

/** `why`: a newer leader may know reasons that this version does not. */
function isAnswer(value: unknown): value is BookedAnswer {
  if (!isObject(value) || !isText(value['by']) || !isNumber(value['atWallMs'])) return false;
  const { said } = value;
  return isObject(said) && said['isAccepted'] === true
    ? orNull(isText)(said['fencing'])
    : isObject(said) && said['isAccepted'] === false && isText(said['why']) && optional(isGate)(said['gate']);
}
const isGate = orNull(isOneOf(...GATES));

const entryOf = (id: string, { order: { id: _, ...order }, ...rest }: BookedOrder): BookData => ({
  [id]: JSON.stringify({ order, ...rest }),
});

/** With the order, or in place of the one of its id. */
export function withBooked(data: BookData, booked: BookedOrder): BookData {
  return { ...data, ...entryOf(booked.order.id, booked) };
}

/** Without the oldest answered orders, so that so many are left. */
export function withoutOld(data: BookData, most: number): BookData {
  const answered = readOrderBook(data).filter(({ answer }) => answer !== null);
  const old = new Set(answered.slice(0, Math.max(0, answered.length - most)).map(({ order }) => order.id));
  return Object.fromEntries(Object.entries(data).filter(([id]) => !old.has(id)));
}
