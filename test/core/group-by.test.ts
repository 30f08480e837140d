import { expect, it } from 'vitest';
import { groupBy } from '../../src/core/group-by.ts';

it('groups in the order of the first appearance of each key, and of the items', () => {
  expect([...groupBy(['web-1', 'db-1', 'web-2'], (name) => name.split('-')[0])]).toEqual([
    ['web', ['web-1', 'web-2']],
    ['db', ['db-1']],
  ]);
});
