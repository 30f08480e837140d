import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isStepOver,
  type PodStall,
  type StallFacts,
  type StallHistory,
  stallAfter,
  stallIn,
  stallStep,
} from '../../../src/core/eviction/stall.ts';

const WINDOW_MS = 10_000;
type Seen = Omit<PodStall, 'life'> & { readonly life?: number };
const at = (atMs: number, stalledMs: number, pods: { readonly [uid: string]: Seen } | null = null): StallFacts => ({
  atMs,
  stalledMs,
  pods: pods === null ? null : new Map(Object.entries(pods).map(([uid, stall]) => [uid, { life: 1, ...stall }])),
});
const historyOf = (...points: readonly StallFacts[]): StallHistory =>
  points.reduce<StallHistory>((history, point) => stallAfter(history, point, WINDOW_MS), []);

describe('the time that a node was stalled on memory', () => {
  it.each([
    ['nothing is known before the first point', [], at(5_000, 4_000), 0],
    ['the seen part of a window counts before it is full', [at(0, 100)], at(4_000, 3_600), 3_500],
    ['all of a window', [at(0, 0), at(5_000, 2_000)], at(10_000, 4_500), 4_500],
    ['what lies before the window does not count', [at(0, 0), at(1_000, 1_000)], at(11_000, 1_500), 500],
    [
      'as much as possible of the time around its start is taken to lie before it',
      [at(0, 0)],
      at(12_000, 3_000),
      1_000,
    ],
    ['but no more than lies before it', [at(1_000, 0)], at(13_000, 3_000), 1_000],
    ['and what was seen inside it counts', [at(0, 0), at(3_000, 3_000)], at(12_000, 6_000), 4_000],
    ['a counter that fell is a new one', [at(0, 9_000), at(1_000, 50)], at(2_000, 250), 200],
    ['a counter that stands still is the same one', [at(0, 0), at(1_000, 500), at(2_000, 500)], at(2_500, 500), 500],
  ])('%s', (_, points, now, stalledMs) => {
    expect(stallIn(historyOf(...points), now, WINDOW_MS).stalledMs).toBe(stalledMs);
  });

  it.each([
    [WINDOW_MS, 499, false],
    [WINDOW_MS, 500, true],
    [100, 49, false],
    [100, 50, true],
  ])('in a window of %d ms is read again after %d ms: %s', (windowMs, afterMs, isOver) => {
    expect(isStepOver(historyOf(at(1_000, 0)), 1_000 + afterMs, windowMs)).toBe(isOver);
  });

  it('is the same at a step as right after it, and the pods are read knowing the whole stall', () => {
    const pod = fc.record({ stalledMs: fc.nat(900), limitHits: fc.nat(2) });
    const looks = fc.array(fc.tuple(fc.integer({ min: 1, max: 4_000 }), fc.nat(900), fc.option(pod)), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(looks, (steps) => {
        let history: StallHistory = [];
        let [atMs, totalMs] = [0, 0];
        for (const [ms, grown, pod] of steps) {
          [atMs, totalMs] = [atMs + ms, totalMs + Math.min(ms, grown)];
          const point = at(atMs, totalMs, pod === null ? null : { web: pod });
          const withoutPods = history.map((past, i) => ({
            ...past,
            pods: null,
            ownMs: new Map(),
            countedMs: past.stalledMs - (history[i - 1]?.stalledMs ?? 0),
          }));
          const asked: number[] = [];
          const step = stallStep(history, point, WINDOW_MS, (allMs) => {
            asked.push(allMs);
            return point.pods;
          });
          expect(asked).toEqual([stallIn(withoutPods, point, WINDOW_MS).stalledMs]);
          expect(step.history).toEqual(stallAfter(history, point, WINDOW_MS));
          expect(step.stall).toEqual(stallIn(step.history, point, WINDOW_MS));
          ({ history } = step);
        }
      }),
    );
  });

  it('is never more than it really was, however far apart the looks are', () => {
    const looks = fc.array(fc.tuple(fc.integer({ min: 1, max: 4_000 }), fc.integer({ min: 0, max: 100 })), {
      minLength: 1,
      maxLength: 30,
    });
    fc.assert(
      fc.property(looks, (steps) => {
        // Each interval is stalled at its end, for so many percent of it.
        const stalls: { readonly fromMs: number; readonly toMs: number }[] = [];
        let history: StallHistory = [];
        let [atMs, totalMs] = [0, 0];
        for (const [ms, percent] of steps) {
          if (isStepOver(history, atMs, WINDOW_MS)) history = stallAfter(history, at(atMs, totalMs), WINDOW_MS);
          const stalledMs = (ms * percent) / 100;
          atMs += ms;
          totalMs += stalledMs;
          stalls.push({ fromMs: atMs - stalledMs, toMs: atMs });
          const startMs = atMs - WINDOW_MS;
          const trulyMs = stalls.reduce(
            (sum, { fromMs, toMs }) => sum + Math.max(0, toMs - Math.max(fromMs, startMs)),
            0,
          );
          expect(stallIn(history, at(atMs, totalMs), WINDOW_MS).stalledMs).toBeLessThanOrEqual(trulyMs + 0.001);
        }
      }),
    );
  });

  it('needs few points, whatever the pace of the looks', () => {
    let history: StallHistory = [];
    for (let ms = 0; ms < 60_000; ms += 2) {
      if (isStepOver(history, ms, WINDOW_MS)) history = stallAfter(history, at(ms, ms / 2), WINDOW_MS);
    }
    expect(history.length).toBeLessThanOrEqual(22);
    expect(stallIn(history, at(60_000, 30_000), WINDOW_MS).stalledMs).toBeCloseTo(5_000, -3);
  });
});

