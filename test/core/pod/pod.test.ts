import { expect, it } from 'vitest';
import { namesOf } from '../../../src/core/pod/pod.ts';
import { aPod } from '../../a.ts';

it('a pod is named by its namespace and its name, one that is not there by its uid', () => {
  const nameOf = namesOf([aPod({ name: 'web' }), aPod({ name: 'db', namespace: 'shop' })]);
  expect(['uid-web', 'uid-db', 'uid-gone'].map(nameOf)).toEqual(['default/web', 'shop/db', 'uid-gone']);
});
