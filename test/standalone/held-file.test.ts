import { describe, expect, it } from 'vitest';
import { nothingHeld, readHeld } from '../../src/standalone/restart/held-file.ts';

const unit = {
  unit: 'web.service',
  pod: 'shop/web',
  qos: 'Burstable',
  tolerations: [],
  isStaticCritical: false,
  after: 'restart',
  conditions: ['MemoryPressure'],
  invocationId: '',
  asked: null,
  level: 0,
  dueMs: null,
};

describe('what an eviction holds down', () => {
  it('is read back as it was written', () => {
    const stoppedAgain = [{ unit: 'web.service', atMs: 7, run: '01' }];
    const held = { ...nothingHeld('boot'), conditions: ['MemoryPressure'], units: [unit], stoppedAgain };
    expect(readHeld(JSON.parse(JSON.stringify(held)))).toEqual(held);
  });

  it('may come from a version that did not count stops separately, or by run', () => {
    const { stoppedAgain: _, ...earlier } = nothingHeld('boot');
    expect(readHeld({ ...earlier, units: [{ ...unit, stoppedAgainMs: [1] }] })?.units).toHaveLength(1);
    const stoppedAgain = [{ unit: 'web.service', atMs: 7 }];
    expect(readHeld({ ...earlier, stoppedAgain })?.stoppedAgain).toEqual(stoppedAgain);
  });

  it('may come from a version that did not write what it asks for: its stop may not be over', () => {
    const { asked: _, ...earlier } = unit;
    expect(readHeld({ ...nothingHeld('boot'), units: [earlier] })?.units).toMatchObject([{ asked: 'stop' }]);
  });

  it.each([
    ['a list in place of a QoS class', { units: [{ ...unit, qos: ['Burstable'] }] }],
    ['a list in place of a condition', { conditions: [['MemoryPressure']] }],
    ['a stop without a time', { stoppedAgain: [{ unit: 'web.service' }] }],
    ['a condition that does not exist', { units: [{ ...unit, conditions: ['CPUPressure'] }] }],
  ])('is damaged with %s', (_, damage) => {
    expect(readHeld({ ...nothingHeld('boot'), ...damage })).toBeNull();
  });
});
