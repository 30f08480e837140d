import { closeSync, constants, lstatSync, openSync, writeSync } from 'node:fs';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import { anonOf, holdMemory, MEMORY_STAT_BYTES } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf, inCgroup, walkCgroups, walkProcesses } from './cgroup-walk.ts';
import { fileUnknown } from './file-error.ts';
import { holdKernelFile, isProcessListed, key, openNumberFile, parseKeyed, readKernelFile } from './kernel-file.ts';
import { cgroupPathsOf } from './procfs.ts';

export { type CgroupMemory, type MemoryStat, type MemoryUse, openMemory } from './cgroup-memory.ts';
export { type CgroupMounts, findCgroupMounts } from './cgroup-mounts.ts';
export { directoryOf } from './cgroup-walk.ts';

/** Events, oom_control and the like: some hundred bytes. */
const EVENTS_BYTES = 4096;
const POPULATED = key('populated ');
const OOM_KILL = key('oom_kill ');

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
    const somebody = somebodyBelow(directory);
    return somebody.known ? known(somebody.value !== null) : somebody;
  });
}

/** Where the first process was found, relative to the directory: '' or '/a/b'; null = nobody is in it or below. */
function somebodyBelow(directory: string): Reading<string | null> {
  const walk = walkProcesses(directory, (pids) => pids.size > 0);
  if (!walk.known) return walk;
  if (walk.value.pids.size > 0) return known(walk.value.endedAt);
  return walk.value.isWhole ? known(null) : tooLarge(directory);
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
  let at = `${own}/cgroup.procs`;
  return () => {
    if (isProcessListed(at)) return known(true);
    const somebody = inCgroup(mounts, ref, somebodyBelow);
    if (!somebody.known) return somebody;
    if (somebody.value !== null) at = `${own}${somebody.value}/cgroup.procs`;
    return known(somebody.value !== null);
  };
}

/**
 * The processes in it and its descendants, freshly listed. At most 100,000 of 10,000 cgroups down to 64 levels; beyond
 * that a part is returned, but never an empty list.
 */
export function processesOf(mounts: CgroupMounts, ref: CgroupRef): Reading<readonly number[]> {
  return inCgroup(mounts, ref, (directory) => {
    const walk = walkProcesses(directory, () => false);
    if (!walk.known) return walk;
    const pids = [...walk.value.pids].filter((pid) => pid !== 0);
    return pids.length === 0 && !walk.value.isWhole ? tooLarge(directory) : known(pids);
  });
}

/** v2 `anon`, v1 `total_rss`: what proves that memory came back (D3). */
export function anonBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, ref, (directory) => {
    const path = `${directory}/memory.stat`;
    const bytes = readKernelFile(path, MEMORY_STAT_BYTES);
    return bytes.known ? anonOf(mounts, bytes.value, path) : bytes;
  });
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
    const walked = walkCgroups(directory, (path, depth) => {
      const read = readKeyed(`${path}/memory.oom_control`, OOM_KILL);
      if (!read.known) return depth > 0 && read.why === 'absent' ? 'go-on' : read;
      sum += read.value;
      return 'go-on';
    });
    return walked.known ? known(Math.min(sum, Number.MAX_SAFE_INTEGER)) : walked;
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

/** Where a process is, in the hierarchy whose paths a CgroupRef has. */
export function cgroupPathOf(mounts: CgroupMounts, pid: number): Reading<string> {
  const paths = cgroupPathsOf(pid);
  if (!paths.known) return paths;
  const path = paths.value.get(mounts.version === 1 ? 'memory' : '');
  return path === undefined ? unknown('absent', `/proc/${pid}/cgroup`, 'the hierarchy is not listed') : known(path);
}

function readKeyed(path: string, name: ReturnType<typeof key>): Reading<number> {
  const bytes = readKernelFile(path, EVENTS_BYTES);
  return bytes.known ? keyedIn(bytes.value, name, path) : bytes;
}

function keyedIn(bytes: Buffer, name: ReturnType<typeof key>, path: string): Reading<number> {
  return parseKeyed(bytes, name, '', path) ?? unknown('absent', path, `no line ${name.text.trim()}`);
}

const tooLarge = (directory: string): Reading<never> =>
  unknown('unreadable', directory, 'more descendants than are looked at, and nobody in those that were');
