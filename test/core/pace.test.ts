import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { unknown } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state.ts';
import { aConfig, anObservation, aThreshold, GI, MI } from '../a.ts';

const CPUS = 2;
const pace = { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: CPUS };
const memory = aThreshold('memory.available', 200 * MI);
const disk = aThreshold('nodefs.available', 10 * GI);
const config = aConfig([memory, disk], { pace });
const before: State = { ...initialState('boot'), lastLookMs: 0 };

function next(memoryMiB: number, diskGiB: number | null, state: State = before, cpuMs = 0) {
  const nodefs =
    diskGiB === null ? unknown('unreadable', '/var', 'gone') : { available: diskGiB * GI, capacity: 100 * GI };
  const signals = { 'memory.available': { available: memoryMiB * MI, capacity: 4 * GI }, 'nodefs.available': nodefs };
  return decide(state, anObservation(60_000, signals, { cpuMs }), config).next;
}

describe('the pace (D2)', () => {
  it('is the time in which the fastest fill could cross a threshold, from 2 ms to 10 s', () => {
    expect(next(200 + 409.6 * CPUS, 90).afterMs).toBeCloseTo(200);
    expect(next(201, 90).afterMs).toBe(2);
    expect(next(4_000, 10.1).afterMs).toBeCloseTo(25);
  });

  it('of the file systems is their own: they are far, whatever the memory is', () => {
    expect(next(201, 90)).toMatchObject({ afterMs: 2, disksAfterMs: 10_000 });
    expect(next(201, 10.4)).toMatchObject({ afterMs: 2, disksAfterMs: expect.closeTo(100) });
    expect(next(201, null)).toMatchObject({ disksAfterMs: 10_000 });
  });

  it('of the file systems is that of the looks while something is waited for', () => {
    // A met hard threshold without anybody to choose: a look each second.
    expect(next(4_000, 9)).toMatchObject({ afterMs: 0, pods: 'nodefs.available' });
    expect(next(4_000, 9)).not.toHaveProperty('disksAfterMs');
    const held: State = { ...before, conditionLastMetMs: { DiskPressure: 59_000 } };
    expect(next(4_000, 90, held).disksAfterMs).toBeLessThanOrEqual(config.pressureTransitionMs);
  });

  it("is 20 ms at least once the minute's CPU budget is spent, and not a moment before", () => {
    const since: State = { ...before, spent: [{ atMs: 1_000, cpuMs: 0 }] };
    expect(next(201, 90, since, 599).afterMs).toBe(2);
    expect(next(201, 90, since, 600).afterMs).toBe(20);
    // What is further away is looked at no sooner for it.
    expect(next(200 + 409.6 * CPUS, 90, since, 600).afterMs).toBeCloseTo(200);
  });
});
