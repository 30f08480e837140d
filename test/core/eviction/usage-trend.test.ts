import { describe, expect, it } from 'vitest';
import { isSoonZero, isWorse, trailAfter } from '../../../src/core/eviction/usage-trend.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import type { Point } from '../../../src/core/state/state.ts';
import { anObservation } from '../../a.ts';

const CAPACITY = 10_000;
const point = (atMs: number, available: number): Point => ({ atMs, available });
const sample = (sampledAtMs: number, available: number) => ({ available, capacity: CAPACITY, sampledAtMs });

describe('the trail of a signal', () => {
  it.each([
    ['begins with the first sample', [], 5_000, [point(5_000, 90)]],
    ['gets a point 100 ms after the last one', [point(4_900, 95)], 5_000, [point(4_900, 95), point(5_000, 90)]],
    [
      'gets none sooner',
      [point(3_000, 99), point(4_000, 99), point(4_901, 95)],
      5_000,
      [point(3_000, 99), point(4_000, 99), point(4_901, 95)],
    ],
    ['keeps a point of 3 s ago', [point(2_000, 95)], 5_000, [point(2_000, 95), point(5_000, 90)]],
    ['drops older points', [point(1_999, 95)], 5_000, [point(5_000, 90)]],
    ['drops points from the future', [point(5_001, 95)], 5_000, [point(5_000, 90)]],
  ])('%s', (_, before, atMs, expected) => {
    const observation = anObservation(atMs, { 'memory.available': known(sample(atMs, 90)) });
    const trail = trailAfter({ 'memory.available': before }, observation, () => true);
    expect(trail).toEqual({ 'memory.available': expected });
  });

  it('has the time of the sample, which may be older than the look', () => {
    const observation = anObservation(5_000, { 'nodefs.available': known(sample(4_200, 90)) });
    expect(trailAfter({}, observation, () => true)).toEqual({ 'nodefs.available': [point(4_200, 90)] });
  });

  it('stays while the signal cannot be read', () => {
    const before = { 'memory.available': [point(4_000, 95)] };
    const blind = anObservation(5_000, { 'memory.available': unknown('unreadable', 'memory.stat', 'test') });
    expect(trailAfter(before, blind, () => true)).toEqual(before);
  });

  it('is kept only of the signals that are acted on', () => {
    const both = anObservation(5_000, {
      'memory.available': known(sample(5_000, 90)),
      'nodefs.available': known(sample(5_000, 80)),
    });
    const trail = trailAfter(
      { 'nodefs.available': [point(4_000, 80)] },
      both,
      (signal) => signal === 'memory.available',
    );
    expect(trail).toEqual({ 'memory.available': [point(5_000, 90)] });
  });
});

describe('a signal reaches zero within 10 s (D3)', () => {
  /** So much at 1 s and 300 ms before the look at 5 s. */
  const fell = (from: number, via: number): readonly Point[] => [point(4_000, from), point(4_700, via)];
  const all = Number.POSITIVE_INFINITY;
  it.each([
    ['at exactly that rate', fell(110, 103), 100, 0, all, true],
    ['not at a lower rate', fell(109, 103), 100, 0, all, false],
    ['not if it no longer fell in the last part', fell(150, 101), 100, 0, all, false],
    ['not if it began to fall only in the last part', fell(101, 150), 100, 0, all, false],
    ['not if enough is about to be freed', fell(110, 103), 100, 1, all, false],
    ['although something is about to be freed, if it falls faster', fell(120, 106), 100, 100, all, true],
    ['even counting only what others took', fell(150, 103), 100, 0, 10, true],
    ['not if others took less', fell(150, 103), 100, 0, 9, false],
    ['not if it did not fall', fell(90, 90), 100, 0, all, false],
    ['not if it is stable at zero, because nothing gets worse', fell(0, 0), 0, 0, all, false],
    ['not before a second of it has been seen', [point(4_001, 900), point(4_700, 500)], 100, 0, all, false],
    ['not without any sample', [], 100, 0, all, false],
  ])('%s', (_, points, available, coming, byOthers, isSoon) => {
    expect(isSoonZero(points, sample(5_000, available), { coming, byOthers })).toBe(isSoon);
  });
});

describe('the pressure has grown since the last kill was proven (D15)', () => {
  /** Proven at 10 s with so much; it is `atMs` now, and so much is left. */
  const isWorseNow = (signal: Signal, then: number, atMs: number, now: number, points: readonly Point[] = []) =>
    isWorse(signal, sample(atMs, now), { decision: 'boot-1', atMs: 10_000, available: { [signal]: then } }, points);

  it.each([
    ['if more than 1% of the capacity is lost, however slowly', 1_000, 30_000, 899, [], true],
    ['not for exactly 1%', 1_000, 30_000, 900, [], false],
    ['if a tenth of what is left is lost within 3 s', 110, 13_000, 100, [], true],
    ['not for less', 109, 13_000, 100, [], false],
    ['not if that took longer', 110, 13_001, 100, [], false],
    ['if a tenth is lost within 3 s after a stable time', 110, 30_000, 100, [point(27_000, 110)], true],
    ['not if the level was lower in the stable time', 110, 30_000, 100, [point(27_000, 109)], false],
    ['not for what was lost before the proof', 101, 11_000, 100, [point(9_999, 900)], false],
    ['not if as much is left as then, whatever came and went', 100, 11_000, 100, [point(10_500, 900)], false],
    ['not if nothing was left then either', 0, 11_000, 0, [], false],
  ])('%s', (_, then, atMs, now, points, isNow) => {
    expect(isWorseNow('memory.available', then, atMs, now, points)).toBe(isNow);
  });

  it.each([
    ['if others took at once what the kill gave back', 101, 0, true],
    ['not if it gave back no more than 1%', 100, 0, false],
    ['not once something is left', 101, 1, false],
  ])('%s, with nothing left at the proof', (_, releasedBytes, now, isNow) => {
    const proof = { decision: 'boot-1', atMs: 10_000, available: { 'memory.available': 0 }, releasedBytes };
    expect(isWorse('memory.available', sample(11_000, now), proof, [])).toBe(isNow);
  });

  it.each([
    ['if ten process IDs are lost', 'pid.available', 20, 10, true],
    ['not for fewer, which a script takes for a moment', 'pid.available', 19, 10, false],
    ['if a few inodes are lost where few are left', 'nodefs.inodesFree', 19, 10, true],
  ] as const)('%s', (_, signal, then, now, isNow) => {
    expect(isWorseNow(signal, then, 10_500, now)).toBe(isNow);
  });

  it('not for a signal that could not be read at the proof', () => {
    const proof = { decision: 'boot-1', atMs: 10_000, available: {} };
    expect(isWorse('memory.available', sample(10_500, 1), proof, [point(10_100, 500)])).toBe(false);
  });
});
