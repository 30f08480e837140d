import { mkdirSync, rmdirSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { type CgroupDriver, kubepodsPath } from '../../src/host/cgroup/kubepods.ts';
import { type Qos, qosPath } from '../../src/kube/pods/cgroup-paths.ts';
import { removeCgroup } from '../host/test-cgroup.ts';

let count = 0;

/** Real cgroups as a kubelet with this driver makes them, below a cgroupRoot of the test's own; they go after the test. */
export function aKubeletTree(mounts: CgroupMounts, driver: CgroupDriver) {
  const cgroupRoot = `/nodewarden-test-${process.pid}-kube${++count}`;
  return { cgroupRoot, ...treeIn(mounts, driver, cgroupRoot) };
}

/** Where a kubelet puts the cgroup of a pod. */
export function podPath(driver: CgroupDriver, cgroupRoot: string, qos: Qos, uid: string): string {
  const parent = qosPath(driver, cgroupRoot, qos);
  if (driver === 'cgroupfs') return `${parent}/pod${uid}`;
  return `${parent}/${parent.replace(/^.*\/(.*)\.slice$/, '$1')}-pod${uid.replaceAll('-', '_')}.slice`;
}

export function treeIn(mounts: CgroupMounts, driver: CgroupDriver, cgroupRoot: string) {
  const kubepods = kubepodsPath(driver, cgroupRoot);
  const top = `${mounts.memory}/${kubepods.split('/')[1]}`;
  const make = (path: string): string => {
    mkdirSync(mounts.memory + path, { recursive: true });
    onTestFinished(() => removeCgroup(top));
    return path;
  };
  const containerName = (id: string): string => (driver === 'cgroupfs' ? id : `cri-containerd-${id}.scope`);
  return {
    kubepods,
    make,
    remove: (path: string): void => rmdirSync(mounts.memory + path),
    addPod: (qos: Qos, uid: string, ...ids: readonly string[]): string => {
      const path = make(podPath(driver, cgroupRoot, qos, uid));
      for (const id of ids) make(`${path}/${containerName(id)}`);
      return path;
    },
    containerIn: (pod: string, id: string): string => `${pod}/${containerName(id)}`,
  };
}

/** A uid or id that is made of one digit. */
export const aUid = (digit: string): string => [8, 4, 4, 4, 12].map((length) => digit.repeat(length)).join('-');
export const anId = (digit: string): string => digit.repeat(64);
