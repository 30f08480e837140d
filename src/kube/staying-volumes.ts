import type { PodUid } from '../core/pod/pod.ts';
import { isObject, isText, parseJson } from '../core/shape.ts';
import { listDirectory, readText } from '../host/files.ts';

/** The name of a CSI volume in the node's `volumesInUse`. */
const csiName = (driver: string, handle: string): string => `kubernetes.io/csi/${driver}^${handle}`;
const CSI = 'kubernetes.io~csi';
/** Never attached, so never in `volumesInUse`. */
const LOCAL = ['empty-dir', 'configmap', 'secret', 'projected', 'downward-api', 'host-path', 'local-volume', 'nfs'].map(
  (plugin) => `kubernetes.io~${plugin}`,
);
/** The kubelet's own file: a few hundred bytes. */
const DATA_BYTES_MAX = 64 * 1024;
const ENTRIES_MAX = 1_000;

/**
 * The volumes in `inUse` that the kubelet has not mounted for these pods. A volume of theirs whose directory does not give its
 * name could be any of `inUse`, so one entry is left out for each.
 */
export function withoutVolumesOf(
  pods: readonly PodUid[],
  inUse: readonly string[],
  kubeletDirectory: string,
): readonly string[] {
  if (inUse.length === 0) return [];
  const named = new Set<string>();
  let unnamed = 0;
  for (const uid of pods) {
    const volumes = `${kubeletDirectory}/pods/${uid}/volumes`;
    for (const plugin of namesIn(volumes)) {
      if (LOCAL.includes(plugin)) continue;
      for (const volume of namesIn(`${volumes}/${plugin}`)) {
        const name = plugin === CSI ? csiVolume(`${volumes}/${plugin}/${volume}/vol_data.json`) : null;
        if (name === null) unnamed += 1;
        else named.add(name);
      }
    }
  }
  return inUse.filter((name) => !named.has(name)).slice(unnamed);
}

function csiVolume(path: string): string | null {
  const text = readText(path, DATA_BYTES_MAX);
  const data = text.known ? parseJson(text.value) : null;
  if (!isObject(data)) return null;
  const { driverName, volumeHandle } = data;
  return isText(driverName) && isText(volumeHandle) ? csiName(driverName, volumeHandle) : null;
}

function namesIn(directory: string): readonly string[] {
  const names = listDirectory(directory, ENTRIES_MAX);
  return names.known ? names.value : [];
}
