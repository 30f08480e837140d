import { EVICT_FOR, parseEvictFor } from '../core/pod/evict-for.ts';
import type { PodTrait, PodView } from '../core/pod/pod.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import { checkValue } from '../document/check.ts';
import { parseInstant } from '../document/instant.ts';
import { apiPodSchema, isUid, type V1ApiPod, type V1Container } from '../document/pod.ts';
import { runningPodOf } from '../document/running-pod.ts';

/** All that is needed of a pod to delete its object. */
export type Deletable = Pick<ApiPod, 'object' | 'isMirror'>;
/** A pod as an act of the API names it. `uid` is that of the object, which for a mirror pod is not the kubelet's. */
export type PodRef = { readonly namespace: string; readonly name: string; readonly uid: string };
/** What is kept of a v1 Pod of this node (beside-a-kubelet.md D15): no environment, no arguments, no secrets. */
export type ApiPod = {
  /** `uid` is the kubelet's: of a static pod the one of its manifest (D5), which names cgroup, volumes and logs. */
  readonly declared: Omit<PodView, 'usage'>;
  readonly object: PodRef;
  readonly resourceVersion: string;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  /** F6 (i): it is Failed for the reason Evicted, and was not merely refused by the kubelet: it ran. */
  readonly isEvictedByKubelet: boolean;
  /** The reflection of a static pod: never deleted (A20). */
  readonly isMirror: boolean;
  /** Absent: it is not ready. 0: nobody says since when. */
  readonly readySinceWallMs?: number;
  readonly restartPolicy: 'Always' | 'OnFailure' | 'Never';
  /** Its controller; null: a bare pod, which a DELETE destroys (B10). */
  readonly owner: { readonly kind: string; readonly name: string; readonly uid: string } | null;
  /** When the grace of its deletion ends, as the API says; null: it is not being deleted. */
  readonly deletionWallMs: number | null;
  /** Of all `status.*ContainerStatuses`; the id is without its scheme, null before a start. */
  readonly containers: readonly { readonly name: string; readonly id: string | null }[];
  /** It is bound to another node: nothing is said to the API of it. Absent: it is ours. */
  readonly isElsewhere?: true;
  /** The names of annotations that would bind it in standalone, which count for nothing here (H7); absent: none. */
  readonly bindings?: readonly string[];
};

const MIRROR = 'kubernetes.io/config.mirror';
const HASH = 'kubernetes.io/config.hash';
export const OURS = 'nodewarden.dev/';
export const PROTECT = `${OURS}protect`;
/** They count only in `protectNamespaces`: no tenant spares its own pods. */
export const SPARING: readonly string[] = [PROTECT, EVICT_FOR];
const QOS_CLASSES: readonly PodView['qos'][] = ['Guaranteed', 'Burstable', 'BestEffort'];
const PHASES: readonly ApiPod['phase'][] = ['Pending', 'Running', 'Succeeded', 'Failed'];
const RESTART_POLICIES: readonly ApiPod['restartPolicy'][] = ['Always', 'OnFailure', 'Never'];
const MAX_GRACE_SECONDS = 2 ** 31 - 1;

