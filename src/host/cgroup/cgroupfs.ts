import { closeSync, constants, lstatSync, openSync, readlinkSync, writeSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { fileUnknown } from '../file-error.ts';
import {
  EVENTS_BYTES,
  holdKernelFile,
  key,
  keyedIn,
  openNumberFile,
  readKernelFile,
  readKeyed,
} from '../kernel-file.ts';
import { threadsOf } from '../procfs.ts';
import { cgroupInode, closedIfReplaced } from './cgroup-inode.ts';
import { isMember, lookInProc } from './cgroup-members.ts';
import { anonOf, holdMemory, MEMORY_STAT_BYTES, usageIn } from './cgroup-memory.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { childrenOf, directoryOf, inCgroup, isLeaf, listIn, lookAtProcesses, type Seen } from './cgroup-walk.ts';

const POPULATED = key('populated ');
/** Above this number, processes are not checked one by one for a figure that nothing waits for. */
const MAX_ALIVE = 1_000;
/** More would take longer than a kill may wait: about 3 ms. */
const MAX_SIBLINGS = 1_000;
/** It may be renamed between the reading of its new name and the look there. */
const RENAME_TRIES = 3;
/** D3: below this, the memory of a victim counts as free. */
export const GIVEN_BACK_BYTES = 1024 * 1024;

/**
 * The cgroup at a path below the mount: `/` or `/a/b`, without `.` and `..`. Its identity is the inode of its directory,
 * in the memory hierarchy on version 1 and in the unified one on version 2.
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

/**
 * Where the same cgroup is now: version 1 lets whoever may write to its parent rename it there. Null: it was not found.
 */
export function whereIs(mounts: CgroupMounts, ref: CgroupRef): CgroupRef | null {
  const parent = ref.path.slice(0, ref.path.lastIndexOf('/'));
  const directory = mounts.memory + parent;
  for (let tries = 0; tries < RENAME_TRIES; tries++) {
    if (isSame(mounts, ref)) return ref;
    if (mounts.version === 2) return null;
    const siblings = childrenOf(directory, MAX_SIBLINGS);
    const names = siblings.known ? siblings.value.names : [];
    const name = names.find((sibling) => cgroupInode(`${directory}/${sibling}`) === ref.inode);
    if (name !== undefined) return { ...ref, path: `${parent}/${name}` };
  }
  return null;
}

/**
 * The same for one whose directory is open, also if a directory above it was renamed. `directory`: below /proc/self/fd. Null:
 * it is gone, or its path is not known.
 */
export function pathHeld(mounts: CgroupMounts, { inode }: CgroupRef, directory: string): string | null {
  try {
    const target = readlinkSync(directory);
    const path = target.startsWith(`${mounts.memory}/`) ? target.slice(mounts.memory.length) : null;
    return path !== null && isSame(mounts, { path, inode }) ? path : null;
  } catch {
    return null;
  }
}

/** It is not at its path, but elsewhere, or another cgroup is there in its place. */
export function isMoved(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const now = refOf(mounts, ref.path);
  return now.known ? now.value.inode !== ref.inode : whereIs(mounts, ref) !== null;
}

/** D13. Unknown `absent` if it is gone; also unknown if no process was found but not everything could be read. */
export function isPopulated(mounts: CgroupMounts, ref: CgroupRef): Reading<boolean> {
  return inCgroup(mounts, ref, (directory) => {
    if (mounts.version === 2) {
      const events = readKeyed(`${directory}/cgroup.events`, POPULATED);
      if (events.known) return known(events.value !== 0);
      // Only the root has no such file.
      if (events.why !== 'absent' || ref.path !== '/') return events;
    }
    return isAnybodyIn(mounts, ref, directory);
  });
}

/** Whether it is known to have processes. */
export function hasProcesses(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const populated = isPopulated(mounts, ref);
  return populated.known && populated.value;
}

/** For the inode of a cgroup, a process that was found in it: it is checked first, without a search. Version 1 only. */
const foundIn = new Map<number, number>();
const MAX_REMEMBERED = 16_384;

function isFoundAgain(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const pid = foundIn.get(ref.inode);
  if (pid === undefined) return false;
  const member = isMember(mounts, ref, pid);
  if (member.known && member.value) return true;
  foundIn.delete(ref.inode);
  return false;
}

function isAnybodyIn(mounts: CgroupMounts, ref: CgroupRef, directory: string): Reading<boolean> {
  if (isFoundAgain(mounts, ref)) return known(true);
  const seen = lookIn(mounts, ref, directory, (pids) => pids.size > 0);
  const pid = seen.known ? [...seen.value.pids].find((shown) => shown !== 0) : undefined;
  // Until then, entries of removed cgroups stay in it.
  if (foundIn.size >= MAX_REMEMBERED) foundIn.clear();
  if (pid !== undefined) foundIn.set(ref.inode, pid);
  return populatedBy(mounts, ref, directory, seen);
}

/** /proc first: a tenant that creates cgroups keeps their directory locked while the kernel reclaims memory for it. */
function lookIn(
  mounts: CgroupMounts,
  ref: CgroupRef,
  directory: string,
  isEnough: (pids: ReadonlySet<number>) => boolean,
): Reading<Seen> {
  const own = listIn(directory, '');
  if (!own.known) return own;
  const pids = new Set(own.value);
  const isWhole = isLeaf(directory);
  if (isWhole || isEnough(pids)) return known({ pids, isWhole });
  const seen = lookInProc(mounts, ref);
  if (seen.pids.size > 0 && (seen.isWhole || isEnough(seen.pids))) return known(seen);
  return lookAtProcesses(directory, isEnough);
}

/** Version 1: whether processes run at this path of systemd's tree, whether or not the memory controller has a cgroup there. */
export function runsUnmeasured({ version, unified }: CgroupMounts, path: string): boolean {
  const events =
    version === 1 && unified !== null ? readKernelFile(`${unified}${path}/cgroup.events`, EVENTS_BYTES) : null;
  return events?.known === true && /^populated 1$/m.test(events.value.toString('latin1'));
}

/**
 * For a look that found no process before it ended early: anonymous memory exists only as long as a process has it, and the
 * pids controller counts every thread below.
 */
function populatedBy(mounts: CgroupMounts, ref: CgroupRef, directory: string, seen: Reading<Seen>): Reading<boolean> {
  if (!seen.known) return seen;
  if (seen.value.pids.size > 0) return known(true);
  if (seen.value.isWhole) return known(false);
  const anon = anonBelow(mounts, directory);
  if (!anon.known) return tooLarge(directory);
  if (anon.value >= GIVEN_BACK_BYTES) return known(true);
  const threads = threadsIn(mounts, ref);
  return threads.known && threads.value === 0 ? known(false) : tooLarge(directory);
}

/** A cgroup by its identity, on descriptors that stay open: a later cgroup at the same path is not read. */
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
    const { workingSetBytes } = memory.value;
    const letGo = keepAtHand(mounts, directory);
    const close = (): void => {
      memory.value.close();
      letGo();
    };
    if (mounts.version === 1) {
      const isThere = (): Reading<boolean> =>
        isFoundAgain(mounts, ref) ? known(true) : inCgroup(mounts, ref, (again) => isAnybodyIn(mounts, ref, again));
      return known({ isPopulated: isThere, workingSetBytes, close });
    }
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

/**
 * Keeps open what a kill will open: while it is open, the kernel finds its name without the lock of the directory, which a
 * tenant may hold.
 */
function keepAtHand({ version }: CgroupMounts, directory: string): () => void {
  const { O_RDONLY, O_WRONLY, O_NOFOLLOW } = constants;
  const fds: number[] = [];
  const open = (name: string, how: number): void => {
    try {
      fds.push(openSync(`${directory}/${name}`, how | O_NOFOLLOW));
    } catch {
      // Kernels before 5.14 have no cgroup.kill; a caller that needs the other file gets the reason.
    }
  };
  open('cgroup.procs', O_RDONLY);
  if (version === 2) open('cgroup.kill', O_WRONLY);
  return () => {
    for (const fd of fds.splice(0)) closeSync(fd);
  };
}

/**
 * The processes in it and its descendants, freshly listed. If the tree is too large for one look, the list is partial, but
 * never empty.
 */
export function processesOf(mounts: CgroupMounts, ref: CgroupRef): Reading<readonly number[]> {
  const seen = seenIn(mounts, ref);
  return seen.known ? known(seen.value.pids) : seen;
}

/** The number of processes. If the tree is too large for one look: of its threads, if the kernel counts them. */
export function countProcesses(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  const seen = seenIn(mounts, ref);
  const threads = seen.known && seen.value.isWhole ? null : threadsIn(mounts, ref);
  if (!seen.known) return threads?.known === true && threads.value > 0 ? threads : seen;
  return known(Math.max(seen.value.pids.length, threads?.known === true ? threads.value : 0));
}

/**
 * The unreaped dead processes in it: they count against pids.max, and are listed nowhere. Unknown if the tree has too many
 * processes for one look. 0 if there are fewer than `least`: then its processes need not be looked at one by one, mostly.
 */
export function countUnreaped(mounts: CgroupMounts, ref: CgroupRef, least = 1): Reading<number> {
  const counted = threadsIn(mounts, ref);
  if (!counted.known) return counted;
  if (counted.value < least) return known(0);
  const seen = seenIn(mounts, ref);
  if (!seen.known) return seen;
  if (counted.value - seen.value.pids.length < least) return known(0);
  if (!seen.value.isWhole || seen.value.pids.length > MAX_ALIVE) {
    return unknown('unreadable', ref.path, `more than ${MAX_ALIVE} processes live in it`);
  }
  const alive = seen.value.pids.reduce((sum, pid) => sum + threadsOf(pid, counted.value + 1).length, 0);
  const dead = counted.value - alive;
  return known(dead < least ? 0 : dead);
}

/** The same; 0 if that is not known, or the cgroup is gone. */
export function unreaped(mounts: CgroupMounts, ref: CgroupRef): number {
  const count = isSame(mounts, ref) ? countUnreaped(mounts, ref) : null;
  return count?.known === true ? count.value : 0;
}

/** What the kernel counts against pids.max: threads, and unreaped dead processes. */
export function threadsIn(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
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
    const seen = lookIn(mounts, ref, directory, () => false);
    if (!seen.known) return seen;
    const { isWhole } = seen.value;
    const pids = [...seen.value.pids].filter((pid) => pid !== 0);
    return pids.length === 0 && !isWhole ? tooLarge(directory) : known({ pids, isWhole });
  });
}

