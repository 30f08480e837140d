import { known, type Reading, sumOf, unknown } from '../../core/reading.ts';
import {
  holdKernelFile,
  type Key,
  key,
  NUMBER_BYTES,
  openKernelFile,
  openNumberFile,
  parseCount,
  parseKeyed,
  readKernelFile,
} from '../kernel-file.ts';
import { closedIfReplaced } from './cgroup-inode.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';

/** kubelet-eviction.md 1.1.1. */
type MemoryUse = {
  readonly usageBytes: number;
  readonly workingSetBytes: number;
  readonly inactiveFileBytes: number;
};
/** Of the cgroup and its descendants. Null = this cgroup version does not have the figure. */
type MemoryStat = {
  /** Exact, while the others may lag behind it (observe/memory.ts). */
  readonly usageBytes: Reading<number>;
  /** v2 `anon`, v1 `total_rss`. */
  readonly anonBytes: Reading<number>;
  readonly shmemBytes: Reading<number>;
  readonly unevictableBytes: Reading<number>;
  /** All kernel memory. Not counted for the root of v2: /proc/meminfo has it. */
  readonly kernelBytes: Reading<number>;
  readonly slabReclaimableBytes: Reading<number> | null;
  readonly dirtyBytes: Reading<number>;
  readonly writebackBytes: Reading<number>;
  /** The whole page cache, shared memory included. */
  readonly fileBytes: Reading<number>;
  readonly inactiveFileBytes: Reading<number>;
  readonly activeFileBytes: Reading<number>;
  /** A counter, in pages, of file pages that were read again after they had been reclaimed (5.9). */
  readonly workingsetRefaultFilePages: Reading<number>;
};
export type CgroupMemory = {
  readonly read: () => Reading<MemoryUse>;
  /** Null = no limit. */
  readonly limit: () => Reading<number | null>;
  readonly stat: () => Reading<MemoryStat>;
  readonly close: () => void;
};

/** Some 2 KiB on 6.18. */
export const MEMORY_STAT_BYTES = 64 * 1024;

type Names = { readonly usage: string; readonly limit: string } & {
  readonly [name in
    | 'anon'
    | 'shmem'
    | 'unevictable'
    | 'dirty'
    | 'writeback'
    | 'file'
    | 'inactiveFile'
    | 'activeFile'
    | 'refault']: Key;
};
const V1: Names = {
  usage: 'memory.usage_in_bytes',
  limit: 'memory.limit_in_bytes',
  anon: key('total_rss '),
  shmem: key('total_shmem '),
  unevictable: key('total_unevictable '),
  dirty: key('total_dirty '),
  writeback: key('total_writeback '),
  file: key('total_cache '),
  inactiveFile: key('total_inactive_file '),
  activeFile: key('total_active_file '),
  refault: key('total_workingset_refault_file '),
};
const V2: Names = {
  usage: 'memory.current',
  limit: 'memory.max',
  anon: key('anon '),
  shmem: key('shmem '),
  unevictable: key('unevictable '),
  dirty: key('file_dirty '),
  writeback: key('file_writeback '),
  file: key('file '),
  inactiveFile: key('inactive_file '),
  activeFile: key('active_file '),
  refault: key('workingset_refault_file '),
};
const SLAB_RECLAIMABLE = key('slab_reclaimable ');
const KERNEL = key('kernel ');
/** The parts of what `kernel` sums since 5.18 that an older kernel reports. */
const KERNEL_PARTS = [key('kernel_stack '), key('pagetables '), key('percpu '), key('slab ')];

/** v2 `anon`, v1 `total_rss`, from the text of memory.stat. */
export function anonOf(mounts: CgroupMounts, bytes: Buffer, where: string): Reading<number> {
  return fieldOf(bytes, (mounts.version === 1 ? V1 : V2).anon, where);
}

/** Files in a tmpfs and shared memory, charged to the cgroup that has this directory now (inCgroup). */
export function shmemIn(mounts: CgroupMounts, directory: string): Reading<number> {
  const path = `${directory}/memory.stat`;
  const bytes = readKernelFile(path, MEMORY_STAT_BYTES);
  return bytes.known ? fieldOf(bytes.value, (mounts.version === 1 ? V1 : V2).shmem, path) : bytes;
}

