import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import { aRandomNode, play } from './a-random-node.ts';

const NEAR_MS = 3_000;

// What only its hogs make short of memory, and what a kill gives back within 3 s (D3), costs nobody else anything.
it('no pod within its request is evicted on a node that only its hogs make short of memory', () => {
  let evictions = 0;
  fc.assert(
    fc.property(aRandomNode, (node) => {
      const { evicted, said } = play(node);
      evictions += evicted.length;
      const [innocent] = evicted.filter(({ isHog }) => !isHog);
      if (innocent === undefined) return;
      const { pod, atMs } = innocent;
      const near = said.filter(({ at }) => Math.abs(at - atMs) < NEAR_MS).map(({ at, text }) => `${at} ${text}`);
      throw new Error(`${pod} was evicted at ${atMs}\n${near.join('\n')}`);
    }),
    { numRuns: 150 },
  );
  expect(evictions).toBeGreaterThan(150);
});
