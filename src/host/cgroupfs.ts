import { closeSync, constants, lstatSync, openSync, writeSync } from 'node:fs';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import { anonOf, holdMemory, MEMORY_STAT_BYTES } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf, inCgroup, lookAtProcesses, type Seen, walkCgroups } from './cgroup-walk.ts';
import { fileUnknown } from './file-error.ts';
import { holdKernelFile, isProcessListed, key, openNumberFile, parseKeyed, readKernelFile } from './kernel-file.ts';
import { cgroupPathsOf, type Thread, threadsOf } from './procfs.ts';

export { type CgroupMemory, type MemoryStat, type MemoryUse, openMemory } from './cgroup-memory.ts';
export { type CgroupMounts, findCgroupMounts } from './cgroup-mounts.ts';
export { directoryOf } from './cgroup-walk.ts';

/** Events, oom_control and the like: some hundred bytes. */
const EVENTS_BYTES = 4096;
const POPULATED = key('populated ');
const OOM_KILL = key('oom_kill ');
/** Looked at of one process whose main thread is elsewhere. */
const MOST_THREADS = 4_096;
/** D3: below this a victim has given back. */
export const GIVEN_BACK_BYTES = 1024 * 1024;
/** Some 20 ms. A pod with more has kills that are nobody's. */
const SUMMED_CGROUPS = 1_000;

/**
 * The cgroup at a path below the mount: `/` or `/a/b`, without `.` and `..`. Its identity is the inode of its directory
 * in the memory hierarchy of version 1, in the unified one of version 2.
 */
export function refOf(mounts: CgroupMounts, path: string): Reading<CgroupRef> {
  if (!/^\/(?:(?!\.\.?(?:\/|$))[^/\0]+(?:\/(?!$)|$))*$/.test(path)) {
    return unknown('malformed', path, 'not the path of a cgroup');
  }
  const directory = directoryOf(mounts, path);
  try {
    const facts = lstatSync(directory);
    if (!facts.isDirectory()) return unknown('unreadable', directory, 'not a directory');
    return known({ path, inode: facts.ino });
  } catch (cause) {
    return fileUnknown(directory, cause);
  }
}

/** Is it still there, and still the same one? */
export function isSame(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const now = refOf(mounts, ref.path);
  return now.known && now.value.inode === ref.inode;
}

/** D13. Unknown `absent` when it is gone; also unknown where nobody was found but not everything could be looked at. */
export function isPopulated(mounts: CgroupMounts, ref: CgroupRef): Reading<boolean> {
  return inCgroup(mounts, ref, (directory) => {
    if (mounts.version === 2) {
      const events = readKeyed(`${directory}/cgroup.events`, POPULATED);
      if (events.known) return known(events.value !== 0);
      // Only the root has no such file.
      if (events.why !== 'absent' || ref.path !== '/') return events;
    }
    return populatedBy(mounts, directory, somebodyBelow(directory));
  });
}

const somebodyBelow = (directory: string): Reading<Seen> => lookAtProcesses(directory, (pids) => pids.size > 0);

/**
 * Where a look ended before all of a tree was seen and nobody was found: anonymous memory lives only as long as
 * somebody has it.
 */
function populatedBy(mounts: CgroupMounts, directory: string, seen: Reading<Seen>): Reading<boolean> {
  if (!seen.known) return seen;
  if (seen.value.pids.size > 0) return known(true);
  if (seen.value.isWhole) return known(false);
  const anon = anonBelow(mounts, directory);
  return anon.known && anon.value >= GIVEN_BACK_BYTES ? known(true) : tooLarge(directory);
}

/** A cgroup by its identity, on descriptors that stay open: whatever has its path later is not read. */
export type HeldCgroup = {
  /** D13. */
  readonly isPopulated: () => Reading<boolean>;
  /** Unknown `absent` when the cgroup is gone. Known right after isPopulated, it proves that answer to be of this cgroup. */
  readonly workingSetBytes: () => Reading<number>;
  readonly close: () => void;
};

