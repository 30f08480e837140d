import { readdirSync } from 'node:fs';
import { ifKnown, known, type Reading, sumOf } from '../../core/reading.ts';
import { fileUnknown } from '../file-error.ts';
import { garbled, NUMBER_BYTES, parseCount, readKernelFile, readKernelFileShared } from '../kernel-file.ts';
import type { Meminfo } from './meminfo.ts';
import { pageBytes } from './page-size.ts';

/** What the kernel has of the machine's memory beside what meminfo names. In bytes. */
export type KernelsOwn = {
  readonly reserveBytes: Zones['reserveBytes'];
  /** In use by drivers, pipes, sockets, compressed swap and the like. */
  readonly unnamedBytes: number;
};
/** Of all zones together, in bytes. */
type Zones = {
  /**
   * What no process gets: each zone's watermark, and what it protects from those who could use a higher zone
   * (vm.lowmem_reserve_ratio). At `low` the kernel begins to reclaim, at `min` its OOM killer acts.
   */
  readonly reserveBytes: { readonly low: number; readonly min: number };
  /** Free pages that CPUs keep for themselves, from Linux 6.7 up to an eighth of the memory. MemFree leaves them out. */
  readonly cpuFreeBytes: number;
};

/** Some 100 bytes per zone and CPU. */
const ZONEINFO_BYTES = 4 * 1024 * 1024;
/** Some 150 lines of 60 bytes. */
const ARCSTATS_BYTES = 64 * 1024;
const ZONES = /^(?=Node \d+, zone )/m;
const LOW = /^ +low +(\d+)$/m;
const MIN = /^ +min +(\d+)$/m;
const MANAGED = /^ +managed +(\d+)$/m;
const PROTECTION = /^ +protection: \((\d+(?:, \d+)*)\)$/m;
/** Only zones that have pages show what CPUs keep of them. */
const KEPT_BY_CPU = /^ +count: +(\d+)$/gm;

/**
 * `meminfo` is read on both sides of what CPUs keep and of what can be split: both may be given up at any moment, above all
 * when memory is short, and what became free meanwhile must not count as used.
 */
export function readKernelsOwn(root: string, meminfo: () => Reading<Meminfo>): Reading<KernelsOwn> {
  const before = meminfo();
  return ifKnown(readZones(`${root}/proc/zoneinfo`), ({ reserveBytes, cpuFreeBytes }) =>
    ifKnown(readSplittable(`${root}/sys/kernel/mm/transparent_hugepage`), (splittableBytes) =>
      ifKnown(usedIn(before, splittableBytes), (former) =>
        ifKnown(usedIn(meminfo(), splittableBytes), (latter) =>
          ifKnown(readArc(`${root}/proc/spl/kstat/zfs/arcstats`), (arcBytes) =>
            known({ reserveBytes, unnamedBytes: Math.max(0, Math.min(former, latter) - cpuFreeBytes - arcBytes) }),
          ),
        ),
      ),
    ),
  );
}

/** What has no name, and what is unmapped beyond what splitting huge pages would free. */
function usedIn(meminfo: Reading<Meminfo>, splittableBytes: number): Reading<number> {
  return ifKnown(meminfo, ({ restBytes, unmappedBytes }) =>
    ifKnown(unmappedBytes, (unmapped) => sumOf([restBytes, known(Math.max(0, unmapped - splittableBytes))])),
  );
}

function readZones(where: string): Reading<Zones> {
  const bytes = readKernelFile(where, ZONEINFO_BYTES);
  if (!bytes.known) return bytes;
  const text = bytes.value.toString('latin1');
  const zones = text.split(ZONES);
  const low = zones.map((zone) => reservedPages(zone, LOW));
  const min = zones.map((zone) => reservedPages(zone, MIN));
  if (!isComplete(low) || !isComplete(min) || !text.endsWith('\n')) return garbled(text, where);
  const size = pageBytes();
  if (!size.known) return size;
  const inBytes = (pages: readonly number[]): number =>
    Math.min(pages.reduce((sum, count) => sum + count, 0) * size.value, Number.MAX_SAFE_INTEGER);
  return known({
    reserveBytes: { low: inBytes(low), min: inBytes(min) },
    cpuFreeBytes: inBytes(Array.from(text.matchAll(KEPT_BY_CPU), ([, count]) => Number(count))),
  });
}

const isComplete = (pages: readonly (number | null)[]): pages is readonly number[] =>
  pages.every((count) => count !== null);

/** Of one zone, no more than it has. */
function reservedPages(zone: string, watermark: RegExp): number | null {
  const [, kept] = watermark.exec(zone) ?? [];
  const [, managed] = MANAGED.exec(zone) ?? [];
  const [, protection] = PROTECTION.exec(zone) ?? [];
  if (kept === undefined || managed === undefined || protection === undefined) return null;
  return Math.min(Number(managed), Number(kept) + Math.max(...protection.split(', ').map(Number)));
}

const ARC_SIZE = /^size +4 +(\d{1,16})$/m;
const ARC_LEAST = /^c_min +4 +(\d{1,16})$/m;

/** How far ZFS would shrink its cache (ARC) under pressure. 0 if ZFS is not loaded. */
function readArc(where: string): Reading<number> {
  const bytes = readKernelFile(where, ARCSTATS_BYTES);
  if (!bytes.known) return bytes.why === 'absent' ? known(0) : bytes;
  const text = bytes.value.toString('latin1');
  const size = ARC_SIZE.exec(text)?.[1];
  const least = ARC_LEAST.exec(text)?.[1];
  if (size === undefined || least === undefined || !text.endsWith('\n')) return garbled(text, where);
  return known(Math.max(0, Number(size) - Number(least)));
}

const SIZE = /^hugepages-(\d{1,9})kB$/;

/**
 * The transparent huge pages of which parts are unmapped: all of their memory, so at least what the kernel frees by splitting
 * them. Kernels before 6.12 do not count them: no limit is known.
 */
function readSplittable(where: string): Reading<number> {
  let bytes: number | null = null;
  try {
    for (const name of readdirSync(where)) {
      const kib = SIZE.exec(name)?.[1];
      const path = `${where}/${name}/stats/nr_anon_partially_mapped`;
      const read = kib === undefined ? null : readKernelFileShared(path, NUMBER_BYTES);
      if (read === null || (!read.known && read.why === 'absent')) continue;
      const count = ifKnown(read, (text) => parseCount(text, path));
      if (!count.known) return count;
      bytes = (bytes ?? 0) + count.value * Number(kib) * 1024;
    }
  } catch (cause) {
    const failed = fileUnknown(where, cause);
    // A kernel without transparent huge pages.
    return failed.why === 'absent' ? known(0) : failed;
  }
  return known(bytes ?? Number.POSITIVE_INFINITY);
}
