import { describe, expect, it } from 'vitest';
import type { GuardObservation } from '../../../src/core/guard/observation.ts';
import { stepSelf, withSign } from '../../../src/core/guard/self.ts';
import { initialGuardState, type SelfMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMemory, byUid } from './a-node.ts';

const CONFIG = aGuardConfig({ settleMs: 120_000 });
const NEW = initialGuardState(1_000, 120_000).self;
const AT = 500_000;
const NONE = new Map();
/** Long settled: its clocks and its last read are of 5 s ago. */
const OLD: SelfMemory = {
  ...NEW,
  clocks: { atMs: AT - 5_000, wallMs: 1_000_000, uptimeMs: 700_000 },
  readMs: AT - 5_000,
  anySignMs: AT - 5_000,
};
type Seen = {
  readonly wentMs?: number;
  readonly upMs?: number;
  readonly readMs?: number | null;
  readonly electedMs?: number;
};
function looked(before: SelfMemory, { wentMs = 5_000, upMs = 5_000, readMs = AT, electedMs }: Seen = {}) {
  const leadership =
    electedMs === undefined
      ? { isLeader: false }
      : { isLeader: true, epoch: 1, sinceMs: electedMs, authorityUntilMs: AT + 9_000 };
  const observation = {
    atMs: AT,
    wallMs: 1_000_000 + wentMs,
    nodes: readMs === null ? unknown('timed-out', '', '') : known({ value: [], asOfMs: readMs }),
    self: { uptimeMs: 700_000 + upMs, leadership },
  } as unknown as GuardObservation;
  return stepSelf(before, observation, CONFIG);
}

it('a new process settles first, and knows of nothing', () => {
  const { self, patrol, holds, unreadable } = initialGuardState(1_000, 120_000);
  const never = { clocks: null, readMs: null, anySignMs: null, electedMs: null, ledUntilMs: null, adoptedMs: null };
  expect(self).toEqual({ startedMs: 1_000, settlesMs: 121_000, settlesFor: 'start', away: [], ...never });
  expect([patrol, holds, unreadable]).toEqual([{ askedMs: null, at: 0 }, [], []]);
});

describe('a look', () => {
  it('at which nothing happened keeps what was known', () => {
    const clocks = { atMs: AT, wallMs: 1_005_000, uptimeMs: 705_000 };
    expect(looked(OLD)).toEqual({ self: { ...OLD, clocks, readMs: AT }, startsAnew: false, isJumped: false });
    expect(looked({ ...OLD, clocks: null }, { wentMs: 99_000 })).toMatchObject({ startsAnew: false, isJumped: false });
  });
  it.each<[string, Seen, boolean]>([
    ['the wall clock went 2 s more', { wentMs: 7_000 }, true],
    ['a little less', { wentMs: 6_999 }, false],
    ['the wall clock went back', { wentMs: 3_000 }, true],
    ['a little less back', { wentMs: 3_001 }, false],
    ['the machine slept', { upMs: 7_000 }, true],
    ['and not', { upMs: 6_999 }, false],
  ])('%s: a jump %#', (_, seen, isJumped) => {
    const { self, ...step } = looked(OLD, seen);
    expect(step).toEqual({ startsAnew: isJumped, isJumped });
    expect(self).toMatchObject(
      isJumped
        ? { settlesMs: AT + 120_000, settlesFor: 'clock-jump', anySignMs: null }
        : { settlesMs: 121_000, settlesFor: 'start', anySignMs: AT - 5_000 },
    );
  });
  it('after 15 s without an answered read starts anew', () => {
    const away = (readMs: number | null) => ({ ...OLD, readMs });
    expect(looked(away(AT - 15_000))).toMatchObject({ startsAnew: false });
    expect(looked(away(AT - 15_001))).toMatchObject({
      startsAnew: true,
      isJumped: false,
      self: { settlesMs: AT + 120_000, settlesFor: 'api-return', anySignMs: null, readMs: AT },
    });
    expect(looked(away(AT - 15_001), { readMs: null })).toMatchObject({
      startsAnew: false,
      self: { readMs: AT - 15_001 },
    });
    // Since its start, if it never had one.
    expect(looked({ ...away(null), startedMs: AT - 15_000 })).toMatchObject({ startsAnew: false });
    expect(looked({ ...away(null), startedMs: AT - 15_001 })).toMatchObject({ startsAnew: true });
    expect(looked(away(null), { readMs: null })).toMatchObject({ startsAnew: false, self: { readMs: null } });
  });
  it('settles once for each election', () => {
    const elected = looked(OLD, { electedMs: AT - 1_000 });
    expect(elected.self).toMatchObject({ electedMs: AT - 1_000, settlesMs: AT + 119_000, settlesFor: 'election' });
    expect(elected.startsAnew).toBe(false);
    const again = looked({ ...elected.self, clocks: null, settlesMs: 7 }, { electedMs: AT - 1_000 });
    expect(again.self.settlesMs).toBe(7);
    expect(looked({ ...OLD, settlesMs: AT + 119_000 }, { electedMs: AT - 1_000 }).self.settlesFor).toBe('start');
  });
});

