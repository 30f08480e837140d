import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../src/core/core-config.ts';
import { decide } from '../../src/core/decide.ts';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import { afterGlance } from '../../src/core/pace.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { aConfig, anObservation, aThreshold, GI, MI } from '../a.ts';

const CPUS = 2;
const pace = { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: CPUS };
const memory = aThreshold('memory.available', 200 * MI);
const disk = aThreshold('nodefs.available', 10 * GI);
const config = aConfig([memory, disk], { pace });
const before: State = { ...initialState('boot'), lastLookMs: 0 };

function next(memoryMiB: number, diskGiB: number | null, state: State = before, cpuMs = 0, core = config) {
  const nodefs =
    diskGiB === null ? unknown('unreadable', '/var', 'gone') : { available: diskGiB * GI, capacity: 100 * GI };
  const signals = { 'memory.available': { available: memoryMiB * MI, capacity: 4 * GI }, 'nodefs.available': nodefs };
  return decide(state, anObservation(60_000, signals, { cpuMs }), core).next;
}

describe('the pace (D2)', () => {
  it('is the time in which the fastest fill could cross a threshold, from 2 ms to 10 s', () => {
    expect(next(200 + 409.6 * CPUS, 90).afterMs).toBeCloseTo(200);
    expect(next(201, 90).afterMs).toBe(2);
    expect(next(4_000, 10.1).afterMs).toBeCloseTo(25);
  });

  it('is at most a second while memory cannot be read, because it may be just above its threshold', () => {
    const gone = anObservation(60_000, { 'memory.available': unknown('unreadable', 'memory.stat', 'gone') });
    expect(decide(before, gone, config).next.afterMs).toBe(1_000);
    const none = anObservation(60_000, { 'memory.available': unknown('not-applicable', 'memory', 'none here') });
    expect(decide(before, none, config).next.afterMs).toBe(10_000);
  });

  it('of the file systems is their own: they are far away, whatever memory does', () => {
    expect(next(201, 90)).toMatchObject({ afterMs: 2, disksAfterMs: 10_000 });
    expect(next(201, 10.4)).toMatchObject({ afterMs: 2, disksAfterMs: expect.closeTo(100) });
    expect(next(201, null)).toMatchObject({ disksAfterMs: 10_000 });
  });

  it('of the file systems is that of the looks while something is awaited', () => {
    // A met hard threshold without anybody to choose: a look each second.
    expect(next(4_000, 9)).toMatchObject({ afterMs: 0, pods: 'nodefs.available' });
    expect(next(4_000, 9)).not.toHaveProperty('disksAfterMs');
    const held: State = { ...before, conditionLastMetMs: { DiskPressure: 59_000 } };
    expect(next(4_000, 90, held).disksAfterMs).toBeLessThanOrEqual(config.pressureTransitionMs);
  });

  it('is that of the fastest fill of each kind, per CPU', () => {
    const afterMs = (signal: Signal, headroom: number) => {
      const signals = { [signal]: { available: 1_000 + headroom, capacity: 4_000_000 } };
      return decide(before, anObservation(60_000, signals), aConfig([aThreshold(signal, 1_000)], { pace })).next
        .afterMs;
    };
    expect(afterMs('pid.available', 20_000 * CPUS)).toBeCloseTo(1_000);
    expect(afterMs('nodefs.inodesFree', 100_000 * CPUS)).toBeCloseTo(1_000);
    // Time passes once for all of them.
    expect(afterMs('memory.stallFree', 1_000)).toBe(1_000);
  });

  it('does not follow a threshold that is already met', () => {
    const signals = { 'memory.available': { available: 199 * MI, capacity: 4 * GI } };
    expect(decide(before, anObservation(60_000, signals, { pods: known([]) }), config).next.afterMs).toBe(250);
  });

  it("is at least 20 ms once the minute's CPU budget is spent, and not before", () => {
    const since: State = { ...before, spent: [{ atMs: 1_000, cpuMs: 0 }] };
    expect(next(201, 90, since, 599).afterMs).toBe(2);
    expect(next(201, 90, since, 600).afterMs).toBe(20);
    // What is further away is looked at no sooner for it.
    expect(next(200 + 409.6 * CPUS, 90, since, 600).afterMs).toBeCloseTo(200);
  });
});

