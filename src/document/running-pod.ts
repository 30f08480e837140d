import type { PodView } from '../core/pod/pod.ts';
import { declaredPodOf } from './declared-pod.ts';
import { parseInstant } from './instant.ts';
import type { V1RunningPod } from './pod.ts';

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
