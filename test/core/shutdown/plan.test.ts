import { describe, expect, it } from 'vitest';
import { assign, dropInSeconds, neededDelayMs, planShutdown, planStop } from '../../../src/core/shutdown/plan.ts';
import { aPod } from '../../a.ts';

const phases = (...entries: readonly (readonly [number, number])[]) =>
  entries.map(([fromPriority, periodSeconds]) => ({ fromPriority, periodSeconds }));
const pod = (name: string, priority: number) => aPod({ name, priority });

/** The number of the phase of each priority, counted from 1. */
function phaseOf(entries: ReturnType<typeof phases>, priorities: readonly number[]): readonly number[] {
  return priorities.map((priority) => {
    const groups = planShutdown(entries, [pod('web', priority)]).filter(({ stops }) => stops.length > 0);
    expect(groups).toHaveLength(1);
    return groups[0]?.phase ?? 0;
  });
}

describe('the phase of a pod (kubelet-shutdown.md 4.3)', () => {
  const three = phases([-10, 5], [0, 5], [1_000, 5]);
  it.each([
    ['exactly where one begins', [-10, 0, 1_000], [1, 2, 3]],
    ['one below', [-11, -1, 999], [1, 1, 2]],
    ['one above', [-9, 1, 1_001], [1, 2, 3]],
    ['far outside', [-(2 ** 31), 2 ** 31 - 1], [1, 3]],
  ])('%s', (_, priorities, expected) => {
    expect(phaseOf(three, priorities)).toEqual(expected);
  });

  it('is the first of two that begin at exactly its priority, and the second for a higher one (1.4)', () => {
    const twice = phases([0, 5], [0, 7], [100, 5]);
    expect(phaseOf(twice, [-1, 0, 1, 99, 100])).toEqual([1, 1, 2, 2, 3]);
  });
});

describe('the phase that a pod keeps if its priority changes', () => {
  const three = phases([0, 5], [1_000, 5], [2_000, 5]);

  it('is remembered for those that wait for a phase after the first', () => {
    expect(assign(three, [pod('web', 0), pod('db', 1_500), pod('dns', 2_000)])).toEqual({ 'uid-db': 2, 'uid-dns': 3 });
  });

  it('is the remembered one', () => {
    const plan = planShutdown(three, [pod('db', 0), pod('web', 0)], { 'uid-db': 2 });
    expect(plan.map(({ stops }) => stops.map((stop) => stop.pod.name))).toEqual([['web'], ['db'], []]);
  });

  it('is a later one if a pod of that phase has come to depend on it', () => {
    const inherited = { priority: 2_000, from: 'uid-dns' };
    const db = { ...pod('db', 1_500), inherited };
    const plan = planShutdown(three, [db, pod('dns', 2_000)], { 'uid-db': 2, 'uid-dns': 3 });
    expect(plan.map(({ stops }) => stops.map((stop) => stop.pod.name))).toEqual([[], [], ['db', 'dns']]);
  });
});

describe('the plan', () => {
  it('has every phase, even without pods, and its pods in the given order', () => {
    const plan = planShutdown(phases([0, 20], [1_000, 30], [2_000, 10]), [
      pod('b', 0),
      pod('dns', 2_000),
      pod('a', 999),
    ]);
    expect(
      plan.map(({ phase, fromPriority, stops }) => [phase, fromPriority, stops.map((stop) => stop.pod.name)]),
    ).toEqual([
      [1, 0, ['b', 'a']],
      [2, 1_000, []],
      [3, 2_000, ['dns']],
    ]);
  });

  it('is empty without phases', () => {
    expect(planShutdown([], [pod('web', 0)])).toEqual([]);
  });
});

describe('the stop of a pod', () => {
  it.each([
    // own, period: asked, effective, wait
    [30, 20, 20, 20, 30_000],
    [5, 20, 5, 5, 10_000],
    [7, 20, 7, 7, 10_000],
    [8, 20, 8, 8, 12_000],
    [9, 20, 9, 9, 13_000],
    [0, 20, 0, 1, 10_000],
    [1, 20, 1, 1, 10_000],
    [30, 0, 0, 1, 10_000],
    [30, -5, -5, 1, 10_000],
  ])(
    'with %i s of its own in a phase of %i s is asked for %i s, gets %i s, and is waited for %i ms',
    (own, period, asked, effective, waitMs) => {
      const planned = planStop(aPod({ name: 'web', terminationGraceSeconds: own }), period);
      expect(planned).toMatchObject({ graceSeconds: asked, effectiveGraceSeconds: effective, waitMs });
    },
  );

  it('that is being deleted keeps its grace period, which the plan does not know (4.9)', () => {
    expect(planStop(aPod({ name: 'web', isTerminating: true }), 20)).toMatchObject({
      graceSeconds: 20,
      effectiveGraceSeconds: null,
    });
  });
});

describe('what is requested of logind', () => {
  it('is the sum of all periods, including negative ones', () => {
    expect(neededDelayMs(phases([0, 20], [1_000, 0], [2_000, 10]))).toBe(30_000);
    expect(neededDelayMs(phases([0, 20], [1_000, -5]))).toBe(15_000);
    expect(neededDelayMs([])).toBe(0);
  });

  it('is written only if more is needed than granted', () => {
    expect(dropInSeconds(30_000, 5_000)).toBe(30);
    expect(dropInSeconds(30_000, 29_999)).toBe(30);
    expect(dropInSeconds(30_000, 30_000)).toBeNull();
    expect(dropInSeconds(30_000, 60_000)).toBeNull();
  });
});
