import { describe, expect, it } from 'vitest';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { MI } from '../a.ts';
import { hard, left, nothing, sampleOf, stage } from './an-actor.ts';

describe('an eviction whose grace period was over before the agent was back', () => {
  it.each([
    ['recovered', {}, 150, true],
    ['is still met', {}, 149, false],
    [
      'recovered, but the hard one that hastened it has not',
      { alsoFor: [{ ...hard, target: quantityOfBytes(200 * MI, 'binary') }] },
      150,
      false,
    ],
  ])('is not killed later on if it was only asked to stop, and its threshold %s', async (_, more, mib, isOver) => {
    const { actor, orders, settled } = stage({ observer: { reread: async () => sampleOf(mib * MI) } });
    actor.resume({ ...left, signalledMs: 1, ...more }, nothing);
    await settled();
    expect(orders).toMatchObject([{ first: 'sigkill' }]);
    expect(await orders[0]?.isOver?.()).toBe(isOver);
  });

  it('is killed whatever its threshold says by now if it was sent SIGKILL before', async () => {
    const { actor, orders, settled } = stage();
    actor.resume({ ...left, signalledMs: 1, killedMs: 1 }, nothing);
    await settled();
    actor.resume({ ...left, signalledMs: 1, cause: { kind: 'threshold', threshold: hard } }, nothing);
    await settled();
    expect(orders.map(({ isOver }) => isOver)).toEqual([undefined, undefined]);
  });
});
