import { ifKnown, known, type Reading, sumOf } from '../../core/reading.ts';
import { type Key, key, noLine, parseKeyed } from '../kernel-file.ts';

/** Fields of /proc/meminfo. */
export type Meminfo = { readonly [field in keyof typeof MEMINFO]: Reading<number> } & {
  /** The whole page cache, shared memory included. */
  readonly fileBytes: Reading<number>;
  /** Slab, stacks, page tables (also those of virtual machines) and per-CPU memory. */
  readonly kernelBytes: Reading<number>;
  /**
   * What has no name in it: what drivers, pipes, sockets and compressed swap hold, but also the free pages that CPUs keep
   * for themselves and the cache of ZFS. The counters may differ by some pages: it may be below 0.
   */
  readonly restBytes: Reading<number>;
  /**
   * Anonymous memory that no process maps, and that is no swap cache: parts of huge pages that processes gave back, which
   * the kernel frees when it needs them. But also what only a pipe, a socket or a driver still refers to (vmsplice, then
   * munmap), which it cannot free. With locked memory it is a lower bound: that is on no list of the kernel's.
   */
  readonly unmappedBytes: Reading<number>;
};
/** The kernel's own memory that has a name in meminfo. */
export type KernelKind = { readonly kind: string; readonly bytes: number };

const MEMINFO = {
  memTotalBytes: key('MemTotal:'),
  memFreeBytes: key('MemFree:'),
  swapFreeBytes: key('SwapFree:'),
  swapTotalBytes: key('SwapTotal:'),
  anonBytes: key('AnonPages:'),
  shmemBytes: key('Shmem:'),
  unevictableBytes: key('Unevictable:'),
  slabReclaimableBytes: key('SReclaimable:'),
  dirtyBytes: key('Dirty:'),
  writebackBytes: key('Writeback:'),
  activeFileBytes: key('Active(file):'),
  inactiveFileBytes: key('Inactive(file):'),
  /** Huge pages of all sizes, used or not (4.20). */
  hugetlbPoolBytes: key('Hugetlb:'),
} as const;
const KERNEL_KINDS = [
  { kind: 'slab', of: key('Slab:') },
  { kind: 'stacks', of: key('KernelStack:') },
  { kind: 'page tables', of: key('PageTables:') },
  { kind: 'per-CPU memory', of: key('Percpu:') },
  { kind: 'page tables of virtual machines', of: key('SecPageTables:'), since: '6.1' },
] as const;
/** Without locked memory, with what no process maps (any more), and with shared memory. */
const ANON_LISTS = [key('Active(anon):'), key('Inactive(anon):')];
const PAGE_CACHE = [key('Cached:'), key('Buffers:')];
const SWAP_CACHE = key('SwapCached:');
/** Since 4.20: reclaimable slab, and what else the kernel would give back. */
const KERNEL_RECLAIMABLE = key('KReclaimable:');

export function parseMeminfo(bytes: Buffer, where: string): Meminfo {
  const field = (name: keyof typeof MEMINFO): Reading<number> => kibOf(bytes, MEMINFO[name], where);
  const [memTotalBytes, memFreeBytes] = [field('memTotalBytes'), field('memFreeBytes')];
  const [anonBytes, hugetlbPoolBytes] = [field('anonBytes'), field('hugetlbPoolBytes')];
  const slabReclaimableBytes = field('slabReclaimableBytes');
  const fileBytes = sumOf(PAGE_CACHE.map((name) => kibOf(bytes, name, where)));
  const kernelBytes = sumOf(KERNEL_KINDS.map((kind) => ofKind(bytes, kind, where)));
  const [shmemBytes, unevictableBytes] = [field('shmemBytes'), field('unevictableBytes')];
  const listedBytes = sumOf(ANON_LISTS.map((name) => kibOf(bytes, name, where)));
  const beyondBytes = difference(listedBytes, sumOf([anonBytes, shmemBytes]));
  const swapCache = kibOf(bytes, SWAP_CACHE, where);
  const unmappedBytes = ifKnown(difference(beyondBytes, swapCache), (all) => known(Math.max(0, all)));
  // What of it processes map counts as theirs. Unless locked memory hides it, the rest is on the lists.
  const swapCacheBytes = ifKnown(sumOf([beyondBytes, unevictableBytes]), (most) =>
    ifKnown(swapCache, (all) => known(Math.max(0, Math.min(all, most)))),
  );
  const reclaimableBytes = orIfAbsent(kibOf(bytes, KERNEL_RECLAIMABLE, where), slabReclaimableBytes);
  const anon = [anonBytes, swapCacheBytes, unmappedBytes];
  const named = [memFreeBytes, ...anon, fileBytes, kernelBytes, hugetlbPoolBytes, reclaimableBytes];
  return {
    memTotalBytes,
    memFreeBytes,
    anonBytes,
    hugetlbPoolBytes,
    slabReclaimableBytes,
    fileBytes,
    kernelBytes,
    // Reclaimable slab is both in the slab and in what is reclaimable.
    restBytes: difference(sumOf([memTotalBytes, slabReclaimableBytes]), sumOf(named)),
    unmappedBytes,
    swapFreeBytes: field('swapFreeBytes'),
    swapTotalBytes: field('swapTotalBytes'),
    shmemBytes,
    unevictableBytes,
    dirtyBytes: field('dirtyBytes'),
    writebackBytes: field('writebackBytes'),
    activeFileBytes: field('activeFileBytes'),
    inactiveFileBytes: field('inactiveFileBytes'),
  };
}

export function parseKernelKinds(bytes: Buffer, where: string): Reading<readonly KernelKind[]> {
  const kinds: KernelKind[] = [];
  for (const kind of KERNEL_KINDS) {
    const read = ofKind(bytes, kind, where);
    if (!read.known) return read;
    kinds.push({ kind: kind.kind, bytes: read.value });
  }
  return known(kinds);
}

/** An older kernel counts a newer kind nowhere. */
function ofKind(bytes: Buffer, kind: (typeof KERNEL_KINDS)[number], where: string): Reading<number> {
  const read = kibOf(bytes, kind.of, where);
  return 'since' in kind ? orIfAbsent(read, known(0)) : read;
}

const difference = (all: Reading<number>, part: Reading<number>): Reading<number> =>
  ifKnown(all, (bytes) => ifKnown(part, (others) => known(bytes - others)));

const orIfAbsent = (read: Reading<number>, other: Reading<number>): Reading<number> =>
  !read.known && read.why === 'absent' ? other : read;

export function kibOf(bytes: Buffer, name: Key, where: string): Reading<number> {
  return bytesOf(parseKeyed(bytes, name, ' kB', where) ?? noLine(where, name.text));
}

export const bytesOf = (kib: Reading<number>): Reading<number> =>
  ifKnown(kib, (count) => known(Math.min(count * 1024, Number.MAX_SAFE_INTEGER)));
