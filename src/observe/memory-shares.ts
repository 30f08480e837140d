import type { MemoryShare, MemoryShares } from '../core/eviction/attribution.ts';
import { ifKnown, known, type MonoMs, orIfAbsent, type Reading, sumOf, unknown, valueOrNull } from '../core/reading.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { childrenOf, directoryOf } from '../host/cgroup/cgroup-walk.ts';
import type { Procfs } from '../host/procfs.ts';
import type { Clock } from '../ports.ts';
import { followKernelsOwn } from './kernels-own.ts';

export type ShareNeeds = {
  readonly clock: Pick<Clock, 'monoMs'>;
  readonly mounts: CgroupMounts;
  readonly procfs: Procfs;
  readonly memoryAvailable: 'workingSet' | 'reclaimable';
  /** Where the mode found the cgroup of all pods; absent: it is recognized by its name, directly below the node. */
  readonly podsCgroup?: (() => Reading<string>) | undefined;
};
/** Paths of bound pods, with their usage if already measured; null = not yet. */
export type PodPaths = ReadonlyMap<string, number | null>;
/** The readings at one time. `where` of a cgroup is its path. */
export type ShareSample = {
  readonly shares: MemoryShares;
  readonly kernel: readonly { readonly kind: string; readonly bytes: number }[];
};
type PodBytes = (path: string, measured: number | null) => Reading<number>;
export type ShareReader = {
  /**
   * `node`: the cgroup whose memory is the node's. A reading costs some 30 µs for each cgroup directly below it that is not a
   * pod's, and for each pod not yet measured. Unknown `timed-out` if many of these take longer than `budgetMs`.
   */
  readonly now: (node: string, atMs: MonoMs, pods: PodPaths, budgetMs?: number) => Reading<ShareSample>;
  /** The bytes of one cgroup that memory.available counts as used. */
  readonly bytes: (path: string) => Reading<number>;
  /** The children that neither are pods nor contain any; null: too many, or unknown. */
  readonly servicesIn: (path: string, pods: PodPaths) => readonly string[] | null;
};

/** The maximum number of names that a tenant can make us list. */
const MAX_LISTED = 1_000;
const MAX_TOPS = 64;
/** Always read, however long it takes: otherwise a slow machine would never attribute growth. */
const LEAST_READ = 24;
const KUBEPODS = ['kubepods', 'kubepods.slice'];
export const KERNEL = 'kernel';
/** Beside the kinds that meminfo names. */
const UNNAMED = 'drivers, pipes, sockets or compressed swap';
const NOT_TOLD = unknown('not-asked', 'the cgroup of all pods', 'the mode does not tell');
const OWN = 'processes in no cgroup of their own';

/**
 * What holds the node's memory, in a few readings: its top-level cgroups without their pods and, if the node is the
 * machine, the kernel.
 */
