import { expect, it } from 'vitest';
import { sayScope } from '../../src/words/guard-decision.ts';

it.each([
  ['workers', 'cluster'],
  ['control-plane', 'control plane'],
  ['exclude-disruption', 'nodes with exclude-disruption'],
  ['of-a-newer-version', 'of-a-newer-version'],
])('the group %s of a storm is said as %s', (group, said) => {
  expect(sayScope({ kind: 'cluster', group }, (uid) => uid)).toBe(said);
});
