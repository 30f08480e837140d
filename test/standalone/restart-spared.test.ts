import { describe, expect, it } from 'vitest';
import { type HeldUnit, loadHeld, nothingHeld, saveHeld } from '../../src/standalone/restart/held-file.ts';
import { addPod, bootId, clock, directory, fake, heard, needs, open, podOf, standalone, stop } from './a-shutdown.ts';

describe.skipIf(needs !== '')(`an eviction that died before its unit was stopped, and is dropped ${needs}`, () => {
  const held = (): readonly HeldUnit[] => loadHeld(directory, bootId, clock).held.units;
  /** As that run left it. */
  const saveHolding = (unit: string): void => {
    const pod = { pod: 'default/web', qos: 'BestEffort', tolerations: [], isStaticCritical: false } as const;
    const holding = { after: 'restart', conditions: ['MemoryPressure'], invocationId: '01', isAlong: false } as const;
    const units = [{ unit, ...pod, ...holding, asked: 'stop', level: 0, dueMs: null } as const];
    saveHeld(directory, { ...nothingHeld(bootId), conditions: ['MemoryPressure'], units });
  };
  const resume = (isOver: boolean) => {
    const resumed = { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm', first: 'sigkill' } as const;
    return stop('web', { ...resumed, why: 'eviction', isOver: async () => isOver });
  };

  it('does not hold it: who restarts it under the condition is not said to undo an eviction', async () => {
    await addPod('web', 'unit');
    saveHolding('web.service');
    await open('web');
    standalone.marks.setCondition('MemoryPressure', true, '');
    expect(await resume(true)).toMatchObject({ kind: 'dropped', because: 'not-killed' });
    expect(held()).toEqual([]);
    expect(heard.lines).toContain('restarted: web.service is no longer held: it did not stop');
    expect(podOf('web')?.cgroup.known).toBe(true);
    expect(fake.asked()).toEqual([]);
  });

  it('holds it while its stop is on its way', async () => {
    await addPod('web', 'unit');
    saveHolding('web.service');
    await open('web');
    standalone.marks.setCondition('MemoryPressure', true, '');
    Object.assign(fake.units.get('web.service') ?? {}, { hasJob: 'stop' });
    expect(await resume(true)).toMatchObject({ kind: 'ended' });
    expect(held().map(({ unit }) => unit)).toEqual(['web.service']);
  });
});