describe("the minute's CPU budget (D2)", () => {
  /** The pace right above a threshold after looks at so many ms with so much CPU time of the agent. */
  const paceAfter = (looks: readonly (readonly [number, number])[]) => {
    let state: State = initialState('boot');
    let afterMs = Number.NaN;
    const signals = { 'memory.available': { available: 201 * MI, capacity: 4 * GI } };
    for (const [atMs, cpuMs] of looks) {
      const verdict = decide(state, anObservation(atMs, signals, { cpuMs }), config);
      ({ state } = verdict);
      ({ afterMs } = verdict.next);
    }
    return afterMs;
  };
  /** Looks from one time to another with the CPU time there was then. */
  const every = (stepMs: number, fromMs: number, toMs: number, cpuMs: number) =>
    Array.from({ length: (toMs - fromMs) / stepMs + 1 }, (_, i) => [fromMs + i * stepMs, cpuMs] as const);

  it.each([
    ['nothing was spent before the first look', [[0, 5_000]], 2],
    ['what was spent before the first look does not count', [[0, 5_000], ...every(500, 500, 2_000, 5_599)], 2],
    ['what was spent since then counts', [[0, 5_000], ...every(500, 500, 2_000, 5_600)], 20],
    [
      'also between two looks of one moment',
      [
        [1_000, 0],
        [1_000, 600],
      ],
      20,
    ],
    ['however close together the looks are', [[0, 0], ...every(100, 100, 30_000, 600)], 20],
    ['what was spent a minute ago counts', [[0, 0], ...every(1_000, 1_000, 60_000, 600)], 20],
    ['for looks a second apart too', [[0, 0], [1_000, 0], [1_500, 600], ...every(1_000, 2_000, 61_000, 600)], 20],
    ['what was spent before the minute does not', [[0, 0], ...every(1_000, 1_000, 60_000, 600), [60_900, 600]], 2],
    ['a minute later it is spent anew', [[0, 0], ...every(1_000, 1_000, 90_000, 0), [90_500, 600]], 20],
    [
      'an agent that was started anew has spent nothing',
      [
        [0, 9_000],
        [1_000, 10],
        [2_000, 609],
      ],
      2,
    ],
    [
      'and then what it spent itself',
      [
        [0, 9_000],
        [1_000, 10],
        [2_000, 610],
      ],
      20,
    ],
    [
      'nor does one whose clock started again',
      [
        [100_000, 0],
        [1_000, 650],
        [2_000, 700],
      ],
      2,
    ],
  ] as const)('%s', (_, looks, paceMs) => {
    expect(paceAfter(looks)).toBe(paceMs);
  });
});

