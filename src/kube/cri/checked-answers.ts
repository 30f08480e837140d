import { known, type Reading, unknown } from '../../core/reading.ts';
import { escapeUnsafe } from '../../core/units/escape.ts';
import {
  CgroupDriver,
  type Container,
  ContainerState,
  type ContainerStats,
  type FilesystemUsage,
  type LinuxRuntimeConfiguration,
  type PodSandbox,
  PodSandboxState,
} from './cri_pb.ts';
import type { RuntimeContainer, RuntimeFilesystems, RuntimeSandbox } from './runtime.ts';

/** A checked list. `ignored`: the number of entries with an id or a name that no kubelet assigns. */
type Checked<T> = { readonly items: readonly T[]; readonly ignored: number };
/** What a container wrote into its root file system. `bytes`, `inodes` null: the runtime does not say. */
export type WritableLayer = {
  readonly bytes: number | null;
  readonly inodes: number | null;
  readonly atWallMs: number;
};

/** The extra information of a verbose answer: JSON by key. */
type Info = { readonly [key: string]: string };

/** H14: more than any kubelet runs. */
export const ENTRIES_MAX = 10_000;
const PATH_MAX = 4_096;
const IMAGE_NAME_MAX = 1_024;
/** H1. */
const CONTAINER_ID = /^[0-9a-f]{64}$/;
const POD_UID = /^[0-9a-f-]{32,36}$/;
const DNS_LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const DNS_SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/;
const WORD = /^[a-z]{1,32}$/;
/** D12. */
const LABEL = {
  uid: 'io.kubernetes.pod.uid',
  namespace: 'io.kubernetes.pod.namespace',
  pod: 'io.kubernetes.pod.name',
  container: 'io.kubernetes.container.name',
} as const;
const SOURCE = 'kubernetes.io/config.source';
const STATE: { readonly [state: number]: RuntimeContainer['state'] } = {
  [ContainerState.CONTAINER_CREATED]: 'created',
  [ContainerState.CONTAINER_RUNNING]: 'running',
  [ContainerState.CONTAINER_EXITED]: 'exited',
};

/** The containers created by a kubelet. */
export function containersOf(list: readonly Container[]): Reading<Checked<RuntimeContainer>> {
  return checked('CRI ListContainers', list, ({ id, podSandboxId, imageRef, imageId, state, createdAt, labels }) => {
    const podUid = labels[LABEL.uid];
    const name = labels[LABEL.container];
    if (podUid === undefined || name === undefined) return 'foreign';
    if (!CONTAINER_ID.test(id) || !CONTAINER_ID.test(podSandboxId)) return 'malformed';
    if (!POD_UID.test(podUid) || !DNS_LABEL.test(name)) return 'malformed';
    const image = { ref: shown(imageRef), id: shown(imageId) };
    const createdAtWallMs = msOf(createdAt);
    return { id, name, podUid, sandboxId: podSandboxId, state: STATE[state] ?? 'unknown', createdAtWallMs, image };
  });
}

export function sandboxesOf(list: readonly PodSandbox[]): Reading<Checked<RuntimeSandbox>> {
  return checked('CRI ListPodSandbox', list, ({ id, state, labels, annotations }) => {
    const podUid = labels[LABEL.uid];
    if (podUid === undefined) return 'foreign';
    const namespace = labels[LABEL.namespace] ?? '';
    const name = labels[LABEL.pod] ?? '';
    if (!CONTAINER_ID.test(id) || !POD_UID.test(podUid)) return 'malformed';
    if (!DNS_LABEL.test(namespace) || !DNS_SUBDOMAIN.test(name)) return 'malformed';
    const said = annotations[SOURCE];
    const source = said !== undefined && WORD.test(said) ? said : null;
    return { id, podUid, namespace, name, isReady: state === PodSandboxState.SANDBOX_READY, source };
  });
}

