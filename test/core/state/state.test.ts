import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

const CAPACITY = 1_000 * MI;

describe('the state', () => {
  it('stays small: below 256 KiB after 600 looks at 1,000 pods', () => {
    const many = Array.from({ length: 1_000 }, (_, n) =>
      aPod({ name: `pod-${n}`, ownerKey: `owner-${n % 7}`, workingSetBytes: n * MI }),
    );
    const core = aConfig([aThreshold('memory.available', 100 * MI)], { guard: { kills: 3, windowMs: 600_000 } });
    let state = initialState('boot');
    for (let look = 0; look < 600; look++) {
      const underWay = state.act.kind === 'evicting' ? state.act.evictions : [];
      const outcomes = underWay.map(
        ({ decision }) => ({ of: decision, atMs: look * 100, kind: 'survived', left: [], detail: 'test' }) as const,
      );
      const available = look % 5 === 0 ? 500 * MI : 50 * MI;
      const observation = anObservation(
        look * 100,
        { 'memory.available': { available, capacity: CAPACITY } },
        { pods: known(many), outcomes },
      );
      state = decide(state, observation, core).state;
    }
    expect(JSON.stringify(state).length).toBeLessThan(256 * 1_024);
  });
});