/** All memory charged to the cgroup that has this directory now (inCgroup). */
export function usageIn(mounts: CgroupMounts, directory: string): Reading<number> {
  const path = `${directory}/${(mounts.version === 1 ? V1 : V2).usage}`;
  const bytes = readKernelFile(path, NUMBER_BYTES);
  return bytes.known ? parseCount(bytes.value, path) : bytes;
}

/**
 * The memory of the cgroup at `path` below the mount, on kept descriptors. By path, not by identity: if the cgroup is
 * removed or renamed and created again, the new one is read. Gone is unknown `absent`.
 */
export function openMemory(mounts: CgroupMounts, path: string): CgroupMemory {
  const names = mounts.version === 1 ? V1 : V2;
  const directory = path === '/' ? mounts.memory : mounts.memory + path;
  const statPath = `${directory}/memory.stat`;
  const usage = openNumberFile(`${directory}/${names.usage}`);
  const limit = openNumberFile(`${directory}/${names.limit}`);
  const stat = openKernelFile(statPath, MEMORY_STAT_BYTES, 'at-once');
  const kmem = mounts.version === 1 ? openNumberFile(`${directory}/memory.kmem.usage_in_bytes`) : null;
  const isUnifiedRoot = mounts.version === 2 && path === '/';
  const close = (): void => {
    for (const file of [usage, limit, stat, kmem]) file?.close();
  };
  const follow = closedIfReplaced({ mounts, path }, close);

  /** The root of v2 has no memory.current: anon + file (kubelet-eviction.md 1.1.2). */
  const usageOf = (bytes: Buffer): Reading<number> => {
    const read = usage.read();
    if (read.known || read.why !== 'absent' || !isUnifiedRoot) return read;
    return sumOf([names.anon, names.file].map((name) => fieldOf(bytes, name, statPath)));
  };
  return {
    read: () => {
      follow();
      const bytes = stat.read();
      if (!bytes.known) return bytes;
      const used = usageOf(bytes.value);
      return used.known ? memoryUse(used.value, bytes.value, names, statPath) : used;
    },
    limit: () => {
      follow();
      const read = limit.readLimit();
      // The root of v2 has no limit file because it cannot have a limit.
      return !read.known && read.why === 'absent' && isUnifiedRoot ? known(null) : read;
    },
    stat: () => {
      follow();
      const bytes = stat.read();
      if (!bytes.known) return bytes;
      const field = (name: Key): Reading<number> => fieldOf(bytes.value, name, statPath);
      return known({
        usageBytes: usageOf(bytes.value),
        anonBytes: field(names.anon),
        shmemBytes: field(names.shmem),
        unevictableBytes: field(names.unevictable),
        kernelBytes: kmem === null ? kernelOf(bytes.value, statPath) : kmem.read(),
        slabReclaimableBytes: kmem === null ? field(SLAB_RECLAIMABLE) : null,
        dirtyBytes: field(names.dirty),
        writebackBytes: field(names.writeback),
        fileBytes: field(names.file),
        inactiveFileBytes: field(names.inactiveFile),
        activeFileBytes: field(names.activeFile),
        workingsetRefaultFilePages: field(names.refault),
      });
    },
    close,
  };
}

/** Version 2. All of its memory, if it is protected without a limit. */
export function memoryMinOf(mounts: CgroupMounts, path: string): Reading<number> {
  const file = openNumberFile(`${mounts.memory}${path}/memory.min`);
  const min = file.readLimit();
  file.close();
  return min.known ? known(min.value ?? Number.MAX_SAFE_INTEGER) : min;
}

/** Null = no limit. */
export function memoryLimitOf(mounts: CgroupMounts, path: string): Reading<number | null> {
  const memory = openMemory(mounts, path);
  const limit = memory.limit();
  memory.close();
  return limit;
}

export type CgroupLimit = { readonly path: string; readonly bytes: number };
/**
 * The lowest memory limit of the cgroups above this one, which the kernel enforces as well; null: none has one. Above the
 * root there is only itself: in a container it has the limit of the container.
 */
