import { readFileSync, realpathSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { deviceName } from '../disk/mounts.ts';
import { fileUnknown } from '../file-error.ts';
import { readKernelFile } from '../kernel-file.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf } from './cgroup-walk.ts';

/** Some 100 bytes for each device. */
const IO_STAT_BYTES = 64 * 1024;
const LINE = /^(\d+:\d+) .*?\bwbytes=(\d+)/gm;

/**
 * What a cgroup has written since it was created, by device (`major:minor`), as counted by the kernel. Only version 2 counts
 * writes through the page cache; `not-applicable` if they are not counted.
 */
export function writtenByDevice(mounts: CgroupMounts, { path }: CgroupRef): Reading<ReadonlyMap<string, number>> {
  if (mounts.version === 1) return unknown('not-applicable', 'io.stat', 'version 1 attributes no writes');
  const bytes = readKernelFile(`${directoryOf(mounts, path)}/io.stat`, IO_STAT_BYTES);
  if (!bytes.known) return bytes.why === 'absent' ? { ...bytes, why: 'not-applicable' } : bytes;
  const written = new Map<string, number>();
  for (const [, device = '', count] of bytes.value.toString('latin1').matchAll(LINE))
    written.set(device, Number(count));
  return known(written);
}

/** The disk below a file system, from its st_dev, as io.stat names it: a partition counts as its whole disk. */
export function diskOf(device: number, root = ''): Reading<string> {
  const name = deviceName(device);
  const where = `${root}/sys/dev/block/${name}`;
  // Without a device of its own (tmpfs, overlay, btrfs, NFS).
  if (name.startsWith('0:')) return unknown('not-applicable', where, 'this file system has no block device');
  try {
    const directory = realpathSync(where);
    return known(isPartition(directory) ? readFileSync(`${directory}/../dev`, 'latin1').trim() : name);
  } catch (cause) {
    return fileUnknown(where, cause);
  }
}

function isPartition(directory: string): boolean {
  try {
    return /^\d+$/.test(readFileSync(`${directory}/partition`, 'latin1').trim());
  } catch {
    return false; // A whole disk has no such file.
  }
}
