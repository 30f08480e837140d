import type { PodView } from '../../core/pod/pod.ts';
import { type CgroupDriver, kubepodsPath } from '../../host/cgroup/kubepods.ts';

export type Qos = PodView['qos'];
export const QOS_CLASSES: readonly Qos[] = ['Guaranteed', 'Burstable', 'BestEffort'];
/** The owner of a cgroup below kubepods. `containerId` null: the whole pod. */
type PodOfCgroup = {
  readonly driver: CgroupDriver;
  readonly qos: Qos;
  readonly uid: string;
  readonly containerId: string | null;
};

/** beside-a-kubelet.md H1: the uid of an API object, or the hash of a static pod. */
const UID = /^[0-9a-f-]{32,36}$/;
const SLICED_UID = /^[0-9a-f_]{32,36}$/;
const SLICE = '.slice';
/** The plain id is containerd with cgroupfs; `crio-` without a suffix is CRI-O with cgroupfs. */
const CONTAINER = /^(?:([0-9a-f]{64})|crio-([0-9a-f]{64})|(?:cri-containerd|crio|docker)-([0-9a-f]{64})\.scope)$/;
/** Guaranteed pods are siblings of the cgroups of the other two classes. */
const LEVELS: { readonly [Q in Qos]: readonly string[] } = {
  Guaranteed: [],
  Burstable: ['burstable'],
  BestEffort: ['besteffort'],
};

/** Safe in a path and in a log line. */
export function isPodUid(text: string): boolean {
  return UID.test(text);
}

/** D6: the cgroup whose children are the pods of this class. */
export function qosPath(driver: CgroupDriver, cgroupRoot: string, qos: Qos): string {
  const kubepods = kubepodsPath(driver, cgroupRoot);
  return LEVELS[qos].reduce((path, level) => `${path}/${childName(driver, path, level)}`, kubepods);
}

/** A slice's name starts with its parent's name. The kubelet's names contain no `_`, so the uid can be recovered. */
function childName(driver: CgroupDriver, parent: string, name: string): string {
  return driver === 'cgroupfs' ? name : `${sliceName(parent)}-${name.replaceAll('-', '_')}${SLICE}`;
}

const sliceName = (path: string): string => path.slice(path.lastIndexOf('/') + 1, -SLICE.length);

/** The uid of the pod whose cgroup has this name in `parent` (from qosPath); null: not a pod. */
export function uidOfName(driver: CgroupDriver, parent: string, name: string): string | null {
  if (driver === 'cgroupfs') return name.startsWith('pod') && UID.test(name.slice(3)) ? name.slice(3) : null;
  const prefix = `${sliceName(parent)}-pod`;
  if (!name.startsWith(prefix) || !name.endsWith(SLICE)) return null;
  const uid = name.slice(prefix.length, -SLICE.length);
  return SLICED_UID.test(uid) ? uid.replaceAll('_', '-') : null;
}

/** The inverse. `uid`: as isPodUid allows. */
export function nameOfUid(driver: CgroupDriver, parent: string, uid: string): string {
  return childName(driver, parent, `pod${uid}`);
}

/**
 * The id of the container or sandbox whose cgroup has this name below a pod's; null: neither. `crio-conmon-<id>` is the
 * process that monitors a container.
 */
export function containerIdOfName(name: string): string | null {
  const [, plain, crio, scope] = CONTAINER.exec(name) ?? [];
  return plain ?? crio ?? scope ?? null;
}

/** The inverse, for a path below the mount: a pod's own cgroup or anything in it. Null: not in a pod. */
export function podOfPath(cgroupRoot: string, path: string): PodOfCgroup | null {
  for (const driver of ['cgroupfs', 'systemd'] as const) {
    for (const qos of QOS_CLASSES) {
      const parent = qosPath(driver, cgroupRoot, qos);
      if (!path.startsWith(`${parent}/`)) continue;
      const [name = '', inner] = path.slice(parent.length + 1).split('/');
      const uid = uidOfName(driver, parent, name);
      if (uid === null) continue;
      return { driver, qos, uid, containerId: inner === undefined ? null : containerIdOfName(inner) };
    }
  }
  return null;
}
