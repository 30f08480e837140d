import { describe, expect, it } from 'vitest';
import type { GuardObservation } from '../../../src/core/guard/observation.ts';
import { stepSelf, withSign } from '../../../src/core/guard/self.ts';
import { initialGuardState, type SelfMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';

const CONFIG = aGuardConfig({ settleMs: 120_000 });
const NEW = initialGuardState(1_000, 120_000).self;
const AT = 500_000;
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
  const never = { clocks: null, readMs: null, anySignMs: null, electedMs: null, adoptedMs: null };
  expect(self).toEqual({ startedMs: 1_000, settlesMs: 121_000, settlesFor: 'start', ...never });
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

describe('a sign of life', () => {
  it('after 20 s without one from anybody shows that what was read was stale', () => {
    expect(withSign({ ...OLD, anySignMs: AT - 20_000 }, AT, CONFIG)).toEqual({
      self: { ...OLD, anySignMs: AT },
      startsAnew: false,
      isJumped: false,
    });
    expect(withSign({ ...OLD, anySignMs: AT - 20_001 }, AT, CONFIG)).toEqual({
      self: { ...OLD, anySignMs: AT, settlesMs: AT + 120_000, settlesFor: 'api-return' },
      startsAnew: true,
      isJumped: false,
    });
    expect(withSign({ ...OLD, anySignMs: null }, AT, CONFIG).startsAnew).toBe(false);
  });
});
