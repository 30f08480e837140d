import { mkdirSync, rmdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { kubepodsPath } from '../../src/host/cgroup/kubepods.ts';
import { createAllocatableMemory } from '../../src/observe/allocatable.ts';
import { aCgroup, limitMemory, machine } from '../host/test-cgroup.ts';
import { MIB } from './a-node.ts';

describe('the cgroup of all pods', () => {
  it.each([
    ['/', '/kubepods', '/kubepods.slice'],
    ['/kubelet', '/kubelet/kubepods', '/kubelet.slice/kubelet-kubepods.slice'],
    ['/foo-bar', '/foo-bar/kubepods', '/foo_bar.slice/foo_bar-kubepods.slice'],
    ['/a/b', '/a/b/kubepods', '/a.slice/a-b.slice/a-b-kubepods.slice'],
  ])('below cgroupRoot %s is %s, or %s with the systemd driver', (root, cgroupfs, systemd) => {
    expect([kubepodsPath('cgroupfs', root), kubepodsPath('systemd', root)]).toEqual([cgroupfs, systemd]);
  });
});

describe.skipIf(machine === null)('allocatable memory [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;

  it('is that of the cgroup that the mode found, even if it appears late, disappears and returns', () => {
    const root = aCgroup(mounts.memory);
    const path = `${root}/kubepods.slice`;
    const allocatable = createAllocatableMemory({ mounts, cgroupRoot: '/', podsCgroup: () => known(path) });
    expect(allocatable.available(0)).toMatchObject({ why: 'not-applicable' });
    for (const size of [64, 32]) {
      mkdirSync(mounts.memory + path);
      limitMemory(mounts, path, size * MIB);
      expect(allocatable.available(1)).toMatchObject({ value: { capacity: size * MIB } });
      rmdirSync(mounts.memory + path);
      expect(allocatable.available(2)).toMatchObject({ why: 'not-applicable' });
    }
    allocatable.close();
  });

  it('is not applicable while the mode has found none, and follows it to another path', () => {
    const [one, two] = [aCgroup(mounts.memory), aCgroup(mounts.memory)];
    limitMemory(mounts, one, 64 * MIB);
    limitMemory(mounts, two, 32 * MIB);
    let at: Reading<string> = unknown('absent', 'kubepods', 'the kubelet has not started');
    const allocatable = createAllocatableMemory({ mounts, cgroupRoot: '/', podsCgroup: () => at });
    expect(allocatable.available(0)).toMatchObject({ why: 'not-applicable' });
    at = known(one);
    expect(allocatable.available(1)).toMatchObject({ value: { capacity: 64 * MIB } });
    at = known(two);
    expect(allocatable.available(2)).toMatchObject({ value: { capacity: 32 * MIB } });
    allocatable.close();
  });
});