describe('a pod that stalls in its own memory limit', () => {
  const quiet = { stalledMs: 0, limitHits: 0 };

  it('is named, and its time does not count', () => {
    const history = historyOf(
      at(0, 0, { own: quiet, other: quiet }),
      at(4_000, 3_900, { own: { stalledMs: 3_800, limitHits: 90 }, other: { stalledMs: 3_000, limitHits: 0 } }),
    );
    const { stalledMs, byOwnLimit } = stallIn(history, at(4_000, 3_900), WINDOW_MS);
    expect([...byOwnLimit]).toEqual(['own']);
    expect(stalledMs).toBe(100);
  });

  it('is not named if it reached its limit without stalling', () => {
    const history = historyOf(at(0, 0, { own: quiet }), at(900, 800, { own: { stalledMs: 0, limitHits: 9 } }));
    expect(stallIn(history, at(900, 800), WINDOW_MS)).toMatchObject({ stalledMs: 800, byOwnLimit: new Set() });
  });

  it.each([
    // 3,000 since the point in the window, of which 500 are its own.
    ["since the same point as the node's stall", { own: { stalledMs: 4_000, limitHits: 5 } }, 2_500],
    ['since it was read, if it was not read at that point', null, 3_000],
  ])('is counted %s', (_, between, counted) => {
    const last = { own: { stalledMs: 4_500, limitHits: 9 } };
    const history = historyOf(at(0, 0, { own: quiet }), at(6_000, 5_000, between), at(12_000, 8_000, last));
    const { stalledMs, byOwnLimit } = stallIn(history, at(12_000, 8_000), WINDOW_MS);
    expect([...byOwnLimit]).toEqual(['own']);
    expect(stalledMs).toBe(counted);
  });

  it('is remembered although it was not read at a point in between', () => {
    const history = historyOf(at(0, 0, { own: quiet }), at(1_000, 900), at(2_000, 1_800, { own: quiet }));
    expect(stallIn(history, at(2_000, 1_800), WINDOW_MS).stalledMs).toBe(1_800);
  });

  it('adds nothing until it is read again', () => {
    const history = historyOf(at(0, 0, { own: quiet }), at(500, 400, { own: { stalledMs: 400, limitHits: 9 } }));
    expect(stallIn(history, at(990, 890), WINDOW_MS).stalledMs).toBe(0);
  });

  it('counts again once it has not reached its limit for a whole window', () => {
    const pods = (stalledMs: number) => ({ own: { stalledMs, limitHits: 9 } });
    const points = Array.from({ length: 21 }, (_, i) => at(i * 1_000, i * 500, pods(i * 500)));
    const history = historyOf(at(0, 0, { own: quiet }), ...points.slice(1));
    const { stalledMs, byOwnLimit } = stallIn(history, at(20_000, 10_000), WINDOW_MS);
    expect(byOwnLimit.size).toBe(0);
    expect(stalledMs).toBe(5_000);
  });

  it("is unknown until the pods have been read: the node's stall until then does not count", () => {
    const history = historyOf(at(0, 0), at(1_000, 900, { own: quiet }));
    expect(stallIn(history, at(1_400, 1_300), WINDOW_MS).stalledMs).toBe(400);
  });

  it('adds nothing in the interval in which it ends, because nobody could read its part', () => {
    const stalls = (ms: number) => ({ own: { stalledMs: ms, limitHits: ms } });
    const history = historyOf(
      at(0, 0, { own: quiet }),
      at(500, 400, stalls(400)),
      at(1_000, 900, {}),
      at(1_500, 1_000, {}),
    );
    expect(stallIn(history, at(1_500, 1_000), WINDOW_MS).stalledMs).toBe(100);
  });

  it('does not count if its cgroup is recreated again and again', () => {
    const points = Array.from({ length: 20 }, (_, i) =>
      at(i * 500, i * 450, {
        own: { life: Math.floor(i / 3), stalledMs: (i % 3) * 400 + 40, limitHits: (i % 3) * 9 + 2 },
      }),
    );
    const { stalledMs, byOwnLimit } = stallIn(historyOf(...points), at(9_500, 8_550), WINDOW_MS);
    expect(stalledMs).toBeLessThan(1_000);
    expect([...byOwnLimit]).toEqual(['own']);
  });

  it.each([
    ['is recreated with larger counters', { own: { life: 1, stalledMs: 100, limitHits: 0 } }],
    ['appears', {}],
  ])('has all of its stall counted as its own if its cgroup %s', (_, before) => {
    const history = historyOf(at(0, 0, before), at(500, 500, { own: { life: 2, stalledMs: 400, limitHits: 9 } }));
    expect(stallIn(history, at(500, 500), WINDOW_MS)).toEqual({ stalledMs: 100, byOwnLimit: new Set(['own']) });
  });

  it('stays in its limit while the kernel makes it sleep for 2 s whenever it is over memory.high', () => {
    const points = Array.from({ length: 21 }, (_, i) =>
      at(i * 500, i * 500, { own: { stalledMs: i * 500, limitHits: 3 + Math.ceil(i / 4) } }),
    );
    const { stalledMs, byOwnLimit } = stallIn(historyOf(...points), at(10_000, 10_000), WINDOW_MS);
    expect([...byOwnLimit]).toEqual(['own']);
    expect(stalledMs).toBe(0);
  });

  it('is named if half of its stall is due to its own limit, and not below', () => {
    const named = (own: number, rest: number) => {
      const pod = (stalledMs: number, limitHits: number) => ({ pod: { stalledMs, limitHits } });
      const history = historyOf(
        ...[at(0, 0, pod(0, 0)), at(500, 400, pod(own, 3)), at(2_500, 400, pod(own, 3))],
        ...[at(5_000, 800, pod(own + rest, 3)), at(5_500, 800, pod(own + rest, 4))],
      );
      return [...stallIn(history, at(5_500, 800), WINDOW_MS).byOwnLimit];
    };
    expect([named(200, 200), named(200, 201)]).toEqual([['pod'], []]);
  });

  it('is not named for reaching its limit once, and its other stall counts', () => {
    const points = Array.from({ length: 20 }, (_, i) =>
      at(i * 500, i * 400, { hog: { stalledMs: i * 400, limitHits: i < 7 ? 0 : 1 } }),
    );
    const { stalledMs, byOwnLimit } = stallIn(historyOf(...points), at(9_500, 7_600), WINDOW_MS);
    // That of the step in which it did, and of the 2 s after it.
    expect(stalledMs).toBe(7_600 - 5 * 400);
    expect(byOwnLimit.size).toBe(0);
  });

  it('is no longer named once it is out of its limit, however much of its stall was due to it', () => {
    const pod = (stalledMs: number, limitHits: number) => ({ hog: { stalledMs, limitHits } });
    const history = historyOf(
      ...[at(0, 0, pod(0, 0)), at(2_000, 2_000, pod(2_000, 3)), at(4_000, 4_000, pod(4_000, 3))],
      at(5_500, 5_500, pod(5_500, 3)),
    );
    expect(stallIn(history, at(5_500, 5_500), WINDOW_MS)).toEqual({ stalledMs: 1_500, byOwnLimit: new Set() });
  });

  it('counts as having reached its limit just before it was first read, if it ever has', () => {
    const pod = (stalledMs: number) => ({ own: { stalledMs, limitHits: 9 } });
    const points = [0, 500, 1_000, 1_500, 2_000, 2_500, 3_000].map((ms) => at(ms, ms, pod(ms)));
    expect(stallIn(historyOf(...points), at(3_000, 3_000), WINDOW_MS).stalledMs).toBe(1_000);
  });

  it('has grown by nothing if it started again with smaller counters', () => {
    const history = historyOf(at(0, 0, { own: { stalledMs: 500, limitHits: 5 } }), at(900, 800, { own: quiet }));
    expect(stallIn(history, at(900, 800), WINDOW_MS)).toMatchObject({ stalledMs: 800, byOwnLimit: new Set() });
  });
});
