import { describe, expect, it } from 'vitest';
import { readStops } from '../../src/standalone/stop/stops-file.ts';

const pod = {
  decision: 'd1',
  uid: 'u1',
  pod: 'shop/web',
  unit: 'web.service',
  cannot: null,
  invocationId: '',
  activeState: 'active',
  stage: 'told',
  graceEndsMs: 5,
};
const file = { schema: 1, bootId: 'boot', pods: [pod, { ...pod, unit: null, cannot: 'it is a cgroup' }] };

describe('what a shutdown stopped', () => {
  it('is read back as it was written', () => {
    expect(readStops(JSON.parse(JSON.stringify(file)))).toEqual(file);
  });

  it.each([
    ['another schema', { schema: 2 }],
    ['no boot', { bootId: null }],
    ['no list', { pods: {} }],
    ['a number for a unit', { pods: [{ ...pod, unit: 7 }] }],
    ['a pod without a uid', { pods: [{ ...pod, uid: undefined }] }],
    ['a stage that does not exist', { pods: [{ ...pod, stage: 'asked' }] }],
    ['a time that is none', { pods: [{ ...pod, graceEndsMs: null }] }],
    ['a reason that is none', { pods: [{ ...pod, cannot: false }] }],
    ['a way of telling that is none', { pods: [{ ...pod, isSignalled: 'yes' }] }],
  ])('is damaged with %s', (_, damage) => {
    expect(readStops({ ...file, ...damage })).toBeNull();
  });
});
