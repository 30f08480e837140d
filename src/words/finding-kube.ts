import type { Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { counted, countPods, sayAmount, sayNames } from './phrases.ts';

/** About the thresholds of the kubelet beside the agent, in the unit of the signal. */

export type KubeletFirst = {
  readonly signal: Signal;
  readonly kind: 'hard' | 'soft' | 'reclaim';
  /** The value at which the kubelet acts; for `reclaim`, the value that it continues to. */
  readonly theirs: number;
  /** Our highest threshold that counts against it; null: none. */
  readonly ours: number | null;
  /** How far ours must be above a hard threshold, because both act at the moment of crossing; else 0. */
  readonly margin: number;
  /** Where the kubelet's threshold comes from, in words. */
  readonly from: string;
};

export const kubeletFirstId = (signal: Signal, kind: KubeletFirst['kind']): string => `kubelet-first/${signal}/${kind}`;
export function kubeletFirst({ signal, kind, theirs, ours, margin, from }: KubeletFirst): Finding {
  const say = (amount: number): string => sayAmount(signal, amount);
  const source = escapeUnsafe(from);
  const id = kubeletFirstId(signal, kind);
  if (kind === 'reclaim') {
    const stops = ours === null ? '' : `, but nodewarden stops at ${say(ours)}`;
    const text = `${signal}: once the kubelet evicts, it continues to ${say(theirs)} (${source})${stops}: raise evictionMinimumReclaim`;
    return { id, text };
  }
  const its = `its ${kind} threshold is ${say(theirs)} (${source})`;
  const todo =
    kind === 'hard'
      ? `set evictionHard of nodewarden to at least ${say(theirs + margin)}`
      : 'give nodewarden a soft threshold that is not lower, with a grace period at least 15 s shorter';
  if (ours === null)
    return {
      id,
      text: `${signal}: the kubelet acts first: ${its}, and nodewarden has none that acts earlier; ${todo}`,
    };
  const first = ours > theirs ? 'the kubelet may act first' : 'the kubelet acts first';
  return { id, text: `${signal}: ${first}: ${its}, that of nodewarden is ${say(ours)}; ${todo}` };
}

/** About the node, as the API server shows it. */

export const OUT_OF_SERVICE = 'node-out-of-service';
export const OUT_OF_SERVICE_TAINT = 'node.kubernetes.io/out-of-service';
/** `value`: of the taint. */
export function outOfService(nodeName: string, value: string): Finding {
  const by = value.startsWith('nodewarden.') ? ', set by nodewarden guard' : '';
  const so =
    'while the node is NotReady its pods are force-deleted and its volumes detached, although they may be in use';
  const todo = `only whoever set it should remove it: kubectl taint node ${nodeName} ${OUT_OF_SERVICE_TAINT}-`;
  return {
    id: OUT_OF_SERVICE,
    text: `the node has the taint ${OUT_OF_SERVICE_TAINT}=${escapeUnsafe(value)}${by}: ${so}; ${todo}`,
  };
}

export const CORDON_KEPT = 'node-cordon-kept';
export const cordonKept = (): Finding => ({
  id: CORDON_KEPT,
  text: 'the node is still cordoned by a shutdown of nodewarden that is over, because an autoscaler is removing the node; it is uncordoned once the autoscaler has taken its taint away',
});

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
  const text = `${countPods(pods.length)} with a cgroup, but not known from the API server: ${named(pods)}; until then they give way to pods that are known to exceed their requests, and otherwise one of them is evicted only if the others cannot be the cause`;
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

export const VOLUMES_LEFT = 'kube-memory-volumes';
export function volumesLeft(pods: readonly string[]): Finding {
  const text = `memory volumes of ${countPods(pods.length)} that ended 30 s ago or more still hold memory, because the kubelet has not unmounted them: ${named(pods)}; systemctl status kubelet says whether it runs`;
  return { id: VOLUMES_LEFT, text };
}

export const BINDINGS_IGNORED = 'kube-bindings-ignored';
export function bindingsIgnored(pods: readonly string[]): Finding {
  const text = `annotations that bind a pod to a unit or cgroup are ignored in mode kubelet: ${named(pods)}`;
  return { id: BINDINGS_IGNORED, text };
}

export const RUNTIME_AWAY = 'runtime-away';
/** `why` names the sockets that were tried. */
export function runtimeAway(why: string): Finding {
  const text = `the container runtime does not answer (${why}): containers are known as of its last answer only`;
  return { id: RUNTIME_AWAY, text: escapeUnsafe(text) };
}

export const RUNTIME_ENTRIES = 'runtime-entries';
export function runtimeEntriesIgnored(count: number): Finding {
  return {
    id: RUNTIME_ENTRIES,
    text: `the container runtime lists ${counted(count, 'object')} with an id or a name that no kubelet assigns: ignored`,
  };
}

export const RUNTIME_LAYERS = 'runtime-layers';
export function layersUnknown(why: string): Finding {
  const text = `the container runtime does not report what containers have written (${why}): for a full disk, a pod counts with no more than its logs and volumes`;
  return { id: RUNTIME_LAYERS, text: escapeUnsafe(text) };
}

export const RUNTIME_FILESYSTEMS = 'runtime-filesystems';
export function filesystemsUnknown(why: string): Finding {
  const text = `the container runtime does not say on which file systems images and containers are (${why}): until it has, no pod is evicted and nothing is reclaimed for a disk, unless imagefs.path and containerfs.path are set`;
  return { id: RUNTIME_FILESYSTEMS, text: escapeUnsafe(text) };
}

export const RUNTIME_RECLAIM = 'reclaim/runtime';
/** `problem`: a sentence; it may hold what the runtime says. */
export function runtimeReclaimFailed(problem: string): Finding {
  const text = `not all dead containers and unused images could be removed: ${problem}`;
  return { id: RUNTIME_RECLAIM, text: escapeUnsafe(text) };
}
export const NO_CONTAINER = 'the runtime lists no container, so no image is known to be unused';
export const SANDBOX_UNKNOWN =
  'the runtime does not say which image the sandboxes use, and without that image no pod can start';
export function imagesTooYoung(count: number, minAgeMs: number): string {
  const verb = count === 1 ? 'stays' : 'stay';
  return `${counted(count, 'unused image')} ${verb}: known for less than ${sayDuration(minAgeMs)} (imageMinimumGCAge)`;
}
