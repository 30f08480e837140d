import { describe, expect, it } from 'vitest';
import type { Threshold } from '../../../src/core/eviction/threshold.ts';
import { isMet, timersNow, withoutUnseen } from '../../../src/core/eviction/thresholds-met.ts';
import type { Observation } from '../../../src/core/observation.ts';
import { unknown } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { anObservation, aThreshold, MI } from '../../a.ts';

const HARD = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 50 * MI });
const SOFT = aThreshold('memory.available', 200 * MI, { graceMs: 30_000 });
const CAPACITY = 1_000 * MI;
const look = (atMs: number, availableMi: number): Observation =>
  anObservation(atMs, { 'memory.available': { available: availableMi * MI, capacity: CAPACITY } });
const blind = (atMs: number, why: 'unreadable' | 'not-applicable'): Observation =>
  anObservation(atMs, { 'memory.available': unknown(why, 'memory.stat', 'test') });

/** A soft timer that runs since 0 and a hard threshold that was acted on, last looked at at `lastLookMs`. */
const running = (lastLookMs: number, rest: Partial<State> = {}): State => ({
  ...initialState('boot'),
  firstMetMs: { [SOFT.id]: 0, [HARD.id]: 0 },
  unresolved: [HARD.id],
  lastLookMs,
  ...rest,
});

describe('a threshold as it is shown', () => {
  it('is met below its value, and not at it', () => {
    const threshold = aThreshold('memory.available', 10);
    const at = (available: number): boolean => isMet(threshold, { available, capacity: 100, sampledAtMs: 0 });
    expect([9, 10].map(at)).toEqual([true, false]);
  });
});

