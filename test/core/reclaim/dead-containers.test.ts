import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deadContainers, type ListedContainer } from '../../../src/core/reclaim/dead-containers.ts';

const container = (id: string, rest: Partial<ListedContainer>): ListedContainer => ({
  id,
  name: 'app',
  podUid: 'pod',
  state: 'exited',
  createdAtWallMs: 0,
  ...rest,
});
const CONTAINERS = fc
  .array(
    fc.record({
      name: fc.constantFrom('app', 'sidecar'),
      podUid: fc.constantFrom('a', 'b', 'c'),
      state: fc.constantFrom('created', 'running', 'exited', 'exited', 'exited', 'unknown'),
      createdAtWallMs: fc.integer({ min: 0, max: 5 }),
    }),
    { maxLength: 20 },
  )
  .map((all) => all.map((rest, n): ListedContainer => ({ id: String(n), ...rest })));

describe('dead containers', () => {
  it('never include one that has not exited, nor the newest dead one of a name in a living pod', () => {
    fc.assert(
      fc.property(CONTAINERS, fc.subarray(['a', 'b', 'c']), (containers, gone) => {
        const removed = new Set(deadContainers(containers, (uid) => gone.includes(uid)));
        for (const { id, state } of containers) if (state !== 'exited') expect(removed).not.toContain(id);
        for (const podUid of ['a', 'b', 'c']) {
          const ofPod = containers.filter((of) => of.podUid === podUid);
          const isLiving = !gone.includes(podUid) || ofPod.some(({ state }) => state !== 'exited');
          for (const name of ['app', 'sidecar']) {
            const dead = ofPod.filter((of) => of.name === name && of.state === 'exited');
            const newestMs = Math.max(...dead.map(({ createdAtWallMs }) => createdAtWallMs));
            const kept = dead.filter(({ createdAtWallMs }) => isLiving && createdAtWallMs === newestMs);
            const isExpected = (id: string): boolean => !kept.some((of) => of.id === id);
            for (const { id } of dead) expect(removed.has(id)).toBe(isExpected(id));
          }
        }
      }),
    );
  });

  it('are listed oldest first', () => {
    const containers = [
      container('second', { createdAtWallMs: 2 }),
      container('newest', { createdAtWallMs: 3 }),
      container('first', { createdAtWallMs: 1 }),
      container('other', { createdAtWallMs: 0, name: 'sidecar' }),
    ];
    expect(deadContainers(containers, () => false)).toEqual(['first', 'second']);
    expect(deadContainers(containers, () => true)).toEqual(['other', 'first', 'second', 'newest']);
  });
});
