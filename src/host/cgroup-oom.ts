import { opendir, readFile } from 'node:fs/promises';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { holdDirectory, isLeaf } from './cgroup-walk.ts';
import { fileUnknown } from './file-error.ts';
import { EVENTS_BYTES, key, keyedIn, readKeyed } from './kernel-file.ts';

const OOM_KILL = key('oom_kill ');
/** In a pod with more, kills are not attributed. */
const SUMMED_CGROUPS = 1_000;

/**
 * A counter of kills by the kernel. v1 counts only in the victim's own cgroup, so descendants are summed: it falls when
 * one is removed. The thread pool reads them: a tenant that creates cgroups may keep their directory locked for minutes, and
 * the caller has a deadline.
 */
export async function oomKillsOf(mounts: CgroupMounts, ref: CgroupRef): Promise<Reading<number>> {
  const held = holdDirectory(mounts, ref);
  if (!held.known) return held;
  const { directory, close } = held.value;
  try {
    const own = ownOomKills(mounts, directory);
    if (mounts.version === 2 || !own.known || isLeaf(directory)) return own;
    const below = await killsBelow(directory);
    return below.known ? known(Math.min(own.value + below.value, Number.MAX_SAFE_INTEGER)) : below;
  } finally {
    close();
  }
}

/** Of the cgroup with that directory; on v1 without its descendants. */
export function ownOomKills(mounts: CgroupMounts, directory: string): Reading<number> {
  return readKeyed(`${directory}/${mounts.version === 2 ? 'memory.events' : 'memory.oom_control'}`, OOM_KILL);
}

/** Paths are bytes, as latin1 strings. One that vanished counts for nothing. */
async function killsBelow(top: string): Promise<Reading<number>> {
  const found = [top];
  let sum = 0;
  for (const at of found) {
    try {
      const names = await opendir(Buffer.from(at, 'latin1'), { encoding: 'latin1' });
      for await (const entry of names) {
        if (!entry.isDirectory()) continue;
        if (found.length > SUMMED_CGROUPS) return unknown('unreadable', top, 'too many descendants to read');
        const child = `${at}/${entry.name}`;
        found.push(child);
        const kills = await killsIn(child);
        if (kills.known) sum += kills.value;
        else if (kills.why !== 'absent') return kills;
      }
    } catch (cause) {
      const why = fileUnknown(at, cause);
      if (at === top || why.why !== 'absent') return why;
    }
  }
  return known(sum);
}

async function killsIn(directory: string): Promise<Reading<number>> {
  const path = `${directory}/memory.oom_control`;
  try {
    const bytes = await readFile(Buffer.from(path, 'latin1'));
    return keyedIn(bytes.subarray(0, EVENTS_BYTES), OOM_KILL, path);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}
