import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chainsOf, graceFrom, tellByMs, tiesOf, turnOf, turnOfStop } from '../../../src/core/shutdown/chain.ts';
import { planShutdown } from '../../../src/core/shutdown/plan.ts';
import { aPod } from '../../a.ts';

/** front is stopped first, then mid, then db. */
const three = (graceSeconds: number) => [
  { uid: 'db', graceSeconds, stopsAfter: ['mid'] },
  { uid: 'mid', graceSeconds, stopsAfter: ['front'] },
  { uid: 'front', graceSeconds },
];

describe('pods that are stopped one after another', () => {
  it('know their predecessors, and how much time is before and behind them', () => {
    expect(Object.fromEntries(chainsOf([...three(30), { uid: 'alone', graceSeconds: 5 }]))).toEqual({
      front: { after: [], beforeSeconds: 0, restSeconds: 90 },
      mid: { after: ['front'], beforeSeconds: 30, restSeconds: 60 },
      db: { after: ['mid'], beforeSeconds: 60, restSeconds: 30 },
    });
  });

  it('never wait for pods of other phases or themselves, and a cycle is broken', () => {
    expect(chainsOf([{ uid: 'db', graceSeconds: 3, stopsAfter: ['front', 'db'] }]).size).toBe(0);
    const circle = chainsOf([
      { uid: 'a', graceSeconds: 1, stopsAfter: ['b'] },
      { uid: 'b', graceSeconds: 1, stopsAfter: ['a'] },
    ]);
    for (const { restSeconds } of circle.values()) expect(restSeconds).toBeLessThanOrEqual(2);
  });

  it('are counted once each, even with more paths than anybody could walk', () => {
    const names = (tier: number) => [`a${tier}`, `b${tier}`, `c${tier}`];
    const links = Array.from({ length: 40 }, (_, tier) =>
      names(tier).map((uid) => ({ uid, graceSeconds: 3, stopsAfter: tier === 0 ? [] : names(tier - 1) })),
    );
    expect(chainsOf(links.flat()).get('b39')).toMatchObject({ beforeSeconds: 39 * 3, restSeconds: 3 });
  });

  it('share the time of the phase if each uses all of its part', () => {
    const chains = chainsOf(three(30));
    const turn = (uid: string) => turnOf(30, chains.get(uid), { atMs: 0, endsMs: 9_000 });
    expect(graceFrom(turn('front'), 0)).toBe(3_000);
    expect(graceFrom(turn('mid'), 3_000)).toBe(3_000);
    expect(graceFrom(turn('db'), 6_000)).toBe(3_000);
    // Whoever ends early leaves its time to those behind it.
    expect(graceFrom(turn('mid'), 1_000)).toBe(4_000);
  });

  it('get all they request if the phase has the time, counted from when they are asked', () => {
    const chains = chainsOf(three(3));
    const db = turnOf(3, chains.get('db'), { atMs: 0, endsMs: 30_000 });
    expect(graceFrom(db, 6_000)).toBe(3_000);
    expect(graceFrom(db, 28_000)).toBe(2_000);
    const alone = turnOf(5, undefined, { atMs: 0, endsMs: 60_000 });
    expect(graceFrom(alone, 7_000)).toBe(5_000);
    expect(tellByMs(alone)).toBe(58_000);
  });

  it('get what the latest time would have left if they are asked even later', () => {
    const alone = turnOf(2, undefined, { atMs: 0, endsMs: 2_000 });
    expect(tellByMs(alone)).toBe(1_000);
    expect([1_000, 1_900, 2_000, 5_000].map((toldMs) => graceFrom(alone, toldMs))).toEqual(Array(4).fill(1_000));
    const last = turnOf(30, chainsOf(three(30)).get('db'), { atMs: 0, endsMs: 9_000 });
    expect(graceFrom(last, 8_999)).toBe(9_000 - tellByMs(last));
  });

  it.each([
    ['its grace from now on, without a phase', { graceSeconds: 5, atMs: 1_000 }, 6_000, 5_000],
    ['the time of its phase where that is longer', { graceSeconds: 5, atMs: 1_000, endsMs: 9_000 }, 9_000, 5_000],
    ['its grace in a phase that has less', { graceSeconds: 5, atMs: 1_000, endsMs: 2_000 }, 6_000, 5_000],
    ['the least there is where it has no grace', { graceSeconds: 0, atMs: 1_000 }, 3_000, 2_000],
  ])('get %s when the agent itself is stopped', (_, stop, endsMs, graceMs) => {
    const alone = { after: [], beforeMs: 0, restMs: graceMs };
    expect(turnOfStop(stop)).toEqual({ ...alone, endsMs, graceMs, periodMs: endsMs - stop.atMs });
    const chain = { after: ['front'], beforeSeconds: 30, restSeconds: 60 };
    expect(turnOfStop({ ...stop, chain })).toMatchObject({
      after: ['front'],
      beforeMs: 30_000,
      restMs: 60_000,
      endsMs,
    });
  });

  it('get the least there is from when they are asked in a phase without time, which may be late: nothing waits for them', () => {
    const alone = turnOfStop({ graceSeconds: 0, atMs: 1_000, endsMs: 1_000 });
    expect([1_000, 2_500, 20_000].map((toldMs) => graceFrom(alone, toldMs))).toEqual(Array(3).fill(2_000));
    expect(tellByMs(alone)).toBeGreaterThanOrEqual(30_000);
  });

  it('are all asked before the phase is over, even if none ends by itself', () => {
    const graph = fc
      .array(
        fc.record({ graceSeconds: fc.integer({ min: 0, max: 600 }), waitsFor: fc.array(fc.nat(), { maxLength: 3 }) }),
        {
          minLength: 1,
          maxLength: 12,
        },
      )
      .map((nodes) =>
        nodes.map(({ graceSeconds, waitsFor }, i) => ({
          uid: String(i),
          graceSeconds,
          stopsAfter: i === 0 ? [] : waitsFor.map((other) => String(other % i)),
        })),
      );
    fc.assert(
      fc.property(graph, fc.integer({ min: 1, max: 300_000 }), (links, periodMs) => {
        const chains = chainsOf(links);
        const endOf = new Map<string, number>();
        for (const { uid, graceSeconds, stopsAfter } of links) {
          const toldMs = Math.max(0, ...stopsAfter.map((other) => endOf.get(other) ?? 0));
          const turn = turnOf(Math.min(graceSeconds, periodMs / 1_000), chains.get(uid), { atMs: 0, endsMs: periodMs });
          const graceMs = graceFrom(turn, toldMs);
          expect(graceMs).toBeGreaterThan(0);
          // Its word does not come before its turn.
          expect(tellByMs(turn)).toBeGreaterThanOrEqual(toldMs - 1e-6);
          endOf.set(uid, toldMs + graceMs);
        }
        expect(Math.max(...endOf.values())).toBeLessThanOrEqual(periodMs + 1e-6);
      }),
    );
  });
});

describe('a pod on which others depend (D16)', () => {
  it('is stopped in the phase of its highest dependent, after it', () => {
    const db = aPod({
      name: 'db',
      priority: 0,
      inherited: { priority: 2_000, from: 'default/front' },
      stopsAfter: ['uid-front'],
    });
    const front = aPod({ name: 'front', uid: 'uid-front', priority: 2_000 });
    const phases = [
      { fromPriority: 0, periodSeconds: 10 },
      { fromPriority: 2_000, periodSeconds: 10 },
    ];
    const [low, high] = planShutdown(phases, [db, front]);
    expect(low?.stops).toEqual([]);
    expect(high?.stops.map(({ pod, chain }) => [pod.name, chain?.after])).toEqual([
      ['db', ['uid-front']],
      ['front', []],
    ]);
  });

  it('says what depends on it, and what also stops, and nothing if there is none', () => {
    const ties = { inherited: { priority: 2_000, from: 'default/front' }, takesAlong: ['default/front'] };
    expect(tiesOf(aPod({ name: 'db', ...ties }))).toEqual(ties);
    expect(Object.keys(tiesOf(aPod({ name: 'db' })))).toEqual([]);
  });
});
