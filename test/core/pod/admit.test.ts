import { describe, expect, it } from 'vitest';
import { admits } from '../../../src/core/pod/admit.ts';
import { aPod } from '../../a.ts';

const toleration = { key: 'node.kubernetes.io/memory-pressure', operator: 'Exists', value: '', effect: 'NoSchedule' };
const bestEffort = aPod({ qos: 'BestEffort' });

describe('admission under pressure', () => {
  it('admits every pod without a condition', () => {
    expect(admits(bestEffort, [])).toEqual({ kind: 'admitted' });
  });

  it('admits a critical pod under any condition', () => {
    expect(admits(aPod({ qos: 'BestEffort', isStaticCritical: true }), ['DiskPressure']).kind).toBe('admitted');
  });

  it('rejects only BestEffort pods if only memory is short', () => {
    expect(admits(aPod({ qos: 'Burstable' }), ['MemoryPressure']).kind).toBe('admitted');
    expect(admits(bestEffort, ['MemoryPressure'])).toEqual({
      kind: 'rejected',
      reason: 'Evicted',
      message: 'Pod was rejected: The node had condition: [MemoryPressure]. ',
    });
  });

  it.each([
    ['admitted', {}],
    ['admitted', { key: '' }],
    ['admitted', { effect: '' }],
    ['admitted', { operator: 'Equal' }],
    ['admitted', { operator: '' }],
    ['rejected', { operator: 'Equal', value: 'x' }],
    ['rejected', { operator: 'Gt' }],
    ['rejected', { key: 'node.kubernetes.io/disk-pressure' }],
    ['rejected', { effect: 'NoExecute' }],
  ] as const)('%s: a BestEffort pod that tolerates the taint like %j', (expected, change) => {
    const pod = aPod({ qos: 'BestEffort', tolerations: [{ ...toleration, ...change }] });
    expect(admits(pod, ['MemoryPressure']).kind).toBe(expected);
  });

  it('rejects all other pods under disk or PID pressure, whatever else is set', () => {
    const guaranteed = aPod({ qos: 'Guaranteed', tolerations: [toleration] });
    expect(admits(guaranteed, ['DiskPressure']).kind).toBe('rejected');
    expect(admits(guaranteed, ['MemoryPressure', 'PIDPressure'])).toMatchObject({
      message: 'Pod was rejected: The node had condition: [MemoryPressure PIDPressure]. ',
    });
  });
});
