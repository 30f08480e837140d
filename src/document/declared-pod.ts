import type { PodView } from '../core/pod/pod.ts';
import {
  type ContainerSpec,
  containerViewOf,
  derivedUid,
  ephemeralStorageLimitOf,
  isCriticalPriority,
  type PodSpec,
  PRIORITY_CLASSES,
  podLevelMemoryRequestOf,
  qosOf,
  type ResourceList,
  type Resources,
  requestsOf,
  withDefaultRequests,
} from '../core/pod/spec.ts';
import type { Quantity } from '../core/units/quantity.ts';
import { parseInstant } from './instant.ts';
import type { V1Container, V1Pod, V1Resources, V1RunningPod } from './pod.ts';

export const DEFAULT_GRACE_SECONDS = 30;

/**
 * What a v1 Pod declares, with every default of the API. What only its source knows (start, owner, protection, whether it is
 * static, measured volumes) is set as if there were none.
 */
export function declaredPodOf(pod: V1Pod): Omit<PodView, 'usage'> {
  const spec = withDefaultRequests(specOf(pod));
  const { name } = pod.metadata;
  const namespace = pod.metadata.namespace ?? 'default';
  const graceSeconds = pod.spec.terminationGracePeriodSeconds ?? null;
  const priority = pod.spec.priority ?? PRIORITY_CLASSES.get(pod.spec.priorityClassName ?? '') ?? 0;
  return {
    uid: pod.metadata.uid ?? derivedUid(namespace, name),
    namespace,
    name,
    qos: qosOf(spec),
    priority,
    requests: requestsOf(spec),
    podLevelMemoryRequest: podLevelMemoryRequestOf(spec),
    ephemeralStorageLimit: ephemeralStorageLimitOf(spec),
    containers: spec.containers.map(containerViewOf),
    volumes: [],
    tolerations: (pod.spec.tolerations ?? []).map(({ key, operator, value, effect }) => ({
      key: key ?? '',
      operator: operator ?? '',
      value: value ?? '',
      effect: effect ?? '',
    })),
    terminationGraceSeconds: graceSeconds ?? DEFAULT_GRACE_SECONDS,
    ...(graceSeconds === null ? { isGraceDefault: true } : {}),
    startedAtWallMs: null,
    ownerKey: null,
    isDaemonSet: false,
    isStaticCritical: isCriticalPriority(priority),
    isProtected: false,
    isTerminating: false,
    limitedBy: null,
  };
}

function specOf({ spec }: V1Pod): PodSpec {
  // App containers first, as the kubelet sums them: the first amount decides how a sum is printed.
  const containers: ContainerSpec[] = [
    ...spec.containers.map((app) => containerSpecOf(app, 'app')),
    ...(spec.initContainers ?? []).map((init) =>
      containerSpecOf(init, init.restartPolicy === 'Always' ? 'sidecar' : 'init'),
    ),
  ];
  const podLevel = spec.resources === undefined || spec.resources === null ? null : resourcesOf(spec.resources);
  return { containers, podLevel, overhead: listOf(spec.overhead) };
}

function containerSpecOf({ name, resources }: V1Container, kind: ContainerSpec['kind']): ContainerSpec {
  return { name, kind, ...resourcesOf(resources) };
}

export function resourcesOf(resources: V1Resources): Resources {
  return { requests: listOf(resources?.requests), limits: listOf(resources?.limits) };
}

function listOf(list: { readonly [name: string]: Quantity | null | undefined } | null | undefined): ResourceList {
  const amounts = new Map<string, Quantity>();
  for (const [name, amount] of Object.entries(list ?? {})) if (amount) amounts.set(name, amount);
  return amounts;
}

/**
 * What a pod from the API declares, with its volumes, its owner and its start. Whether it is static or protected depends on
 * who says so, and is set as if it were neither.
 */
export function runningPodOf(pod: V1RunningPod): Omit<PodView, 'usage'> {
  const declared = declaredPodOf(pod);
  const { creationTimestamp } = pod.metadata;
  return {
    ...declared,
    volumes: (pod.spec.volumes ?? []).flatMap((volume) => {
      const emptyDir = emptyDirOf(volume);
      return emptyDir === null ? [] : [{ name: volume.name, sizeLimit: emptyDir.sizeLimit ?? null }];
    }),
    startedAtWallMs: typeof creationTimestamp === 'string' ? parseInstant(creationTimestamp) : null,
    ...ownerOf(pod, declared.namespace),
  };
}

/** kubelet-eviction.md 5.8: the names of the volumes whose usage counts as local. */
export function localVolumesOf(pod: V1RunningPod): readonly string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => {
    const emptyDir = emptyDirOf(volume);
    const isLocal =
      emptyDir === null
        ? ['hostPath', 'configMap', 'gitRepo'].some((source) => has(volume, source))
        : (emptyDir.medium ?? '') === '';
    return isLocal ? [volume.name] : [];
  });
}

/** D6 counts by the controller; D8 needs only the kind. */
function ownerOf(pod: V1RunningPod, namespace: string): Pick<PodView, 'ownerKey' | 'isDaemonSet'> {
  const owners = pod.metadata.ownerReferences ?? [];
  const controller = owners.find((owner) => owner.controller === true);
  const name = controller?.name ? `${namespace}/${controller.kind ?? ''}/${controller.name}` : null;
  return {
    ownerKey: controller?.uid ?? name,
    isDaemonSet: owners.some(({ kind }) => kind === 'DaemonSet'),
  };
}

type V1Volume = NonNullable<V1RunningPod['spec']['volumes']>[number];
const has = (volume: V1Volume, source: string): boolean => volume[source] !== undefined && volume[source] !== null;

/** A volume without any source is an emptyDir by the API's defaults. */
function emptyDirOf(volume: V1Volume): NonNullable<V1Volume['emptyDir']> | null {
  if (volume.emptyDir) return volume.emptyDir;
  return Object.keys(volume).every((key) => key === 'name' || !has(volume, key)) ? {} : null;
}
