import { expect, it } from 'vitest';
import { factsOf } from '../../../src/simulate/guard/facts.ts';
import { type Json, run } from './a-world.ts';

const rehearse = (at: string, node: string): Json => ({ at, order: { verb: 'rehearse', node, by: 'anna' } });
/** What each rehearsal has shown; w1 is cut at 6m7s, boots at 7m43s, and its rehearsal ends at 7m48s. */
const shown = (...events: readonly Json[]): readonly string[] => shownIn({}, ...events);
function shownIn({ config, world = {} }: Json & { readonly config?: Json }, ...events: readonly Json[]) {
  const { facts } = run({
    ...{ world, config: { recovery: { stableFor: '5s' }, ...config } },
    nodes: [{ names: 'w[1-5]', pods: [{ name: 'agent-{node}', tolerates: true }] }],
    events: [
      { at: '5m', node: 'w1', cordon: true },
      { at: '5m', node: 'w2', cordon: true },
      rehearse('6m', 'w1'),
      ...events,
    ],
  });
  return factsOf(facts, 'phase').flatMap(({ phase, node, why }) => (phase === 'closed' ? [`${node} ${why}`] : []));
}

it('a node that was rehearsed a moment ago says nothing against the devices of the next one', () => {
  expect(shown(rehearse('7m50s', 'w2'))).toEqual(['w1 rehearsed', 'w2 rehearsed']);
});
it('it does if it falls silent once more', () => {
  expect(shown(rehearse('7m50s', 'w2'), { at: '8m', node: 'w1', freeze: true })).toEqual([
    'w1 rehearsed',
    'w2 not-alone',
  ]);
});
it('of two that are rehearsed at once neither shows which device cut which machine', () => {
  expect(shown(rehearse('7m', 'w2'))).toEqual(['w1 beside-another', 'w2 beside-another']);
});
it('a third one that falls silent meanwhile speaks against both', () => {
  const events = [rehearse('7m', 'w2'), { at: '7m', node: 'w3', freeze: true }];
  expect(shown(...events).slice(0, 2)).toEqual(['w1 not-alone', 'w2 not-alone']);
});

it.each<[string, Json]>([
  ['nodes are long not suspect', { config: { suspectAfter: '5m', deadAfter: '10m' } }],
  ['leases are long', { world: { leaseEvery: '60s', readyUnknownAfter: '250s' } }],
])('another machine that lost its power with it speaks against its devices, also if %s', (_, world) => {
  expect(shownIn(world, { at: '6m8s', node: 'w3', power: 'off' })).toEqual(['w1 not-alone']);
  expect(shownIn(world)).toEqual(['w1 rehearsed']);
});
