import { describe, expect, it } from 'vitest';
import type { Order } from '../../src/core/guard/observation.ts';
import { answerIn, readOrders, withAnswer, withOrder } from '../../src/guard/orders.ts';

const given = { to: 'g1-a', by: 'ann', because: 'it burns' };
const node = { name: 'w1', uid: 'u1' };
const ORDERS: readonly Order[] = [
  { id: 'a', ...given, verb: 'pause' },
  { id: 'b', ...given, verb: 'resume' },
  { id: 'c', ...given, verb: 'release', scope: { kind: 'domain', label: 'zone', value: 'z1' }, forMs: 60_000 },
  { id: 'd', ...given, verb: 'release', scope: { kind: 'cluster' }, forMs: 1 },
  { id: 'e', ...given, verb: 'release', scope: { kind: 'node', name: 'w1' }, forMs: 1 },
  { id: 'f', ...given, verb: 'fence', node },
  { id: 'g', ...given, verb: 'power-on', node },
  { id: 'h', ...given, verb: 'rehearse', node },
  { id: 'i', ...given, verb: 'confirm-off', node, checked: 'w1', isDeviceWrong: true },
];
const dataOf = (orders: readonly Order[]) => orders.reduce((data, order) => withOrder(data, order, '7'), {});
const isRecent = (lease: string): boolean => lease === '7';
const read = (text: string) => readOrders({ data: { 'order-a': text } }, isRecent)[0];
const YES = { answer: { isAccepted: true, fencing: null }, wallMs: 5 } as const;

describe('the orders', () => {
  it('are read as they were given', () => {
    expect(readOrders({ data: dataOf(ORDERS) }, isRecent)).toEqual(ORDERS);
  });

  it('are there until they are answered, and then the answer is', () => {
    const data = withAnswer(dataOf(ORDERS), 'c', YES);
    expect(readOrders({ data }, isRecent)).toEqual(ORDERS.filter(({ id }) => id !== 'c'));
    expect(answerIn({ data }, 'c')).toEqual(YES);
    expect(answerIn({ data }, 'a')).toBeNull();
    const no = { answer: { isAccepted: false, gate: 'scope', why: 'own-node' }, wallMs: 6 } as const;
    expect(answerIn({ data: withAnswer(data, 'c', no) }, 'c')).toEqual(no);
  });

  it('that were answered longest ago go, and none that waits', () => {
    let data = dataOf(ORDERS);
    for (let i = 0; i < 60; i++) {
      data = withAnswer(withOrder(data, { id: `x${i}`, ...given, verb: 'pause' }, '7'), `x${i}`, { ...YES, wallMs: i });
    }
    expect(readOrders({ data }, isRecent)).toEqual(ORDERS);
    expect(answerIn({ data }, 'x9')).toBeNull();
    expect(answerIn({ data }, 'x10')).toEqual({ ...YES, wallMs: 10 });
    expect(Object.keys(data)).toHaveLength(ORDERS.length + 100);
  });

  it('of which the last one to be answered stays, whatever the times of the others', () => {
    const later = { ...YES, wallMs: 1e15 };
    let data = dataOf(ORDERS);
    for (let i = 0; i < 60; i++) data = { ...data, [`answer-x${i}`]: JSON.stringify(later) };
    data = withAnswer(data, 'a', YES);
    data = withAnswer(data, 'b', { ...YES, wallMs: 6 });
    expect([answerIn({ data }, 'a'), answerIn({ data }, 'b')]).toEqual([YES, { ...YES, wallMs: 6 }]);
    for (let i = 0; i < 60; i++) data = { ...data, [`answer-x${i}`]: JSON.stringify(later) };
    data = withAnswer(data, 'c', { ...YES, wallMs: 7 });
    expect([answerIn({ data }, 'b'), answerIn({ data }, 'c')]).toEqual([
      { ...YES, wallMs: 6 },
      { ...YES, wallMs: 7 },
    ]);
  });

  it('are for nobody if they are of an earlier time, or do not say of which', () => {
    const [order] = ORDERS;
    if (order === undefined) throw new Error('no order');
    const to = (text: string): string | undefined => read(text)?.to;
    expect(readOrders({ data: withOrder({}, order, '6') }, isRecent)).toEqual([{ ...order, to: '' }]);
    expect([to('{"verb": "pause", "to": "g1-a"}'), to('{"verb": "pause", "to": "g1-a", "lease": 7}')]).toEqual([
      '',
      '',
    ]);
  });

  it.each([
    ['no JSON', '{]', ''],
    ['a list', '[1]', ''],
    ['another verb', '{"verb": "reboot"}', 'reboot'],
    ['a name of every object', '{"verb": "constructor"}', 'constructor'],
    ['a release without end', '{"verb": "release", "scope": {"kind": "cluster"}}', 'release'],
    ['a release backwards', '{"verb": "release", "scope": {"kind": "cluster"}, "forMs": -1}', 'release'],
    ['a release of something', '{"verb": "release", "scope": {"kind": "rack"}, "forMs": 1}', 'release'],
    ['a text without end', JSON.stringify({ verb: 'pause', more: 'x'.repeat(10_000) }), ''],
    ['a verb without end', JSON.stringify({ verb: 'x'.repeat(600) }), ''],
  ])('of %s has an unknown verb, to be refused', (_, text, said) => {
    expect(read(text)).toMatchObject({ id: 'a', verb: 'unknown', said });
  });

  it.each([
    ['{"verb": "pause"}', { verb: 'pause', to: '', by: '', because: '' }],
    ['{"verb": "pause", "by": 7, "to": ["g1-a"]}', { verb: 'pause', to: '', by: '' }],
    [JSON.stringify({ verb: 'pause', by: 'x'.repeat(501) }), { by: '' }],
    ['{"verb": "fence"}', { verb: 'fence', node: { name: '', uid: '' } }],
    ['{"verb": "fence", "node": {"name": {}, "uid": 7}}', { verb: 'fence', node: { name: '', uid: '' } }],
    ['{"verb": "confirm-off", "isDeviceWrong": "yes"}', { verb: 'confirm-off', checked: '', isDeviceWrong: false }],
  ])('name nobody and nothing where they are not text: %s', (text, order) => {
    expect(read(text)).toMatchObject(order);
  });

  it('are at most 100 at a time, and none with a key that is no id', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`order-${i}`, '{"verb": "pause"}']));
    expect(readOrders({ data: many }, isRecent)).toHaveLength(100);
    expect(
      readOrders(
        { data: { 'order-': '{}', 'order-../x': '{}', order: '{}', [`order-${'x'.repeat(65)}`]: '{}' } },
        isRecent,
      ),
    ).toEqual([]);
    expect([null, {}, { data: 7 }, 'x'].flatMap((map) => readOrders(map, isRecent))).toEqual([]);
  });

  it.each([
    'true',
    '{}',
    '{"answer": {"isAccepted": false}, "wallMs": 1}',
    '{"answer": {"isAccepted": true, "fencing": null}}',
    '{',
  ])('have no answer where somebody wrote %s', (text) =>
    expect(answerIn({ data: { 'answer-a': text } }, 'a')).toBeNull(),
  );
});