describe('the time without the lease', () => {
  const led = looked(OLD, { electedMs: AT - 60_000 }).self;
  it('begins when it last led, and ends with the next election', () => {
    const before = [{ fromMs: Number.NEGATIVE_INFINITY, untilMs: AT - 60_000 }];
    expect(led).toMatchObject({ ledUntilMs: AT, away: before });
    const standby = looked({ ...led, clocks: null }).self;
    expect(standby).toMatchObject({ ledUntilMs: AT, away: before });
    const again = looked({ ...standby, clocks: null, ledUntilMs: AT - 30_000 }, { electedMs: AT - 1_000 }).self;
    expect(again.away).toEqual([...before, { fromMs: AT - 30_000, untilMs: AT - 1_000 }]);
  });
  it('is also that in which it slept', () => {
    const slept = looked(
      { ...led, clocks: OLD.clocks, ledUntilMs: AT - 5_000 },
      { wentMs: 99_000, electedMs: AT - 60_000 },
    );
    expect(slept.self.ledUntilMs).toBe(AT - 5_000);
  });
  it('is remembered for the last hundred elections', () => {
    const away = Array.from({ length: 100 }, (_, at) => ({ fromMs: at, untilMs: at + 0.5 }));
    const next = looked({ ...OLD, ledUntilMs: 100, away }, { electedMs: AT }).self.away;
    expect([next.length, next[0]?.fromMs, next.at(-1)]).toEqual([100, 1, { fromMs: 100, untilMs: AT }]);
  });
});

describe('a sign of life', () => {
  it('after 20 s without one from anybody shows that what was read was stale', () => {
    expect(withSign({ ...OLD, anySignMs: AT - 20_000 }, AT, NONE, CONFIG)).toEqual({
      self: { ...OLD, anySignMs: AT },
      startsAnew: false,
      isJumped: false,
    });
    expect(withSign({ ...OLD, anySignMs: AT - 20_001 }, AT, NONE, CONFIG)).toEqual({
      self: { ...OLD, anySignMs: AT, settlesMs: AT + 120_000, settlesFor: 'api-return' },
      startsAnew: true,
      isJumped: false,
    });
    expect(withSign({ ...OLD, anySignMs: null }, AT, NONE, CONFIG).startsAnew).toBe(false);
  });
  it.each<[string, readonly [leaseMs: number, isSuspect: boolean][], number]>([
    ['40 s', [[40_000, false]], 20_000],
    ['10 s', [[10_000, false]], 20_000],
    ['160 s', [[160_000, false]], 50_000],
    [
      '160 s, of which one has 80 s',
      [
        [160_000, false],
        [80_000, false],
      ],
      30_000,
    ], // prettier-ignore
    [
      '160 s, of which one that is silent has 80 s',
      [
        [160_000, false],
        [80_000, true],
      ],
      50_000,
    ], // prettier-ignore
  ])('of nodes with leases of %s is awaited for a renewal longer', (_, leases, limitMs) => {
    const nodes = byUid(
      leases.map(([durationMs, isSuspect], i) =>
        aMemory({ lease: { renewed: 'r', durationMs }, isSuspect, of: { name: `w${i}` } }),
      ),
    );
    expect(withSign({ ...OLD, anySignMs: AT - limitMs }, AT, nodes, CONFIG).startsAnew).toBe(false);
    expect(withSign({ ...OLD, anySignMs: AT - limitMs - 1 }, AT, nodes, CONFIG).startsAnew).toBe(true);
  });
});
