import { readdirSync, readlinkSync } from 'node:fs';
import { known, type Reading, type Unknown } from '../../core/reading.ts';
import { type Mount, readMounts } from '../disk/mounts.ts';
import { fileUnknown } from '../file-error.ts';
import { processName } from '../procfs.ts';

/** A process through which others read and write: once it ends, they get errors, and what they have written may be lost. */
export type FileServer = { readonly pid: number; readonly name: string; readonly device: string };

/** A file system in user space, and a disk of a network or of user space, each behind a process that has this open. */
const SERVED = /^\/dev\/(?:fuse|nbd\d+|ublkc\d+)$/;
/** It is opened at the start, so its number is low; limits what a process with many files may cost. */
const MOST_FILES = 256;
const isServed = ({ type }: Mount): boolean => /^fuse(?:$|blk$|\.)/.test(type);
const BLOCK_DEVICES = '/sys/block';
const isServedDisk = (name: string): boolean => /^(?:nbd|ublkb)\d/.test(name);

/**
 * Finds the first of some processes that serves files. Whether there can be one is read once: where no such file system is
 * mounted and there is no such disk, it costs nothing however many pods are looked at.
 */
export function createFileServers(): (pids: readonly number[]) => Reading<FileServer | null> {
  const mounts = readMounts();
  const isNone = mounts.known && !mounts.value.some(isServed) && !hasServedDisk();
  return isNone ? () => known(null) : fileServerAmong;
}

/** By all disks, since it may be below LVM, encryption or swap, which no mount tells. */
function hasServedDisk(): boolean {
  try {
    return readdirSync(BLOCK_DEVICES).some(isServedDisk);
  } catch {
    return true; // Not known, so it is looked for.
  }
}

function fileServerAmong(pids: readonly number[]): Reading<FileServer | null> {
  let unread: Unknown | null = null;
  for (const pid of pids) {
    const device = deviceOf(pid);
    if (device.known && device.value !== null) {
      const name = processName(pid);
      return known({ pid, name: name.known ? name.value : 'a process', device: device.value });
    }
    if (!device.known && device.why !== 'absent') unread ??= device;
  }
  return unread ?? known(null);
}

function deviceOf(pid: number): Reading<string | null> {
  const directory = `/proc/${pid}/fd`;
  try {
    const links = readdirSync(directory)
      .slice(0, MOST_FILES)
      .map((fd) => linkOf(`${directory}/${fd}`));
    return known(links.find((link) => SERVED.test(link)) ?? null);
  } catch (cause) {
    return fileUnknown(directory, cause);
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // It was closed meanwhile.
  }
}
