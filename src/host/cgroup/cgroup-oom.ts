import { closeSync, constants, fstatSync, open, readSync } from 'node:fs';
import { opendir } from 'node:fs/promises';
import { promisify } from 'node:util';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { fileUnknown } from '../file-error.ts';
import { EVENTS_BYTES, key, keyedIn } from '../kernel-file.ts';
import { maxOpenFiles } from '../own/open-files.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { holdDirectory } from './cgroup-walk.ts';
import { createOpenCgroups } from './open-cgroups.ts';

const OOM_KILL = key('oom_kill ');
/** Kills in a pod with more cgroups are not attributed. */
const SUMMED_CGROUPS = 1_000;
/** The share of this process's file descriptors that may be used. */
const SHARE_OF_FILES = 0.25;
const FILES_EACH = 2;

type OomCounters = {
  /**
   * Kernel OOM kills in the cgroup and below. v1 counts only in the victim's own cgroup, so descendants are summed, and the
   * sum falls when one is removed. The thread pool opens the files: a tenant that creates cgroups may keep their directory
   * locked for minutes, and the caller has a deadline. Open files are kept, and can be read without that lock.
   */
  readonly read: (ref: CgroupRef) => Promise<Reading<number>>;
  /** For the next sweep, as if it had been read. */
  readonly keep: (ref: CgroupRef) => void;
  /** Closes what was not read since the last call. */
  readonly sweep: () => void;
  readonly close: () => void;
};

/** A cgroup as it was found: if its children change, its directory has another number of links. */
type Opened = { readonly directory: number; readonly links: number; readonly counter: number };

/** For cgroups that are read at every kernel OOM kill on the machine: on v1, opening a pod again takes some 2 ms. */
export function createOomCounters(mounts: CgroupMounts): OomCounters {
  const most = Math.floor((SHARE_OF_FILES * maxOpenFiles()) / FILES_EACH);
  let count = 0;
  let isClosed = false;
  const kept = createOpenCgroups<readonly Opened[]>((cgroups) => {
    closeAll(cgroups);
    count -= cgroups.length;
  });
  return {
    read: async (ref) => {
      const before = kept.find(ref);
      if (before?.every(isAsFound)) {
        const kills = killsIn(before, ref.path);
        if (kills.known) return kills;
      }
      kept.forget(ref);
      const opened = await openAll(mounts, ref);
      if (!opened.known) return opened;
      const kills = killsIn(opened.value, ref.path);
      if (kills.known && !isClosed && count + opened.value.length <= most) {
        kept.put(ref, opened.value);
        count += opened.value.length;
      } else closeAll(opened.value);
      return kills;
    },
    keep: (ref) => void kept.find(ref),
    sweep: kept.sweep,
    close: () => {
      isClosed = true;
      kept.close();
    },
  };
}

/** The same, for a single call. */
export async function oomKillsOf(mounts: CgroupMounts, ref: CgroupRef): Promise<Reading<number>> {
  const counters = createOomCounters(mounts);
  try {
    return await counters.read(ref);
  } finally {
    counters.close();
  }
}

const counterOf = ({ version }: CgroupMounts): string => (version === 2 ? 'memory.events' : 'memory.oom_control');

const isAsFound = ({ directory, links }: Opened): boolean => fstatSync(directory).nlink === links;

const text = Buffer.allocUnsafeSlow(EVENTS_BYTES);

function killsIn(cgroups: readonly Opened[], path: string): Reading<number> {
  let sum = 0;
  for (const { counter } of cgroups) {
    try {
      const kills = keyedIn(text.subarray(0, readSync(counter, text, 0, EVENTS_BYTES, 0)), OOM_KILL, path);
      if (!kills.known) return kills;
      sum += kills.value;
    } catch (cause) {
      return fileUnknown(path, cause);
    }
  }
  return known(Math.min(sum, Number.MAX_SAFE_INTEGER));
}

/** The cgroup and, on v1, all below it. Those that vanish are skipped. Paths are bytes, as latin1 strings. */
async function openAll(mounts: CgroupMounts, ref: CgroupRef): Promise<Reading<readonly Opened[]>> {
  const held = holdDirectory(mounts, ref);
  if (!held.known) return held;
  const { directory: top, close } = held.value;
  const found = [top];
  const opened: Opened[] = [];
  const fail = (why: Reading<never>): Reading<never> => {
    closeAll(opened);
    return why;
  };
  try {
    for (const at of found) {
      try {
        // `/.` leads through the link in /proc to the held directory. No other link is followed.
        opened.push(await openOne(at === top ? `${top}/.` : at, counterOf(mounts)));
        if (mounts.version === 2) continue;
        for (const name of await childrenIn(at)) found.push(`${at}/${name}`);
        if (found.length > SUMMED_CGROUPS) return fail(unknown('unreadable', top, 'too many descendants to read'));
      } catch (cause) {
        const why = fileUnknown(at, cause);
        if (at === top || why.why !== 'absent') return fail(why);
      }
    }
    return known(opened);
  } finally {
    close();
  }
}

const openFile = promisify(open);
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

async function openOne(at: string, counterName: string): Promise<Opened> {
  const directory = await openFile(Buffer.from(at, 'latin1'), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    // Read before the directory is listed, so that any later change shows.
    const links = fstatSync(directory).nlink;
    const counter = await openFile(`/proc/self/fd/${directory}/${counterName}`, O_RDONLY | O_NOFOLLOW);
    return { directory, links, counter };
  } catch (cause) {
    closeSync(directory);
    throw cause;
  }
}

async function childrenIn(at: string): Promise<readonly string[]> {
  const names: string[] = [];
  for await (const entry of await opendir(Buffer.from(at, 'latin1'), { encoding: 'latin1' })) {
    if (entry.isDirectory()) names.push(entry.name);
    if (names.length > SUMMED_CGROUPS) break;
  }
  return names;
}

function closeAll(cgroups: readonly Opened[]): void {
  for (const { directory, counter } of cgroups) {
    closeSync(counter);
    closeSync(directory);
  }
}
