import { describe, expect, it } from 'vitest';
import { decide, isDiskNear } from '../../../src/core/decide.ts';
import { unknown } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aThreshold, GI } from '../../a.ts';

const of = (available: number) => ({ available, capacity: 100 * GI });
const tenGi = aThreshold('nodefs.available', 10 * GI);
const tenth = { ...tenGi, value: { kind: 'fraction', fraction: Math.fround(0.1) } } as const;

describe('a disk is near a threshold', () => {
  it.each([tenGi, tenth])('from 5% of its capacity above it, in either notation', (threshold) => {
    const isNear = (gib: number): boolean =>
      isDiskNear(anObservation(0, { 'nodefs.available': of(gib * GI) }), [threshold]);
    expect([16, 14, 9, 0].map(isNear)).toEqual([false, true, true, true]);
  });

  it('for any disk signal, and for no other', () => {
    const inodes = aThreshold('imagefs.inodesFree', 1_000);
    const memory = aThreshold('memory.available', 10 * GI);
    const observation = anObservation(0, {
      'nodefs.available': of(50 * GI),
      'imagefs.inodesFree': { available: 1_100, capacity: 100_000 },
      'memory.available': of(9 * GI),
    });
    expect(isDiskNear(observation, [tenGi, memory])).toBe(false);
    expect(isDiskNear(observation, [tenGi, memory, inodes])).toBe(true);
  });

  it('never if it is unknown or has no threshold', () => {
    const lost = anObservation(0, { 'nodefs.available': unknown('timed-out', 'statfs', 'no answer') });
    expect(isDiskNear(lost, [tenGi])).toBe(false);
    expect(isDiskNear(anObservation(0, { 'nodefs.available': of(GI) }), [])).toBe(false);
  });

  it('and the next look knows it', () => {
    const state = initialState('boot');
    const config = aConfig([tenGi]);
    const next = (gib: number) => decide(state, anObservation(0, { 'nodefs.available': of(gib * GI) }), config).next;
    expect(next(14).isDiskNear).toBe(true);
    expect('isDiskNear' in next(50)).toBe(false);
  });
});