/** By container id. Entries without a time are left out, because their age is unknown. */
export function writableLayersOf(list: readonly ContainerStats[]): Reading<ReadonlyMap<string, WritableLayer>> {
  const layers = checked('CRI ListContainerStats', list, ({ attributes, writableLayer }) => {
    const id = attributes?.id ?? '';
    if (writableLayer === undefined || writableLayer.timestamp <= 0n) return 'foreign';
    if (!CONTAINER_ID.test(id)) return 'malformed';
    const { usedBytes, inodesUsed, timestamp } = writableLayer;
    return {
      id,
      layer: { bytes: countOf(usedBytes?.value), inodes: countOf(inodesUsed?.value), atWallMs: msOf(timestamp) },
    };
  });
  return layers.known ? known(new Map(layers.value.items.map(({ id, layer }) => [id, layer]))) : layers;
}

/** D13: the first of each, like the kubelet. */
export function filesystemsOf(answer: {
  readonly image: readonly FilesystemUsage[];
  readonly container: readonly FilesystemUsage[];
}): Reading<RuntimeFilesystems> {
  const imagefs = answer.image[0]?.fsId?.mountpoint ?? '';
  const containerfs = answer.container[0]?.fsId?.mountpoint ?? '';
  if (!isPath(imagefs)) return unknown('malformed', 'CRI ImageFsInfo', 'it names no absolute path for images');
  return known({ imagefs, containerfs: isPath(containerfs) ? containerfs : null });
}

export function cgroupDriverOf(linux: LinuxRuntimeConfiguration | undefined): Reading<'cgroupfs' | 'systemd'> {
  switch (linux?.cgroupDriver) {
    case CgroupDriver.CGROUPFS:
      return known('cgroupfs');
    case CgroupDriver.SYSTEMD:
      return known('systemd');
    default:
      return unknown('absent', 'CRI RuntimeConfig', 'the runtime does not name its cgroup driver');
  }
}

/** `config.sandboxImage` of Status (A12): containerd before 2.1 names it there, as the operator configured it. */
export function configuredSandboxImage(info: Info): Reading<string> {
  return imageName(fieldOf(info['config'], ['sandboxImage']));
}

/** From PodSandboxStatus: the image of this sandbox (seen with containerd 1.6, 1.7 and 2.1). */
export function imageOfSandbox(info: Info): Reading<string> {
  return imageName(fieldOf(info['info'], ['image']));
}

function imageName(image: unknown): Reading<string> {
  return typeof image === 'string' && image !== '' && image.length <= IMAGE_NAME_MAX
    ? known(image)
    : unknown('absent', 'the sandbox image', 'the runtime does not name it');
}

/** D7: where a container runs according to the runtime, in the format of its cgroup driver. */
export function cgroupsPathOf(info: Info): Reading<string> {
  const path = fieldOf(info['info'], ['runtimeSpec', 'linux', 'cgroupsPath']);
  return typeof path === 'string' && path !== '' && path.length <= PATH_MAX && escapeUnsafe(path) === path
    ? known(path)
    : unknown('absent', 'CRI ContainerStatus', 'the runtime does not name the cgroup');
}

function checked<A, B>(
  where: string,
  list: readonly A[],
  read: (entry: A) => B | 'malformed' | 'foreign',
): Reading<Checked<B>> {
  if (list.length > ENTRIES_MAX) {
    return unknown('malformed', where, `it lists ${list.length} entries, more than ${ENTRIES_MAX}`);
  }
  const items: B[] = [];
  let ignored = 0;
  for (const entry of list) {
    const item = read(entry);
    if (item === 'malformed') ignored++;
    else if (item !== 'foreign') items.push(item);
  }
  return known({ items, ignored });
}

/** Parses JSON of at most one message. */
function fieldOf(json: string | undefined, path: readonly string[]): unknown {
  if (json === undefined) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return undefined;
  }
  for (const name of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, name);
  }
  return value;
}

/** A name that is too long hides no container. */
const shown = (image: string): string => escapeUnsafe(image.slice(0, IMAGE_NAME_MAX));

const isPath = (text: string): boolean =>
  text.startsWith('/') && text.length <= PATH_MAX && escapeUnsafe(text) === text;

const msOf = (nanoseconds: bigint): number => Number(nanoseconds / 1_000_000n);

/** H16: 2^64 - 1 is not a real usage. */
function countOf(value: bigint | undefined): number | null {
  return value === undefined || value > BigInt(Number.MAX_SAFE_INTEGER) ? null : Number(value);
}
