import { closeSync, constants, open, readdir, readSync } from 'node:fs';
import { promisify } from 'node:util';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { bytesOf, directoryOf } from './cgroup-walk.ts';

const MOST_CGROUPS = 1_000;
const MOST_PATH = 3_900;
const namesIn = promisify(readdir);
const openFile = promisify(open);
const first = Buffer.allocUnsafeSlow(64);

/**
 * Reads memory.stat of every cgroup below; returns how many there are. On Linux 6.18, a cgroup with changes that are not summed yet
 * may not tell those above it of further ones. Their memory.stat then lags by all of these for up to 2 s, unless somebody reads that of the
 * cgroup itself, which sums its changes. The thread pool opens the directories: a tenant that creates cgroups may keep
 * one locked. Never rejects.
 */
export async function sumStats(mounts: CgroupMounts, path: string): Promise<number> {
  const found = [Buffer.from(directoryOf(mounts, path)).toString('latin1')];
  for (const at of found) {
    try {
      for (const entry of await namesIn(bytesOf(at), { encoding: 'latin1', withFileTypes: true })) {
        const child = `${at}/${entry.name}`;
        if (entry.isDirectory() && child.length < MOST_PATH && found.length <= MOST_CGROUPS) found.push(child);
      }
      if (at === found[0]) continue;
      const fd = await openFile(bytesOf(`${at}/memory.stat`), constants.O_RDONLY | constants.O_NOFOLLOW);
      try {
        readSync(fd, first, 0, first.length, 0);
      } finally {
        closeSync(fd);
      }
    } catch {
      // It may have ended, and otherwise the kernel sums its changes in its own time.
    }
  }
  return found.length - 1;
}