/** Unknown `absent`: it is gone, or another one has its path. */
export function holdCgroup(mounts: CgroupMounts, ref: CgroupRef): Reading<HeldCgroup> {
  return inCgroup(mounts, ref, (directory) => {
    const own = directoryOf(mounts, ref.path);
    const memory = holdMemory(mounts, directory, own);
    if (!memory.known) return memory;
    const { workingSetBytes, close } = memory.value;
    if (mounts.version === 1) return known({ isPopulated: seekingProcess(mounts, ref), workingSetBytes, close });
    const path = `${own}/cgroup.events`;
    const events = holdKernelFile(`${directory}/cgroup.events`, path, EVENTS_BYTES);
    if (!events.known) {
      close();
      return events;
    }
    const isPopulated = (): Reading<boolean> => {
      const bytes = events.value.read();
      const populated = bytes.known ? keyedIn(bytes.value, POPULATED, path) : bytes;
      return populated.known ? known(populated.value !== 0) : populated;
    };
    const closeAll = (): void => {
      close();
      events.value.close();
    };
    return known({ isPopulated, workingSetBytes, close: closeAll });
  });
}

/** v1 has only lists of processes, and a pod's processes are in its containers': looked for where somebody was last. */
function seekingProcess(mounts: CgroupMounts, ref: CgroupRef): () => Reading<boolean> {
  const own = directoryOf(mounts, ref.path);
  const listIn = (path: string): Buffer =>
    Buffer.concat([Buffer.from(own), Buffer.from(`${path}/cgroup.procs`, 'latin1')]);
  let at = listIn('');
  return () => {
    if (isProcessListed(at)) return known(true);
    return inCgroup(mounts, ref, (directory) => {
      const seen = somebodyBelow(directory);
      if (seen.known && seen.value.lastAt !== null) at = listIn(seen.value.lastAt);
      return populatedBy(mounts, directory, seen);
    });
  };
}

/**
 * The processes in it and its descendants, freshly listed: of a tree that is larger than one look may cost a part, but
 * never an empty list.
 */
export function processesOf(mounts: CgroupMounts, ref: CgroupRef): Reading<readonly number[]> {
  const seen = seenIn(mounts, ref);
  return seen.known ? known(seen.value.pids) : seen;
}

/** How many there are. Of a tree that is larger than one look may cost: its threads, where the kernel counts them. */
export function countProcesses(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  const seen = seenIn(mounts, ref);
  const threads = seen.known && seen.value.isWhole ? null : threadsIn(mounts, ref);
  if (!seen.known) return threads?.known === true && threads.value > 0 ? threads : seen;
  return known(Math.max(seen.value.pids.length, threads?.known === true ? threads.value : 0));
}

function threadsIn(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  const pids = openPids(mounts, ref.path);
  try {
    return pids.current();
  } finally {
    pids.close();
  }
}

function seenIn(
  mounts: CgroupMounts,
  ref: CgroupRef,
): Reading<{ readonly pids: readonly number[]; readonly isWhole: boolean }> {
  return inCgroup(mounts, ref, (directory) => {
    const seen = lookAtProcesses(directory, () => false);
    if (!seen.known) return seen;
    const { isWhole } = seen.value;
    const pids = [...seen.value.pids].filter((pid) => pid !== 0);
    return pids.length === 0 && !isWhole ? tooLarge(directory) : known({ pids, isWhole });
  });
}

/** v2 `anon`, v1 `total_rss`: what proves that memory came back (D3). */
export function anonBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, ref, (directory) => anonBelow(mounts, directory));
}

function anonBelow(mounts: CgroupMounts, directory: string): Reading<number> {
  const path = `${directory}/memory.stat`;
  const bytes = readKernelFile(path, MEMORY_STAT_BYTES);
  return bytes.known ? anonOf(mounts, bytes.value, path) : bytes;
}

/** SIGKILL to everything in it, at once and without a race with fork. Unknown `absent` on v1 and before 5.14. */
export function killAtOnce(mounts: CgroupMounts, ref: CgroupRef): Reading<true> {
  return inCgroup(mounts, ref, (directory) => {
    const path = `${directory}/cgroup.kill`;
    try {
      const fd = openSync(path, constants.O_WRONLY | constants.O_NOFOLLOW);
      try {
        writeSync(fd, '1');
        return known(true);
      } finally {
        closeSync(fd);
      }
    } catch (cause) {
      return fileUnknown(path, cause);
    }
  });
}

