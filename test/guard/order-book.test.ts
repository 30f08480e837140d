import { describe, expect, it } from 'vitest';
import type { Order } from '../../src/core/guard/observation.ts';
import { readOrderBook, withBooked, withoutOld } from '../../src/guard/order-book.ts';

const given = { to: 'g1', by: 'ann', because: 'it burns' };
const node = { name: 'w1', uid: 'u1' };
const ORDERS: readonly Order[] = [
  { id: 'a', ...given, verb: 'pause' },
  { id: 'b', ...given, verb: 'resume' },
  {
    ...{ id: 'c', ...given, verb: 'release' },
    scope: { kind: 'domain', label: 'zone', value: 'z1' },
    forMs: 60_000,
  } as Order,
  { id: 'd', ...given, verb: 'fence', node },
  { id: 'e', ...given, verb: 'power-on', node },
  { id: 'f', ...given, verb: 'rehearse', node },
  { id: 'g', ...given, verb: 'confirm-off', node, checked: 'w1', isDeviceWrong: false },
];
const bookOf = (orders: readonly Order[]) =>
  orders.reduce((data, order) => withBooked(data, { order, atWallMs: 1_000, answer: null }), {});
const oneOf = (text: unknown): Order | undefined => readOrderBook({ a: text })[0]?.order;
const orderText = (order: object): string =>
  JSON.stringify({ order: { ...given, ...order }, atWallMs: 1, answer: null });

describe('the ConfigMap of orders', () => {
  it('has each order as it was given', () => {
    expect(readOrderBook(bookOf(ORDERS)).map(({ order }) => order)).toEqual(ORDERS);
  });

  it('keeps an answer beside its order', () => {
    const [order] = ORDERS;
    if (order === undefined) throw new Error('no order');
    const answer = { said: { isAccepted: false, gate: 'scope', why: 'no-such-node' }, by: 'g1', atWallMs: 2 } as const;
    const data = withBooked(bookOf(ORDERS), { order, atWallMs: 1, answer });
    expect(readOrderBook(data).find(({ order: { id } }) => id === 'a')?.answer).toEqual(answer);
    expect(readOrderBook(data)).toHaveLength(ORDERS.length);
  });

  it.each([
    ['nothing of ours', '{]'],
    ['a number', 7],
    ['another document', '{"order": [1]}'],
    ['no giver', JSON.stringify({ order: { to: 'g1', because: '', verb: 'pause' } })],
    ['a giver with a name without end', orderText({ by: 'x'.repeat(300), verb: 'pause' })],
    ['a text without end', orderText({ verb: 'pause', more: 'x'.repeat(10_000) })],
    ['a verb of another version', orderText({ verb: 'reboot' })],
    ['a name of every object', orderText({ verb: 'constructor' })],
    ['a fencing of no node', orderText({ verb: 'fence' })],
    ['a release without end', orderText({ verb: 'release', scope: { kind: 'cluster' }, forMs: null })],
    ['a release of something', orderText({ verb: 'release', scope: { kind: 'rack' }, forMs: 1 })],
    ['a confirmation without a check', orderText({ verb: 'confirm-off', node })],
  ])('is read as an order with an unknown verb if it has %s', (_, text) => {
    expect(oneOf(text)).toMatchObject({ id: 'a', verb: 'unknown' });
  });

  it.each([[null], ['text'], [[1]]])('is empty if its data is %j', (data) => {
    expect(readOrderBook(data)).toEqual([]);
  });

  it('has no answer where somebody wrote something else', () => {
    const text = (answer: unknown) => JSON.stringify({ order: { ...given, verb: 'pause' }, atWallMs: 1, answer });
    const wrong = [true, {}, { said: { isAccepted: true }, by: 'g', atWallMs: 1 }, { said: 1, by: 'g', atWallMs: 1 }];
    expect(wrong.map((answer) => readOrderBook({ a: text(answer) })[0]?.answer)).toEqual(wrong.map(() => null));
  });

  it('loses the oldest answered orders, and none that waits', () => {
    const answer = { said: { isAccepted: true, fencing: null }, by: 'g1', atWallMs: 2 } as const;
    const data = ORDERS.slice(0, 5).reduce(
      (all, order) => withBooked(all, { order, atWallMs: 1, answer }),
      bookOf(ORDERS),
    );
    expect(Object.keys(withoutOld(data, 2))).toEqual(['d', 'e', 'f', 'g']);
  });
});
