import { expect, it } from 'vitest';
import { factsOf } from '../../../src/simulate/guard/facts.ts';
import { run } from './a-world.ts';

it('a guard of a large cluster that asks many devices goes on reading: the API server was never away', () => {
  const { facts } = run({
    nodes: [{ names: 'w[1-600]' }],
    config: { patrol: { every: '1m' } },
    world: { duration: '1m' },
  });
  const settled = factsOf(facts, 'reason').flatMap(({ reason }) => (reason.code === 'settling' ? [reason.for] : []));
  expect(settled).toEqual(['election']);
});