export function createShareReader(needs: ShareNeeds): ShareReader {
  const { mounts, procfs } = needs;
  const isWorkingSet = needs.memoryAvailable === 'workingSet';
  const kernelsOwn = followKernelsOwn(procfs);

  const using = <T>(path: string, use: (memory: CgroupMemory) => T): T => {
    const memory = openMemory(mounts, path);
    try {
      return use(memory);
    } finally {
      memory.close();
    }
  };
  /** As memory.available counts it. The machine's figures include no kernel memory; a cgroup's include its own. */
  const bytesOf = (memory: CgroupMemory, isMachine: boolean): Reading<number> => {
    if (isWorkingSet) {
      const use = memory.read();
      return use.known ? known(use.value.workingSetBytes) : use;
    }
    const stat = memory.stat();
    if (!stat.known) return stat;
    const { anonBytes, shmemBytes, kernelBytes, slabReclaimableBytes } = stat.value;
    return isMachine
      ? sumOf([anonBytes, shmemBytes])
      : less(sumOf([anonBytes, shmemBytes, kernelBytes]), slabReclaimableBytes);
  };
  const kernelKinds = (atMs: MonoMs): Reading<ShareSample['kernel']> =>
    ifKnown(procfs.kernelKinds(), (kinds) =>
      ifKnown(procfs.meminfo(), (meminfo) =>
        ifKnown(kernelsOwn(atMs, meminfo), ({ unnamedBytes }) =>
          known([...kinds, { kind: UNNAMED, bytes: unnamedBytes }]),
        ),
      ),
    );
  const cgroupBytes = (path: string): Reading<number> => using(path, (memory) => bytesOf(memory, false));

  const sampleNow: ShareReader['now'] = (node, atMs, pods, budgetMs = Number.POSITIVE_INFINITY) => {
    const endMs = needs.clock.monoMs() + budgetMs;
    let readCount = 0;
    const mayRead = (): boolean => ++readCount <= LEAST_READ || needs.clock.monoMs() <= endMs;
    const isMachine = node === '/';
    const podBytes = (pod: string, measured: number | null): Reading<number> => {
      const read = readPod(pod, measured, mayRead);
      if (read.known) eachPod.set(pod, read.value);
      return read;
    };
    const listed = childrenOf(directoryOf(mounts, node), MAX_LISTED);
    if (!listed.known) return listed;
    const paths = listed.value.names.map((name) => below(node, name));
    const tops = paths.filter((path) => !pods.has(path));
    if (tops.length > MAX_TOPS || !listed.value.isWhole)
      return unknown('unreadable', node, `more than ${MAX_TOPS} cgroups below it`);
    const total = using(node, (memory) => bytesOf(memory, isMachine));
    if (!total.known) return total;
    let [restBytes, podsBytes, chargedBytes] = [total.value, 0, 0];
    const others: MemoryShare[] = [];
    const eachPod = new Map<string, number>();
    for (const path of tops) {
      const top = readTop(path, pods, isMachine, podBytes);
      // It may have ended since it was listed.
      if (!top.known && top.why === 'absent') continue;
      if (!top.known) return top;
      restBytes -= top.value.bytes - top.value.kernelBytes;
      podsBytes += top.value.podsBytes;
      chargedBytes += top.value.kernelBytes;
      others.push({ where: path, bytes: Math.max(0, top.value.bytes - top.value.podsBytes) });
    }
    const kernel = isMachine ? kernelKinds(atMs) : known([]);
    if (!kernel.known) return kernel;
    const kernelBytes = kernel.value.reduce((all, { bytes }) => all + bytes, 0);
    if (isMachine) others.push({ where: KERNEL, bytes: Math.max(0, kernelBytes - chargedBytes) });
    // If pods are directly below the node, the rest is theirs, including what ended ones left behind.
    if ([...pods.keys()].some((pod) => isRightBelow(node, pod))) podsBytes += Math.max(0, restBytes);
    else others.push({ where: OWN, bytes: Math.max(0, restBytes) });
    return known({ shares: { atMs, podsBytes, eachPod, others }, kernel: kernel.value });
  };
  /** One cgroup directly below the node, and how much of it pods use. */
  function readTop(
    path: string,
    pods: PodPaths,
    isMachine: boolean,
    podBytes: PodBytes,
  ): Reading<{ readonly bytes: number; readonly kernelBytes: number; readonly podsBytes: number }> {
    return using(path, (memory) => {
      const bytes = bytesOf(memory, false);
      if (!bytes.known) return bytes;
      const stat = isMachine ? memory.stat() : null;
      if (stat?.known === false) return stat;
      const kernel =
        stat === null ? known(0) : less(stat.value.kernelBytes, isWorkingSet ? null : stat.value.slabReclaimableBytes);
      if (!kernel.known) return kernel;
      const isPods = KUBEPODS.some((name) => path.endsWith(`/${name}`));
      const podsBytes = isPods ? bytes : podsBytesIn(path, pods, podBytes);
      if (!podsBytes.known) return podsBytes;
      return known({ bytes: bytes.value, kernelBytes: kernel.value, podsBytes: podsBytes.value });
    });
  }
  const allPods = (): string | null => valueOrNull(needs.podsCgroup?.() ?? NOT_TOLD);
  /** One figure for all pods in the cgroup of all pods, bound or not. */
  function podsBytesIn(path: string, pods: PodPaths, podBytes: PodBytes): Reading<number> {
    const all = allPods();
    const isHere = all?.startsWith(`${path}/`) === true;
    const others = [...pods].filter(([pod]) => pod.startsWith(`${path}/`) && !(isHere && pod.startsWith(`${all}/`)));
    return sumOf([...(isHere ? [cgroupBytes(all)] : []), ...others.map(([pod, measured]) => podBytes(pod, measured))]);
  }
  function readPod(path: string, measured: number | null, mayRead: () => boolean): Reading<number> {
    if (measured !== null) return known(measured);
    if (!mayRead()) return unknown('timed-out', path, 'there are too many pods to read before a kill');
    return orIfAbsent(cgroupBytes(path), 0);
  }
  function servicesIn(slice: string, pods: PodPaths): readonly string[] | null {
    const listed = childrenOf(directoryOf(mounts, slice), MAX_LISTED);
    if (!listed.known || !listed.value.isWhole) return null;
    const all = allPods();
    const holders = new Set(
      [...pods.keys(), ...(all === null ? [] : [all])].map((pod) =>
        pod
          .split('/')
          .slice(0, slice.split('/').length + 1)
          .join('/'),
      ),
    );
    return listed.value.names.map((name) => `${slice}/${name}`).filter((path) => !holders.has(path));
  }

  return { now: sampleNow, bytes: cgroupBytes, servicesIn };
}

/** The path of a child. */
export const below = (node: string, name: string): string => (node === '/' ? `/${name}` : `${node}/${name}`);

function isRightBelow(node: string, path: string): boolean {
  const end = path.lastIndexOf('/');
  return path.slice(0, Math.max(1, end)) === node;
}

/** `part` null: this cgroup version does not report it. */
function less(all: Reading<number>, part: Reading<number> | null): Reading<number> {
  if (part === null || !all.known) return all;
  return part.known ? known(Math.max(0, all.value - part.value)) : part;
}
