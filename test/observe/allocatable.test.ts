import { describe, expect, it } from 'vitest';
import { podsCgroupPaths } from '../../src/observe/allocatable.ts';

describe('the cgroup of all pods', () => {
  it.each([
    ['/', '/kubepods', '/kubepods.slice'],
    ['/kubelet', '/kubelet/kubepods', '/kubelet.slice/kubelet-kubepods.slice'],
    ['/foo-bar', '/foo-bar/kubepods', '/foo_bar.slice/foo_bar-kubepods.slice'],
    ['/a/b', '/a/b/kubepods', '/a.slice/a-b.slice/a-b-kubepods.slice'],
  ])('below cgroupRoot %s is %s, or %s with the systemd driver', (root, cgroupfs, systemd) => {
    expect(podsCgroupPaths(root)).toEqual([cgroupfs, systemd]);
  });
});