describe('reading only memory (D2)', () => {
  const nextMs = (...seen: Parameters<typeof afterGlance>) => afterGlance(...seen).afterMs;
  const glanceAt = (memoryMiB: number, diskGiB = 90, state = before, cpuMs = 0) =>
    next(memoryMiB, diskGiB, state, cpuMs).glance;
  const seen = (availableMiB: number, afterMs: number) =>
    known({ available: availableMiB * MI, capacity: 4 * GI, sampledAtMs: 60_000 + afterMs });

  it('is enough just above a memory threshold, for a second at most', () => {
    const glance = must(glanceAt(203));
    expect(nextMs(glance, seen(203, 2))).toBe(2);
    expect(nextMs(glance, seen(200 + 409.6 * CPUS, 2))).toBeCloseTo(200);
    expect(nextMs(glance, seen(203, 999))).toBeCloseTo(1);
    expect(nextMs(glance, seen(203, 1_000))).toBeNull();
  });

  it('ends when the threshold is met, and when memory cannot be read', () => {
    const glance = must(glanceAt(203));
    expect(nextMs(glance, seen(200, 2))).toBe(2);
    expect(afterGlance(glance, seen(199.9, 2))).toMatchObject({ afterMs: null, pods: 'memory.available' });
    const gone = unknown('unreadable', 'memory.stat', 'gone');
    expect(afterGlance(glance, gone)).toMatchObject({ afterMs: null, pods: null });
  });

  it('ends when another signal could cross its threshold', () => {
    expect(must(glanceAt(203, 10.4)).untilMs).toBeCloseTo(60_100);
    expect(glanceAt(203, 10)).toBeUndefined();
  });

  it("happens no more often than a look: 20 ms apart once the minute's CPU budget is spent", () => {
    const since: State = { ...before, spent: [{ atMs: 1_000, cpuMs: 0 }] };
    expect(nextMs(must(glanceAt(203, 90, since, 600)), seen(203, 2))).toBe(20);
  });

  it('still happens after 2 ms while memory falls so fast that the threshold will be met within 100 ms', () => {
    const since: State = { ...before, spent: [{ atMs: 1_000, cpuMs: 0 }] };
    const glance = must(glanceAt(206, 90, since, 600));
    expect(nextMs(glance, seen(205.1, 20))).toBe(20);
    expect(nextMs(glance, seen(205, 20))).toBe(2);
    expect(nextMs(glance, seen(207, 20))).toBe(20);
    // What a kernel counts in portions stands still between them.
    const falling = afterGlance(glance, seen(205, 20)).glance;
    expect(nextMs(falling, seen(205, 22))).toBe(2);
    // At its threshold, but it stands still.
    expect(nextMs(must(glanceAt(200, 90, since, 600)), seen(200, 20))).toBe(20);
    // Slow, but near.
    expect(nextMs(must(glanceAt(201, 90, since, 600)), seen(200.8, 20))).toBe(2);
  });

  it('does not happen sooner for that once three times the budget is spent', () => {
    const since: State = { ...before, spent: [{ atMs: 1_000, cpuMs: 0 }] };
    expect(nextMs(must(glanceAt(206, 90, since, 1_799)), seen(203, 20))).toBe(2);
    expect(nextMs(must(glanceAt(206, 90, since, 1_800)), seen(203, 20))).toBe(20);
  });

  it('is not enough while a threshold is met, and not needed far from all', () => {
    expect(glanceAt(199)).toBeUndefined();
    expect(glanceAt(203, 9)).toBeUndefined();
    expect(glanceAt(4_500, 90)).toBeUndefined();
    expect(glanceAt(4_000, 10.1)).toBeUndefined();
  });

  it('is not enough after a look that decided something, nor while anything is in progress', () => {
    const soft = aThreshold('memory.available', 202 * MI, { graceMs: 60_000 });
    const cases: readonly [string, Partial<State>, Partial<CoreConfig>?][] = [
      ['a condition ends', { conditionLastMetMs: { DiskPressure: 1 } }, { pressureTransitionMs: 1_000 }],
      [
        'a grace that goes on although its threshold is not met for a moment',
        { firstMetMs: { [soft.id]: 50_000 }, lastLookMs: 59_990 },
        { thresholds: [memory, disk, soft] },
      ],
      ['a stop of a shutdown that was cancelled', { stops: [aStop] }],
      ['a victim of its own limit', evicting],
      ['a reclaim', { reclaims: [{ decision: 'boot-1', threshold: metDisk, deadlineMs: 600_000 }] }],
    ];
    const quiet = next(203, 90);
    expect(quiet.glance).toBeDefined();
    for (const [name, state, rest] of cases) {
      const seen = next(203, 90, { ...before, ...state }, 0, { ...config, ...rest });
      expect(seen.glance, name).toBeUndefined();
      // It is that alone which keeps the looks whole.
      expect(seen.disksAfterMs, name).toBeGreaterThan(2);
    }
  });

  it('misses no decision: full looks in its place would have decided nothing', () => {
    const soft = aThreshold('memory.available', 300 * MI, { graceMs: 500 });
    const anyMemory = fc.integer({ min: 100, max: 1_500 });
    fc.assert(
      fc.property(anyMemory, fc.array(fc.tuple(anyMemory, fc.integer({ min: 1, max: 400 }))), (first, later) => {
        const both = aConfig([memory, soft], { pace });
        const look = (state: State, atMs: number, memoryMiB: number) =>
          decide(
            state,
            anObservation(atMs, { 'memory.available': { available: memoryMiB * MI, capacity: 4 * GI } }),
            both,
          );
        const { state: then, next: wanted } = look(before, 60_000, first);
        let [state, glance, atMs] = [then, wanted.glance, 60_000];
        for (const [memoryMiB, afterMs] of later) {
          atMs += afterMs;
          const sample = known({ available: memoryMiB * MI, capacity: 4 * GI, sampledAtMs: atMs });
          if (glance === undefined) return;
          const after = afterGlance(glance, sample);
          if (after.afterMs === null) return;
          glance = after.glance;
          const verdict = look(state, atMs, memoryMiB);
          expect(verdict.decisions).toEqual([]);
          expect(verdict.state.firstMetMs).toEqual({});
          expect(verdict.next.pods).toBeNull();
          state = verdict.state;
        }
      }),
    );
  });
});

const metDisk: MetThreshold = {
  id: 'nodefs.available/evictionHard',
  signal: 'nodefs.available',
  isHard: true,
  limit: quantityOfBytes(10 * GI, 'binary'),
  target: quantityOfBytes(10 * GI, 'binary'),
  available: 9 * GI,
  sinceMs: 0,
};
const aStop = { decision: 'boot-1', decidedMs: 59_000, uid: 'uid-web', graceEndsMs: 89_000, waitEndsMs: 104_000 };
/** What an eviction for a limit of the pod itself leaves, on a node that is short of nothing. */
const evicting: Partial<State> = {
  act: {
    kind: 'evicting',
    evictions: [
      {
        decision: 'boot-1',
        decidedMs: 59_000,
        victim: { uid: 'uid-web', namespace: 'default', name: 'web', qos: 'Burstable', priority: 0 },
        graceEndsMs: 60_000,
        deadlineMs: 69_000,
        settledMs: null,
        cause: { kind: 'over-limit', limit: 'emptydirfs' },
      },
    ],
  },
};

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('nothing');
  return value;
}