/** Malformed where the object is not what an API server has stored. `protectNamespaces`: H7. */
export function apiPodOf(value: unknown, protectNamespaces: ReadonlySet<string>): Reading<ApiPod> {
  const checked = checkValue(apiPodSchema, value);
  if (!checked.ok) return unknown('malformed', 'v1 Pod', checked.mistake);
  const pod = checked.value;
  const { metadata } = pod;
  const isMirror = isMirrorOf(pod);
  const uid = isMirror ? metadata.annotations?.[HASH] : metadata.uid;
  // A mirror whose manifest's uid cannot name a cgroup stands for nothing that could be found.
  if (!isUid(uid)) return unknown('malformed', `metadata.annotations["${HASH}"]`, 'not the uid of a static pod');
  const owner = ownerOf(pod);
  const declared = runningPodOf(asAdmitted(pod));
  const sparing = protectNamespaces.has(metadata.namespace) ? metadata.annotations : null;
  const evictFor = parseEvictFor(sparing?.[EVICT_FOR] ?? '');
  return known({
    declared: {
      ...declared,
      uid,
      qos: QOS_CLASSES.find((qos) => qos === pod.status?.qosClass) ?? declared.qos,
      isDaemonSet: owner?.kind === 'DaemonSet',
      isStaticCritical: declared.isStaticCritical || isMirror,
      isProtected: sparing?.[PROTECT] === 'true',
      ...(evictFor === null ? {} : { evictFor }),
      isTerminating: typeof metadata.deletionTimestamp === 'string',
      ...traitsOf(pod),
    },
    object: { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
    resourceVersion: metadata.resourceVersion,
    phase: PHASES.find((phase) => phase === pod.status?.phase) ?? 'Unknown',
    isEvictedByKubelet: isEvicted(pod),
    isMirror,
    ...readinessOf(pod),
    restartPolicy: RESTART_POLICIES.find((policy) => policy === pod.spec.restartPolicy) ?? 'Always',
    owner,
    deletionWallMs: typeof metadata.deletionTimestamp === 'string' ? parseInstant(metadata.deletionTimestamp) : null,
    containers: statusesOf(pod).map(({ name, containerID }) => ({ name, id: containerIdOf(containerID) })),
  });
}

/** Its containers have ended, as the API shows it. */
export const isTerminal = ({ phase }: Pick<ApiPod, 'phase'>): boolean => phase === 'Succeeded' || phase === 'Failed';

/** kubelet-eviction.md 7.1.8: how a kubelet says that it did not admit a pod, with or without words before it. */
const NOT_ADMITTED = 'The node had condition: ';
function isEvicted({ status }: V1ApiPod): boolean {
  return status?.phase === 'Failed' && status.reason === 'Evicted' && !status.message?.includes(NOT_ADMITTED);
}

function readinessOf({ status }: V1ApiPod): Pick<ApiPod, 'readySinceWallMs'> {
  const ready = (status?.conditions ?? []).filter(isObject).find(({ type }) => type === 'Ready');
  if (ready?.['status'] !== 'True') return {};
  const { lastTransitionTime: since } = ready;
  return { readySinceWallMs: (isText(since) ? parseInstant(since) : null) ?? 0 };
}

/**
 * H7: the annotation is anybody's to write; with an owner that is this very node the kubelet itself has written it, or
 * removes the pod, whose containers it never starts.
 */
function isMirrorOf({ metadata, spec }: V1ApiPod): boolean {
  if (!spec.nodeName || metadata.annotations?.[MIRROR] === undefined) return false;
  return (metadata.ownerReferences ?? []).some(({ kind, name }) => kind === 'Node' && name === spec.nodeName);
}

function ownerOf({ metadata }: V1ApiPod): ApiPod['owner'] {
  const controller = (metadata.ownerReferences ?? []).find((owner) => owner.controller === true);
  if (!controller?.kind || !controller.name || !controller.uid) return null;
  return { kind: controller.kind, name: controller.name, uid: controller.uid };
}

/** With what the kubelet has admitted under an in-place resize (kubelet-eviction.md 5.6.4), H8's priority, and a grace it would give. */
function asAdmitted(pod: V1ApiPod): V1ApiPod {
  const allocated = new Map(statusesOf(pod).map(({ name, allocatedResources }) => [name, allocatedResources]));
  const admitted = (container: V1Container): V1Container => {
    const requests = allocated.get(container.name);
    if (!requests) return container;
    const { resources } = container;
    return { ...container, resources: { ...resources, requests: { ...resources?.requests, ...requests } } };
  };
  const { containers, initContainers, priority, terminationGracePeriodSeconds: grace } = pod.spec;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: containers.map(admitted),
      initContainers: initContainers?.map(admitted),
      priority: priority ?? 0,
      // The server turns a negative one into 1.
      terminationGracePeriodSeconds:
        typeof grace === 'number' ? Math.min(MAX_GRACE_SECONDS, grace < 0 ? 1 : Math.trunc(grace)) : null,
    },
  };
}

/** The kubelet's: below it CSI plugins have their sockets. */
const PLUGINS = /\/plugins(_registry)?(\/|$)/;

function traitsOf({ spec }: V1ApiPod): Partial<Pick<PodView, 'traits'>> {
  const volumes = spec.volumes ?? [];
  const hostPaths = volumes.flatMap(({ hostPath }) => (isObject(hostPath) ? [String(hostPath['path'])] : []));
  const serves = spec.containers.some(({ ports, readinessProbe }) => (ports ?? []).length > 0 || readinessProbe);
  const drains = spec.containers.some(({ lifecycle }) => lifecycle?.preStop);
  const traits: PodTrait[] = [
    ...(serves && !drains ? (['serves-to-the-end'] as const) : []),
    ...(volumes.some(({ persistentVolumeClaim, csi }) => persistentVolumeClaim || csi)
      ? (['uses-volumes'] as const)
      : []),
    ...(hostPaths.some((path) => PLUGINS.test(path)) ? (['csi-plugin'] as const) : []),
  ];
  return traits.length === 0 ? {} : { traits };
}

function statusesOf({ status }: V1ApiPod) {
  const { containerStatuses, initContainerStatuses, ephemeralContainerStatuses } = status ?? {};
  return [...(containerStatuses ?? []), ...(initContainerStatuses ?? []), ...(ephemeralContainerStatuses ?? [])];
}

/** `containerd://` and 64 digits. Anything else is no id that could become part of a path (H1). */
function containerIdOf(text: string | null | undefined): string | null {
  return /^[a-z][a-z0-9.+-]*:\/\/([0-9a-f]{64})$/.exec(text ?? '')?.[1] ?? null;
}
