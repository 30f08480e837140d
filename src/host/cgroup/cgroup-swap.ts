import { known, orIfAbsent, type Reading } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { NUMBER_BYTES, openNumberFile, parseCount, readKernelFile } from '../kernel-file.ts';
import { closedIfReplaced } from './cgroup-inode.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { inCgroup } from './cgroup-walk.ts';

type SwapUse = { readonly limitBytes: number; readonly usedBytes: number };
type CgroupSwap = {
  /** The cgroup's swap limit and usage; null = no limit of its own. */
  readonly use: () => Reading<SwapUse | null>;
  /** Bytes that the cgroup may still swap out; null = no limit but the machine's. */
  readonly freeBytes: () => Reading<number | null>;
  readonly close: () => void;
};

const V1 = {
  both: { limit: 'memory.memsw.limit_in_bytes', usage: 'memory.memsw.usage_in_bytes' },
  memory: { limit: 'memory.limit_in_bytes', usage: 'memory.usage_in_bytes' },
} as const;
const V2_USAGE = 'memory.swap.current';

export function openCgroupSwap(mounts: CgroupMounts, path: string): CgroupSwap {
  if (path === '/') return { use: () => known(null), freeBytes: () => known(null), close: () => undefined };
  return mounts.version === 1 ? openV1(mounts, path) : openV2(`${mounts.memory}${path}`);
}

function openV2(directory: string): CgroupSwap {
  const max = openNumberFile(`${directory}/memory.swap.max`);
  const current = openNumberFile(`${directory}/${V2_USAGE}`);
  const use = (): Reading<SwapUse | null> => {
    const limit = accounted(max.readLimit());
    if (!limit.known) return limit;
    const limitBytes = limit.value;
    if (limitBytes === null) return known(null);
    return map(current.read(), (usedBytes) => ({ limitBytes, usedBytes }));
  };
  return {
    use,
    freeBytes: () => map(use(), (swap) => (swap === null ? null : Math.max(0, swap.limitBytes - swap.usedBytes))),
    close: () => {
      max.close();
      current.close();
    },
  };
}

/**
 * Version 1 limits memory and swap together: swap may hold what the sum allows beyond the memory limit. Swapping out makes
 * no room under that sum, so it does not limit what could be freed.
 */
function openV1(mounts: CgroupMounts, path: string): CgroupSwap {
  const open = (name: string) => openNumberFile(`${mounts.memory}${path}/${name}`);
  const both = { limit: open(V1.both.limit), usage: open(V1.both.usage) };
  const memory = { limit: open(V1.memory.limit), usage: open(V1.memory.usage) };
  const close = (): void => {
    for (const file of [both.limit, both.usage, memory.limit, memory.usage]) file.close();
  };
  const follow = closedIfReplaced({ mounts, path }, close);
  return {
    use: () => {
      follow();
      const limit = accounted(both.limit.readLimit());
      const ofMemory = memory.limit.readLimit();
      if (!limit.known) return limit;
      if (!ofMemory.known) return ofMemory;
      if (limit.value === null || ofMemory.value === null) return known(null);
      const limitBytes = Math.max(0, limit.value - ofMemory.value);
      const used = difference(both.usage.read(), memory.usage.read());
      return map(used, (usedBytes) => ({ limitBytes, usedBytes }));
    },
    freeBytes: () => known(null),
    close,
  };
}

/** How much of the cgroup is in swap. Unknown `absent`: this kernel does not attribute swap to cgroups. */
export function swapBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, ref, (directory) => {
    const read = (name: string): Reading<number> => {
      const bytes = readKernelFile(`${directory}/${name}`, NUMBER_BYTES);
      return bytes.known ? parseCount(bytes.value, `${directory}/${name}`) : bytes;
    };
    return mounts.version === 1 ? difference(read(V1.both.usage), read(V1.memory.usage)) : read(V2_USAGE);
  });
}

/** A kernel without swap accounting for cgroups sets no limit. */
const accounted = (limit: Reading<number | null>): Reading<number | null> => orIfAbsent(limit, null);

/** The two are not read at one instant. */
function difference(all: Reading<number>, part: Reading<number>): Reading<number> {
  if (!all.known) return all;
  return map(part, (bytes) => Math.max(0, all.value - bytes));
}

function map<A, B>(reading: Reading<A>, change: (value: A) => B): Reading<B> {
  return reading.known ? known(change(reading.value)) : reading;
}
