import { expect, it } from 'vitest';
import { factsOf } from '../../../src/simulate/guard/facts.ts';
import { type Json, MEMBER, run } from './a-world.ts';

const NODES: readonly Json[] = [{ names: 'w[1-5]', pods: [{ ...MEMBER, name: 'db-{node}' }] }];
const taint = (at: string, value: string | null): Json => ({
  ...{ at, node: 'w2', taint: { 'node.kubernetes.io/out-of-service': value } },
});
const DIES: Json = { at: '5m', node: 'w2', freeze: true };

/** guard.md: under an out-of-service taint of somebody else nothing is powered on (G11), whoever sends the `on`, and why. */
it.each<[what: string, events: readonly Json[]]>([
  [
    'by a guard that takes over',
    [DIES, { at: '6m', guard: { name: 'leader', kill: true, atPhase: 'on-sent' } }, taint('8m15s', 'nodeshutdown')],
  ],
  [
    'once more, because the device says off',
    [
      DIES,
      { at: '7m50s', device: { node: 'w2', fails: true } },
      taint('8m15s', 'nodeshutdown'),
      { at: '8m15s', device: { node: 'w2', works: true } },
    ],
  ],
  [
    'by a fencing that is given up',
    [
      { at: '5m', node: 'w2', kubelet: 'stop' },
      { at: '5m10s', order: { verb: 'fence', node: 'w2', by: 'anna', because: 'its disks' } },
      { at: '5m14s', device: { node: 'w2', lies: true, says: 'on' } },
      { at: '10m', node: 'w2', power: 'off' },
      taint('10m10s', 'nodeshutdown'),
      { at: '11m', device: { node: 'w2', works: true } },
    ],
  ],
])('nothing is powered on under a taint of somebody else: %s', (_, events) => {
  const { facts, violations } = run({
    ...{ nodes: NODES, world: { duration: '1h' } },
    events: [...events, taint('25m', null)],
  });
  const on = factsOf(facts, 'command').filter(({ action, atMs }) => action === 'on' && atMs > 525_000);
  const early = on.filter(({ atMs }) => atMs < 25 * 60_000);
  expect([early, violations]).toEqual([[], []]);
  expect(on.length).toBeGreaterThan(0);
});
