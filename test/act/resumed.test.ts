import { describe, expect, it } from 'vitest';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import { known } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { MI } from '../a.ts';
import { hard, left, nothing, sampleOf, soft, stage } from './an-actor.ts';

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

  it.each([
    ['unknown if the victim was gone already: the earlier run may have emptied some of it', false, { known: false }],
    ['what it held if the victim ends only now', true, { known: true, value: 7 * MI }],
  ])('says of its scratch that it freed %s', async (_, isAlive, freedBytes) => {
    const threshold: MetThreshold = { ...soft, id: 'nodefs.available/evictionSoft', signal: 'nodefs.available' };
    const { actor, settled } = stage({
      scratch: { empty: async () => ({ freedBytes: known(7 * MI), problem: null }) },
      killer: {
        stop: async ({ decision: of }, __, signalled) => {
          if (isAlive) signalled?.('sigkill');
          return { of, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
        },
        usedBytes: () => known(0),
        largestProcesses: () => known([]),
      },
    });
    actor.resume({ ...left, signalledMs: 1, cause: { kind: 'threshold', threshold } }, nothing);
    expect(await settled()).toMatchObject({ kind: 'ended', emptied: { freedBytes, problem: null } });
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