export function limitAbove(mounts: CgroupMounts, path: string): Reading<CgroupLimit | null> {
  let lowest: CgroupLimit | null = null;
  for (const above of pathsAbove(path)) {
    const limit = memoryLimitOf(mounts, above);
    if (!limit.known && limit.why !== 'absent') return limit;
    const bytes = limit.known ? limit.value : null;
    if (bytes !== null && bytes <= (lowest?.bytes ?? bytes)) lowest = { path: above, bytes };
  }
  return known(lowest);
}

/** The outermost first. */
export function pathsAbove(path: string): readonly string[] {
  const names = path.split('/').filter((name) => name !== '');
  return ['/', ...names.slice(0, -1).map((_, i) => `/${names.slice(0, i + 1).join('/')}`)];
}

function memoryUse(usageBytes: number, stat: Buffer, names: Names, where: string): Reading<MemoryUse> {
  // Without the key the working set is the usage.
  const inactive = parseKeyed(stat, names.inactiveFile, '', where) ?? known(0);
  if (!inactive.known) return inactive;
  const inactiveFileBytes = inactive.value;
  return known({ usageBytes, workingSetBytes: Math.max(0, usageBytes - inactiveFileBytes), inactiveFileBytes });
}

/** The working set of the cgroup that has this directory now (inCgroup), even if another one gets its path later. */
export function holdMemory(
  mounts: CgroupMounts,
  directory: string,
  shownAs: string,
): Reading<{ readonly workingSetBytes: () => Reading<number>; readonly close: () => void }> {
  const names = mounts.version === 1 ? V1 : V2;
  const [usagePath, statPath] = [`${shownAs}/${names.usage}`, `${shownAs}/memory.stat`];
  const usage = holdKernelFile(`${directory}/${names.usage}`, usagePath, NUMBER_BYTES);
  if (!usage.known) return usage;
  const stat = holdKernelFile(`${directory}/memory.stat`, statPath, MEMORY_STAT_BYTES);
  if (!stat.known) {
    usage.value.close();
    return stat;
  }
  const workingSetBytes = (): Reading<number> => {
    // One after the other: they share a buffer.
    const usageText = usage.value.read();
    const used = usageText.known ? parseCount(usageText.value, usagePath) : usageText;
    if (!used.known) return used;
    const bytes = stat.value.read();
    const use = bytes.known ? memoryUse(used.value, bytes.value, names, statPath) : bytes;
    return use.known ? known(use.value.workingSetBytes) : use;
  };
  const close = (): void => {
    usage.value.close();
    stat.value.close();
  };
  return known({ workingSetBytes, close });
}

function fieldOf(bytes: Buffer, name: Key, where: string): Reading<number> {
  return parseKeyed(bytes, name, '', where) ?? unknown('absent', where, `no line ${name.text.trim()}`);
}

function kernelOf(bytes: Buffer, where: string): Reading<number> {
  const whole = parseKeyed(bytes, KERNEL, '', where);
  if (whole !== null) return whole;
  let sumBytes = 0;
  for (const part of KERNEL_PARTS) {
    const read = parseKeyed(bytes, part, '', where);
    if (read?.known === false) return read;
    sumBytes += read?.value ?? 0;
  }
  return known(Math.min(sumBytes, Number.MAX_SAFE_INTEGER));
}

export type CgroupUse = {
  readonly workingSetBytes: Reading<number>;
  readonly inactiveFileBytes: Reading<number>;
  /**
   * The highest memory charge since it was created, file cache included: `memory.peak` (5.19),
   * `memory.max_usage_in_bytes`.
   */
  readonly peakBytes: Reading<number>;
};

/** For the cgroup that is at `path` below the mount now. */
export function useOf(mounts: CgroupMounts, path: string): CgroupUse {
  const memory = openMemory(mounts, path);
  const read = memory.read();
  memory.close();
  const peakPath = `${mounts.memory}${path}/${mounts.version === 1 ? 'memory.max_usage_in_bytes' : 'memory.peak'}`;
  const peak = readKernelFile(peakPath, NUMBER_BYTES);
  return {
    workingSetBytes: read.known ? { known: true, value: read.value.workingSetBytes } : read,
    inactiveFileBytes: read.known ? { known: true, value: read.value.inactiveFileBytes } : read,
    peakBytes: peak.known ? parseCount(peak.value, peakPath) : unknown(peak.why, peakPath, peak.detail),
  };
}
