import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { countPods, sayNames } from './phrases.ts';

const NAMED = 5;
const named = (pods: readonly string[]): string => escapeUnsafe(sayNames(pods, NAMED));

export const NO_KUBEPODS = 'kube-no-pods-cgroup';
export function noKubepods(where: string): Finding {
  const text = `there is no cgroup ${where}: the kubelet has not started, has another cgroupRoot, or runs with cgroupsPerQOS: false; no pod is found`;
  return { id: NO_KUBEPODS, text };
}

export const OTHER_DRIVER = 'kube-cgroup-driver';
export const otherDriver = (detail: string): Finding => ({
  id: OTHER_DRIVER,
  text: `${detail}: nodewarden uses those`,
});

export const PODS_CGROUPS = 'kube-pod-cgroups';
export const podCgroupsUnreadable = (where: string, detail: string): Finding => ({
  id: PODS_CGROUPS,
  text: `the cgroups of the pods cannot be read, and no pod is chosen: ${where}: ${detail}`,
});
export const tooManyPodCgroups = (): Finding => ({
  id: PODS_CGROUPS,
  text: 'there are more pod cgroups than the agent reads: the other pods are never chosen',
});

export const UNDECLARED = 'kube-pods-undeclared';
export function undeclaredPods(pods: readonly string[]): Finding {
  const text = `${countPods(pods.length)} with a cgroup, but not known from the API server: ${named(pods)}; until then they give way only to pods that are known to exceed their requests`;
  return { id: UNDECLARED, text };
}

export const NO_CONTAINERS = 'kube-containers-missing';
export function containersMissing(pods: readonly string[]): Finding {
  const text = `the runtime reports ${countPods(pods.length)} as running, but none of their containers has a cgroup: ${named(pods)}; never chosen`;
  return { id: NO_CONTAINERS, text };
}

export const UNNAMED = 'kube-containers-unnamed';
export function unnamedContainers(pods: readonly string[]): Finding {
  const text = `containers of ${countPods(pods.length)} are known to neither the runtime nor the API server: ${named(pods)}; stopping the pod ends them too, possibly including its sandbox`;
  return { id: UNNAMED, text };
}

export const BINDINGS_IGNORED = 'kube-bindings-ignored';
export function bindingsIgnored(pods: readonly string[]): Finding {
  const text = `annotations that bind a pod to a unit or cgroup are ignored in mode kubelet: ${named(pods)}`;
  return { id: BINDINGS_IGNORED, text };
}
