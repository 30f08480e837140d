import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { known } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../a.ts';

const inSwap = (name: string, workingSet: number, swap: number) =>
  aPod({ name, workingSetBytes: workingSet * MI, usage: { swapBytes: known(swap * MI) } });
const pods = [
  { ...inSwap('limited', 900, 0), isStalledByOwnLimit: true as const },
  inSwap('resident', 300, 0),
  inSwap('swapped', 50, 800),
];
const stallFree = {
  ...aThreshold('memory.stallFree', 0),
  value: { kind: 'fraction', fraction: Math.fround(Math.fround(66.7) / 100) },
} as const;
const config = aConfig([stallFree, aThreshold('swap.available', 100 * MI)]);

describe('a recorded decision about swap or stall', () => {
  it.each([
    ['memory.stallFree', { available: 4_321.5, capacity: 10_000 }, 'swapped'],
    ['swap.available', { available: 90 * MI, capacity: 500 * MI }, 'limited'],
  ] as const)('for %s is re-derived from what was seen', (signal: Signal, sample, victim) => {
    const observation = anObservation(1_000, { [signal]: sample }, { pods: known(pods) });
    const evict = decide(initialState('boot'), observation, config).decisions.find(({ kind }) => kind === 'evict');
    if (evict?.kind !== 'evict') throw new Error('nobody is evicted');
    expect(evict.victim.name).toBe(victim);
    const recorded = scenarioOf({ name: 'd-1', observation, config, acted: evict.threshold });
    const [document] = parseDocuments(JSON.stringify(recorded), 'record', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    expect(read?.problems).toEqual([]);
    const [look] = read?.scenario ? [...runEviction(read.scenario)] : [];
    expect(look?.result.evicted.map(({ pod }) => pod)).toEqual([`default/${victim}`]);
    const again = look?.decisions.find(({ kind }) => kind === 'evict');
    expect(again?.kind === 'evict' && again.ranking).toEqual(evict.ranking);
    if (signal === 'memory.stallFree') {
      expect(recorded?.config).toMatchObject({ evictionStall: { memory: { full: '33.3%' } } });
    }
  });
});