describe('the timers of a look', () => {
  it('stay while the signal cannot be read, as does the latch of a min reclaim; a grace period stands still (D5)', () => {
    const { kept, met } = timersNow(running(100), blind(60_000, 'unreadable'), [SOFT, HARD]);
    expect(met).toEqual([]);
    const firstMetMs = { [SOFT.id]: 59_900, [HARD.id]: 0 };
    expect(kept).toMatchObject({ firstMetMs, unmetSinceMs: {}, unresolved: [HARD.id] });
  });

  it('of a soft threshold leave out a gap before a look that cannot read it once', () => {
    const now = blind(60_000, 'unreadable');
    expect(timersNow(withoutUnseen(running(100), now, 1_000), now, [SOFT]).kept.firstMetMs).toEqual({
      [SOFT.id]: 59_900,
    });
  });

  it('are removed if the node has no such source', () => {
    const { kept } = timersNow(running(100), blind(200, 'not-applicable'), [SOFT, HARD]);
    expect(kept).toEqual({
      firstMetMs: {},
      metValues: {},
      unmetSinceMs: {},
      unresolved: [],
      failedLooks: {},
      dryDropped: [],
    });
  });

  it('of a hard threshold end with the first look above its min reclaim, those of a soft one after a second of such looks (D2)', () => {
    const { kept } = timersNow(running(100), look(110, 500), [SOFT, HARD]);
    expect(kept).toMatchObject({ firstMetMs: { [SOFT.id]: 0 }, unmetSinceMs: { [SOFT.id]: 110 }, unresolved: [] });
    expect(Object.keys(kept.firstMetMs)).toEqual([SOFT.id]);
  });

  it.each([
    ['after looks without it for just under a second', { lastLookMs: 1_900, unmetSinceMs: 1_001 }, true],
    ['after looks without it for a second', { lastLookMs: 1_900, unmetSinceMs: 1_000 }, false],
    ['at the first look without it, just under a second after the last one', { lastLookMs: 1_001 }, true],
    ['at the first look without it, a second after the last one', { lastLookMs: 1_000 }, false],
  ] as const)('of a soft threshold, %s: kept is %o', (_, { lastLookMs, ...rest }, isKept) => {
    const unmetSinceMs = 'unmetSinceMs' in rest ? { [SOFT.id]: rest.unmetSinceMs } : {};
    const { kept } = timersNow(running(lastLookMs, { unmetSinceMs }), look(2_000, 500), [SOFT]);
    expect(kept.firstMetMs).toEqual(isKept ? { [SOFT.id]: 0 } : {});
  });

  it('of a soft threshold are removed at the very first look', () => {
    const state = running(0, { lastLookMs: null });
    expect(timersNow(state, look(10, 500), [SOFT]).kept.firstMetMs).toEqual({});
  });

  it('that never ran are not started by an unmet threshold', () => {
    const state: State = { ...initialState('boot'), lastLookMs: 90 };
    expect(timersNow(state, look(100, 500), [SOFT]).kept).toMatchObject({ firstMetMs: {}, unmetSinceMs: {} });
  });

  it('keep the latch of a soft threshold that has not recovered', () => {
    const state = running(100, { unresolved: [SOFT.id] });
    expect(timersNow(state, look(110, 500), [SOFT]).kept.unresolved).toEqual([SOFT.id]);
  });

  it('start anew if the value of their threshold has changed, as does its latch', () => {
    const thresholds = [SOFT, HARD];
    const { kept } = timersNow({ ...initialState('boot'), lastLookMs: 0 }, look(100, 50), thresholds);
    const ripe = timersNow({ ...initialState('boot'), ...kept, lastLookMs: 100 }, look(40_100, 50), thresholds);
    expect(ripe.ripe).toHaveLength(2);
    const state: State = { ...initialState('boot'), ...ripe.kept, dryDropped: [SOFT.id], lastLookMs: 40_100 };
    const isAt = (thresholds: readonly Threshold[], availableMi: number) => {
      const now = timersNow(JSON.parse(JSON.stringify(state)), look(40_200, availableMi), thresholds);
      return [now.met.map(({ id, sinceMs }) => [id, sinceMs]), now.kept.unresolved, now.kept.dryDropped];
    };
    const lower = { ...SOFT, value: aThreshold('memory.available', 150 * MI).value };
    expect(isAt([lower, HARD], 50)).toEqual([
      [
        [SOFT.id, 40_200],
        [HARD.id, 100],
      ],
      [HARD.id],
      [],
    ]);
    // A lower one that is not met is not held by the min reclaim of the former one, nor by the second of a recovery.
    const hard = { ...HARD, value: aThreshold('memory.available', 40 * MI).value };
    expect(isAt([lower, hard], 160)).toEqual([[], [], []]);
    // As before: another grace period, or the same amount written in another way.
    const same = { ...SOFT, graceMs: 60_000, value: aThreshold('memory.available', 200 * MI).value };
    expect(isAt([same, HARD], 120)).toEqual([
      [
        [SOFT.id, 100],
        [HARD.id, 100],
      ],
      [HARD.id],
      [SOFT.id],
    ]);
  });

  it('of a state that does not say for which value they ran go on', () => {
    const { met } = timersNow(running(100), look(200, 150), [SOFT]);
    expect(met).toMatchObject([{ id: SOFT.id, sinceMs: 0 }]);
  });

  it('count consecutive looks without a number, and remember since when', () => {
    const first = timersNow(initialState('boot'), blind(100, 'unreadable'), [HARD]).kept;
    const second = timersNow({ ...initialState('boot'), ...first }, blind(200, 'unreadable'), [HARD]).kept;
    expect(first.failedLooks).toEqual({ 'memory.available': { count: 1, sinceMs: 100 } });
    expect(second.failedLooks).toEqual({ 'memory.available': { count: 2, sinceMs: 100 } });
    expect(timersNow({ ...initialState('boot'), ...second }, look(300, 500), [HARD]).kept.failedLooks).toEqual({});
  });

  it('of a soft threshold leave out time without looks; those of a hard one do not change', () => {
    const { firstMetMs } = withoutUnseen(running(5_000), look(10_000, 50), 1_000);
    expect(firstMetMs).toEqual({ [SOFT.id]: 4_000, [HARD.id]: 0 });
    expect(withoutUnseen(running(5_000), look(6_000, 50), 1_000)).toEqual(running(5_000));
  });
});
