import type { PodUid } from '../core/pod/pod.ts';
import { isObject, isText, parseJson } from '../core/shape.ts';
import { listDirectory, readText } from '../host/files.ts';

/** What a volume of CSI is called in the node's `volumesInUse`. */
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
 * Of `inUse`, what is not of these pods, as the kubelet has mounted it for them. What the directory of a volume does not name
 * may be any of those: so many are left out.
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