/** v2 `anon`, v1 `total_rss`: what proves that memory came back (D3). At most the usage, behind which those may lag. */
export function anonBytes(mounts: CgroupMounts, ref: CgroupRef): Reading<number> {
  return inCgroup(mounts, ref, (directory) => {
    const anon = anonBelow(mounts, directory);
    const usage = usageIn(mounts, directory);
    return anon.known && usage.known && usage.value < anon.value ? usage : anon;
  });
}

function anonBelow(mounts: CgroupMounts, directory: string): Reading<number> {
  const path = `${directory}/memory.stat`;
  const bytes = readKernelFile(path, MEMORY_STAT_BYTES);
  return bytes.known ? anonOf(mounts, bytes.value, path) : bytes;
}

/** Sends SIGKILL to everything in it, at once and without a race with fork. Unknown `absent` on v1 and before 5.14. */
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

type CgroupPids = {
  /** Threads in it and its descendants. */
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
  const close = (): void => {
    current.close();
    max.close();
  };
  const follow = closedIfReplaced({ mounts, path, directory }, close);
  return {
    current: () => {
      follow();
      return current.read();
    },
    max: () => {
      follow();
      return max.readLimit();
    },
    close,
  };
}

const tooLarge = (directory: string): Reading<never> =>
  unknown('unreadable', directory, 'too many descendants to read, and no process in those that were read');
