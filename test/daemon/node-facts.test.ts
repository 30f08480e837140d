import { describe, expect, it } from 'vitest';
import { nodeFacts } from '../../src/daemon/reporter.ts';
import { effective } from '../config/a-config.ts';

describe('the node that status shows', () => {
  it.each([
    ['standalone', '/lab'],
    // Beside a kubelet the node is the machine, and the cgroup is only where its pods lie.
    ['kubelet', '/'],
  ] as const)('in mode %s is the cgroup %s', (mode, cgroupRoot) => {
    const configured = { ...effective(''), mode, cgroupRoot: '/lab' };
    expect(nodeFacts({ mounts: { layout: 'hybrid' } as never }, configured).cgroupRoot).toBe(cgroupRoot);
  });
});