/** A counter. v1 counts only in the victim's own cgroup, so descendants are summed: it falls when one is removed. */
export function oomKillsOf(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, ref, (directory) => {
    if (mounts.version === 2) return readKeyed(`${directory}/memory.events`, OOM_KILL);
    let sum = 0;
    let count = 0;
    for (const below of walkCgroups(directory)) {
      if (below === null) continue;
      if (++count > SUMMED_CGROUPS) return unknown('unreadable', directory, 'more descendants than are looked at');
      const read = readKeyed(below.file('memory.oom_control'), OOM_KILL);
      if (read.known) sum += read.value;
      else if (below.depth === 0 || read.why !== 'absent') return read;
    }
    return known(Math.min(sum, Number.MAX_SAFE_INTEGER));
  });
}

export type CgroupPids = {
  /** Threads, in it and its descendants. */
  readonly current: () => Reading<number>;
  /** Null = no limit. */
  readonly max: () => Reading<number | null>;
  readonly close: () => void;
};

/** The pids controller of the cgroup at `path`, on kept descriptors. The root has neither file: unknown `absent`. */
export function openPids(mounts: CgroupMounts, path: string): CgroupPids {
  if (mounts.pids === null) {
    const none = unknown('not-applicable', 'pids controller', 'this host has none');
    return { current: () => none, max: () => none, close: () => undefined };
  }
  const directory = path === '/' ? mounts.pids : mounts.pids + path;
  const current = openNumberFile(`${directory}/pids.current`);
  const max = openNumberFile(`${directory}/pids.max`);
  return {
    current: current.read,
    max: max.readLimit,
    close: () => {
      current.close();
      max.close();
    },
  };
}

/** Where the main thread of a process is, in the hierarchy whose paths a CgroupRef has. */
export function cgroupPathOf(mounts: CgroupMounts, pid: number): Reading<string> {
  const path = pathIn(mounts, cgroupPathsOf(pid), pid);
  return path.known ? known(Buffer.from(path.value, 'latin1').toString()) : path;
}

function pathIn(mounts: CgroupMounts, paths: ReturnType<typeof cgroupPathsOf>, pid: number): Reading<string> {
  if (!paths.known) return paths;
  const path = paths.value.get(mounts.version === 1 ? 'memory' : '');
  return path === undefined ? unknown('absent', `/proc/${pid}/cgroup`, 'the hierarchy is not listed') : known(path);
}

/**
 * Whether any live thread of the process is in the cgroup or below it. On version 1 the file of a process whose main
 * thread has ended says `/`, though the others live on.
 */
export function isMember(mounts: CgroupMounts, ref: CgroupRef, pid: number): Reading<boolean> {
  const top = Buffer.from(ref.path).toString('latin1');
  const isInside = (thread: number | Thread): Reading<boolean> => {
    const path = pathIn(mounts, cgroupPathsOf(thread), pid);
    return path.known ? known(path.value === top || path.value.startsWith(`${top}/`)) : path;
  };
  const main = isInside(pid);
  if (!main.known || main.value) return main;
  for (const tid of threadsOf(pid, MOST_THREADS)) {
    const thread = tid === pid ? main : isInside(`${pid}/task/${tid}`);
    if (thread.known && thread.value) return thread;
  }
  return main;
}

function readKeyed(path: string | Buffer, name: ReturnType<typeof key>): Reading<number> {
  const bytes = readKernelFile(path, EVENTS_BYTES);
  return bytes.known ? keyedIn(bytes.value, name, path.toString()) : bytes;
}

function keyedIn(bytes: Buffer, name: ReturnType<typeof key>, path: string): Reading<number> {
  return parseKeyed(bytes, name, '', path) ?? unknown('absent', path, `no line ${name.text.trim()}`);
}

const tooLarge = (directory: string): Reading<never> =>
  unknown('unreadable', directory, 'more descendants than are looked at, and nobody in those that were');
