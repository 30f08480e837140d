import { expect, it } from 'vitest';
import { sayGuardReason, sayWhy } from '../../src/words/guard.ts';
import { sayScope } from '../../src/words/guard-decision.ts';
import { sayNotNow } from '../../src/words/guard-effects.ts';
import { sayOrderAnswer } from '../../src/words/guard-gate.ts';
import { aPodOn } from '../core/guard/a-machine.ts';
import { NODE } from '../core/guard/a-turn.ts';

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

it('what outlasts drainWait is named with what holds it, and is not said to be there if it is not known', () => {
  const attachment = { name: 'csi-1', node: 'w1', driver: 'csi.example', volume: 'pv-1' };
  const pods = [
    aPodOn({ namespace: 'shop', name: 'db-0', finalizers: ['example.com/backup'] }),
    aPodOn({ namespace: 'shop', name: 'db-1', finalizers: [] }),
  ];
  const notDrained = { code: 'not-drained', node: NODE, fencing: 'w1-1' } as const;
  expect(sayGuardReason({ ...notDrained, left: { pods, attachments: [attachment] } })).toBe(
    'w1: still there after drainWait: shop/db-0 (finalizer example.com/backup), shop/db-1, volume pv-1 (csi.example)',
  );
  expect(sayGuardReason({ ...notDrained, left: { pods: [], attachments: [] } })).toBe(
    'w1: which pods and volumes are still there after drainWait is not known',
  );
});

it('an order that is refused before it is known whether a kubelet answered does not say that it did', () => {
  const said = sayOrderAnswer({ isAccepted: false, gate: 'witness', why: 'kubelet-unheard' });
  expect(said).toMatch(/^refused: .* does not know whether its kubelet has answered .* \(gate witness\)$/);
});
