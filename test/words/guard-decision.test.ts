import { expect, it } from 'vitest';
import { sayWhy } from '../../src/words/guard.ts';
import { sayScope } from '../../src/words/guard-decision.ts';
import { sayNotNow } from '../../src/words/guard-effects.ts';

it.each([
  ['workers', 'cluster'],
  ['control-plane', 'control plane'],
  ['exclude-disruption', 'nodes with exclude-disruption'],
  ['of-a-newer-version', 'of-a-newer-version'],
])('the group %s of a storm is said as %s', (group, said) => {
  expect(sayScope({ kind: 'cluster', group }, (uid) => uid)).toBe(said);
});

it('devices that were corrected are a reason in words, not a code', () => {
  expect(sayWhy('devices-changed')).toBe('its devices are configured otherwise by now');
  expect(sayNotNow('devices-changed')).toBe('meanwhile: its devices are configured otherwise by now');
});
