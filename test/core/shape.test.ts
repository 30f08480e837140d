import { expect, it } from 'vitest';
import { isNumber, isText, objectsIn, parseJson, partOf, union } from '../../src/core/shape.ts';

it('a number is finite, and a text is text', () => {
  expect([0, Number.NaN, '1', null].map(isNumber)).toEqual([true, false, false, false]);
  expect(['', 0, null, {}].map(isText)).toEqual([true, false, false, false]);
});

it('what somebody else wrote is empty where it is not there, or is something else', () => {
  expect([{ a: { b: 1 } }, { a: [1] }, { a: null }, {}, null, 'a'].map((value) => partOf(value, 'a'))).toEqual([
    { b: 1 },
    ...[{}, {}, {}, {}, {}],
  ]);
  expect(objectsIn([{ a: 1 }, null, [2], 'x'])).toEqual([{ a: 1 }]);
  expect([null, { 0: {} }, 'x'].map(objectsIn)).toEqual([[], [], []]);
});

it('of several kinds only one that there is has a shape', () => {
  const isOne = union<{ readonly kind: 'a'; readonly n: number } | { readonly kind: 'b' }>({
    a: { n: isNumber },
    b: {},
  });
  const values = [
    { kind: 'a', n: 1 },
    { kind: 'b' },
    { kind: 'a' },
    { kind: 'c' },
    { kind: 'toString' },
    { kind: 1 },
    null,
  ];
  expect(values.map(isOne)).toEqual([true, true, false, false, false, false, false]);
});

it('text that is not JSON is nothing', () => {
  expect(['{"a":1}', '{', ''].map(parseJson)).toEqual([{ a: 1 }, null, null]);
});
