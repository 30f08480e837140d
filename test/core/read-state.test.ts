import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { readState } from '../../src/core/read-state.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../a.ts';

/** As a file holds it, in the middle of an eviction. */
function saved() {
  const pods = { pods: known([aPod({ name: 'web', workingSetBytes: 50 * MI })]) };
  const low = { 'memory.available': { available: 10 * MI, capacity: 1000 * MI } };
  const { state } = decide(
    initialState('boot'),
    anObservation(1_000, low, pods),
    aConfig([aThreshold('memory.available', 100 * MI)]),
  );
  return JSON.parse(JSON.stringify(state));
}

describe('a saved state', () => {
  it('is read back as it was written', () => {
    expect(saved().act.evictions).toHaveLength(1);
    expect(readState(saved())).toEqual(saved());
  });

  // Each of these would throw at the first look after the restart, and at every one after that.
  it.each<[string, (state: ReturnType<typeof saved>) => void]>([
    ['a signal that does not exist', (state) => (state.act.evictions[0].cause.threshold.signal = 'memory')],
    ['a threshold that does not exist', (state) => (state.act.evictions[0].cause.threshold.id = 'memory/evictionHard')],
    ['an amount that is no number', (state) => (state.act.evictions[0].cause.threshold.target.nanos = '1e9')],
    ['a timer of no threshold', (state) => (state.firstMetMs['x/evictionHard'] = 1)],
    ['a condition that does not exist', (state) => (state.conditionLastMetMs.CPUPressure = 1)],
    ['a sample of no signal', (state) => (state.lastSample.memory = { available: 1, capacity: 1, sampledAtMs: 1 })],
    ['a QoS class that does not exist', (state) => (state.act.evictions[0].victim.qos = 'Best')],
    ['a limit that does not exist', (state) => (state.act.evictions[0].cause = { kind: 'over-limit', limit: 'disk' })],
  ])('is not trusted with %s', (_, damage) => {
    const state = saved();
    damage(state);
    expect(readState(state)).toBeNull();
  });
});
