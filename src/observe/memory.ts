import { type RefaultHistory, reclaimableBytes, refaultRate, refaultsAfter } from '../core/eviction/reclaimable.ts';
import { known, type MonoMs, type Reading, sumOf, type Unknown, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { openCgroupSwap } from '../host/cgroup/cgroup-swap.ts';
import { sumStats } from '../host/cgroup/sum-stats.ts';
import { pageBytes } from '../host/memory/page-size.ts';
import type { Procfs } from '../host/procfs.ts';
import { cachedFor } from './cached-reading.ts';
import { createLasting, followKernelsOwn } from './kernels-own.ts';
import { followProtectedCache } from './protected-cache.ts';

type NodeMemoryNeeds = {
  readonly mounts: CgroupMounts;
  readonly procfs: Procfs;
  readonly cgroupRoot: string;
  readonly memoryAvailable: 'workingSet' | 'reclaimable';
};
/** memory.available by both formulas, in bytes. */
export type MemoryFigures = {
  readonly workingSetAvailableBytes: Reading<number>;
  readonly reclaimableAvailableBytes: Reading<number>;
};
export type NodeMemory = {
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  /** The same, with the capacity that `available` found last. */
  readonly again: (atMs: MonoMs) => Reading<SignalSample>;
  /** What could be freed, whatever `available` counts. */
  readonly reclaimable: (atMs: MonoMs) => Reading<SignalSample>;
  readonly figures: (atMs: MonoMs) => MemoryFigures;
  /** The path of the cgroup whose memory is the node's: '/' is the machine. */
  readonly nodePath: (atMs: MonoMs) => Reading<string>;
  readonly close: () => void;
};

/** /proc/meminfo takes the kernel longer than the rest of a look, and memory is rarely plugged in. */
const TOTAL_PACE_MS = 1_000;
const REFAULT_PACE_MS = 1_000;

/** The node at present: the machine, or its cgroup while that has a limit below MemTotal (product.md section 4). */
type Node = { readonly path: string; readonly capacityBytes: number; readonly memory: CgroupMemory };
/** The terms of product.md section 8 that the machine and a cgroup name differently. */
type Terms = {
  readonly [term in
    | 'anonBytes'
    | 'shmemBytes'
    | 'freeSwapBytes'
    | 'unevictableBytes'
    | 'kernelBytes'
    | 'slabReclaimableBytes'
    | 'dirtyBytes'
    | 'writebackBytes'
    | 'hugetlbPoolBytes'
    | 'reserveBytes'
    | 'fileBytes'
    | 'activeFileBytes'
    | 'inactiveFileBytes'
    | 'protectedFileBytes']: Reading<number>;
};

export function createNodeMemory({ mounts, procfs, cgroupRoot, memoryAvailable }: NodeMemoryNeeds): NodeMemory {
  const machine = openMemory(mounts, '/');
  const own = cgroupRoot === '/' ? null : openMemory(mounts, cgroupRoot);
  const swap = openCgroupSwap(mounts, cgroupRoot);
  const pageSize = pageBytes();
  let refaults: { readonly of: CgroupMemory; readonly readMs: MonoMs; readonly history: RefaultHistory } | null = null;
  const kernelsOwn = followKernelsOwn(procfs);
  const lasting = createLasting();
  const memTotal = cachedFor(TOTAL_PACE_MS, procfs.memTotalBytes);
  const protectedCache = followProtectedCache(mounts);
  const followLag = createStatLag(() => sumStats(mounts, cgroupRoot));

  const nodeNow = (atMs: MonoMs): Reading<Node> => {
    const total = memTotal(atMs);
    if (!total.known) return total;
    const ofMachine = known({ path: '/', capacityBytes: total.value, memory: machine });
    if (own === null) return ofMachine;
    const limit = own.limit();
    if (!limit.known) return limit.why === 'absent' ? noNode(cgroupRoot, limit) : limit;
    if (limit.value === null || limit.value >= total.value) return ofMachine;
    return known({ path: cgroupRoot, capacityBytes: limit.value, memory: own });
  };
  /** The refault rate needs its counter at every look, whichever formula counts. */
  const followRefaults = ({ memory }: Node, atMs: MonoMs): void => {
    const before = refaults?.of === memory ? refaults : null;
    if (!pageSize.known || (before !== null && atMs - before.readMs < REFAULT_PACE_MS)) return;
    const stat = memory.stat();
    const history = before?.history ?? [];
    const pages = stat.known ? stat.value.workingsetRefaultFilePages : stat;
    const next = pages.known ? refaultsAfter(history, atMs, pages.value * pageSize.value) : history;
    refaults = { of: memory, readMs: atMs, history: next };
  };
  const reclaimable = (node: Node, atMs: MonoMs): Reading<number> => {
    const terms = node.memory === machine ? machineTerms(atMs) : cgroupTerms(node.memory, atMs);
    if ('why' in terms) return terms;
    const missing = Object.values(terms).find((term) => !term.known);
    if (missing !== undefined && !missing.known) return missing;
    const refaultBytesPerSecond = refaults?.of === node.memory ? refaultRate(refaults.history) : null;
    const capacityBytes = node.capacityBytes;
    return known(reclaimableBytes({ capacityBytes, refaultBytesPerSecond, ...valuesOf(terms) }));
  };
  /** /proc/meminfo: the root of version 2 counts no kernel memory of its own. */
  const machineTerms = (atMs: MonoMs): Terms | Unknown => {
    const meminfo = procfs.meminfo();
    if (!meminfo.known) return meminfo;
    const own = kernelsOwn(atMs, meminfo.value);
    if (!own.known) return own;
    return {
      ...meminfo.value,
      freeSwapBytes: meminfo.value.swapFreeBytes,
      kernelBytes: sumOf([meminfo.value.kernelBytes, known(lasting(atMs, own.value.unnamedBytes))]),
      reserveBytes: known(own.value.reserveBytes.low),
      protectedFileBytes: protectedCache('/', atMs),
    };
  };
  const cgroupTerms = (memory: CgroupMemory, atMs: MonoMs): Terms | Unknown => {
    const stat = memory.stat();
    if (!stat.known) return stat;
    const { usageBytes, anonBytes, fileBytes, kernelBytes } = stat.value;
    const named = sumOf([anonBytes, fileBytes, kernelBytes]);
    if (usageBytes.known && named.known) followLag(atMs, usageBytes.value - named.value);
    return {
      ...stat.value,
      freeSwapBytes: freeSwapOf(procfs, swap.freeBytes()),
      // Version 1 does not report how much of a cgroup's kernel memory is reclaimable: none is assumed.
      slabReclaimableBytes: stat.value.slabReclaimableBytes ?? known(0),
      // The pool and the watermark belong to the machine: no cgroup is charged for them.
      hugetlbPoolBytes: known(0),
      reserveBytes: known(0),
      protectedFileBytes: protectedCache(cgroupRoot, atMs),
    };
  };
  const sampleOf = (node: Node, atMs: MonoMs, counted = memoryAvailable): Reading<SignalSample> => {
    const available = counted === 'reclaimable' ? reclaimable(node, atMs) : workingSetAvailable(node);
    if (!available.known) return available;
    return known({ available: available.value, capacity: node.capacityBytes, sampledAtMs: atMs });
  };
  let last: Reading<Node> = unknown('not-asked', 'memory', 'it has not been read yet');
  return {
    available: (atMs) => {
      last = nodeNow(atMs);
      if (!last.known) return last;
      followRefaults(last.value, atMs);
      return sampleOf(last.value, atMs);
    },
    again: (atMs) => (last.known ? sampleOf(last.value, atMs) : last),
    reclaimable: (atMs) => {
      const node = nodeNow(atMs);
      return node.known ? sampleOf(node.value, atMs, 'reclaimable') : node;
    },
    figures: (atMs) => {
      const node = nodeNow(atMs);
      if (!node.known) return { workingSetAvailableBytes: node, reclaimableAvailableBytes: node };
      return {
        workingSetAvailableBytes: workingSetAvailable(node.value),
        reclaimableAvailableBytes: reclaimable(node.value, atMs),
      };
    },
    nodePath: (atMs) => {
      const node = nodeNow(atMs);
      return node.known ? known(node.value.path) : node;
    },
    close: () => {
      for (const part of [machine, own, swap]) part?.close();
    },
  };
}

function noNode(cgroupRoot: string, { where }: Unknown): Unknown {
  const todo = 'create it, or set cgroupRoot to the cgroup that is the node';
  return unknown('absent', where, `the memory controller has no cgroup ${cgroupRoot} (any more): ${todo}`);
}

/** kubelet-eviction.md 1.1.4, 1.1.6: may be negative. */
function workingSetAvailable({ capacityBytes, memory }: Node): Reading<number> {
  const use = memory.read();
  return use.known ? known(capacityBytes - use.value.workingSetBytes) : use;
}

function freeSwapOf(procfs: Procfs, own: Reading<number | null>): Reading<number> {
  if (!own.known) return own;
  const meminfo = procfs.meminfo();
  if (!meminfo.known) return meminfo;
  const { swapFreeBytes } = meminfo.value;
  if (!swapFreeBytes.known || own.value === null) return swapFreeBytes;
  return known(Math.min(swapFreeBytes.value, own.value));
}

/** Every term is known here. */
function valuesOf(terms: Terms): { readonly [term in keyof Terms]: number } {
  const of = (term: Reading<number>): number => (term.known ? term.value : 0);
  return {
    anonBytes: of(terms.anonBytes),
    shmemBytes: of(terms.shmemBytes),
    freeSwapBytes: of(terms.freeSwapBytes),
    unevictableBytes: of(terms.unevictableBytes),
    kernelBytes: of(terms.kernelBytes),
    slabReclaimableBytes: of(terms.slabReclaimableBytes),
    dirtyBytes: of(terms.dirtyBytes),
    writebackBytes: of(terms.writebackBytes),
    hugetlbPoolBytes: of(terms.hugetlbPoolBytes),
    reserveBytes: of(terms.reserveBytes),
    fileBytes: of(terms.fileBytes),
    activeFileBytes: of(terms.activeFileBytes),
    inactiveFileBytes: of(terms.inactiveFileBytes),
    protectedFileBytes: of(terms.protectedFileBytes),
  };
}

/** Rounding, and what the kernel has not yet summed on each processor. */
const SLACK_BYTES = 8 * 2 ** 20;
/** The kernel sums everything every 2 s: a difference that lasts longer has another cause. */
const SUMMED_MS = 3_000;
const PAUSE_MS = 3_000;
const PACE_MS = 10;
/** A share of some 5 % of a core, at 50 µs for each cgroup. */
const PACE_PER_CGROUP_MS = 1;

/** At each reading: `missingBytes` of the usage are in none of the figures of memory.stat. */
export type StatLag = (atMs: MonoMs, missingBytes: number) => void;

/**
 * Notices that memory.stat lags behind the usage, which is exact, and calls `sum` (sumStats), which resolves to how many cgroups it read.
 * What the usage counts and memory.stat never names (memory of sockets) is no lag.
 */
export function createStatLag(sum: () => Promise<number>): StatLag {
  let neverNamed = 0;
  let laggingSinceMs: MonoMs | null = null;
  let lastMs = Number.NEGATIVE_INFINITY;
  let nextMs = Number.NEGATIVE_INFINITY;
  let isSumming = false;
  return (atMs, missingBytes) => {
    if (atMs - lastMs > PAUSE_MS) laggingSinceMs = null;
    lastMs = atMs;
    if (Math.abs(missingBytes - neverNamed) < SLACK_BYTES) {
      laggingSinceMs = null;
      return;
    }
    laggingSinceMs ??= atMs;
    if (atMs - laggingSinceMs > SUMMED_MS) {
      neverNamed = missingBytes;
      laggingSinceMs = null;
      return;
    }
    if (isSumming || atMs < nextMs) return;
    isSumming = true;
    void sum().then((cgroups) => {
      isSumming = false;
      nextMs = atMs + PACE_MS + cgroups * PACE_PER_CGROUP_MS;
    });
  };
}
