import { closeSync, constants, fstatSync, opendirSync, openSync, statSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { codeOf, fileUnknown, isUnsupported } from '../file-error.ts';
import { LISTED_BYTES, readListOfNumbers } from '../kernel-file.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';

/**
 * beside-a-kubelet H11: the subtree may belong to a tenant, who may create anything in it: names of any bytes, ten
 * thousand children, a depth that no path can name. Paths in this file are bytes, as latin1 strings.
 */
/**
 * The maximum in one look: about 7 ms. An ordinary pod has a dozen, and the process in question is mostly in the first.
 */
const LOOK_CGROUPS = 500;
/** The kernel takes paths of up to 4,095 bytes, and a file's name still follows. */
const MAX_PATH = 3_900;
/** Directories held open to reach what no path can name: each brings at least 14 levels more, with short names 1,800. */
const MAX_BASES = 256;
/** After this many names the walk may pause. */
const NAMES = 500;
/** A directory's own links on a kernel file system: its name, `.`, and `..` of each directory in it. */
const LINKS_OF_A_LEAF = 2;
const BUFFERED_NAMES = 256;

/**
 * Calls `use` with a path, below the descriptor of the cgroup's directory, that refers to this very cgroup while the call
 * runs, whatever gets its name (beside-a-kubelet H2). Unknown `absent` if the cgroup is gone or another one has its path.
 */
export function inCgroup<T>(mounts: CgroupMounts, ref: CgroupRef, use: (directory: string) => Reading<T>): Reading<T> {
  const held = holdDirectory(mounts, ref);
  if (!held.known) return held;
  const { directory, close } = held.value;
  try {
    const result = use(directory);
    if (result.known) return result;
    return { ...result, where: result.where.replace(/^\/proc\/self\/fd\/\d+/, directoryOf(mounts, ref.path)) };
  } catch (cause) {
    return fileUnknown(directoryOf(mounts, ref.path), cause);
  } finally {
    close();
  }
}

/** The same for longer than one call. */
export function holdDirectory(
  mounts: CgroupMounts,
  ref: CgroupRef,
): Reading<{ readonly directory: string; readonly close: () => void }> {
  const path = directoryOf(mounts, ref.path);
  try {
    const fd = openDirectory(path);
    const close = (): void => closeSync(fd);
    if (fstatSync(fd).ino === ref.inode) return known({ directory: `/proc/self/fd/${fd}`, close });
    close();
    return unknown('absent', path, 'another cgroup has this path now');
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

export const openDirectory = (path: string | Buffer): number =>
  openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);

/** The directory that holds the memory controller's files of a cgroup, or the unified one. */
export function directoryOf(mounts: CgroupMounts, path: string): string {
  return path === '/' ? mounts.memory : mounts.memory + path;
}

/** Whether it has no children. Does not read its contents. */
export function isLeaf(directory: string): boolean {
  try {
    return statSync(directory).nlink === LINKS_OF_A_LEAF;
  } catch {
    return false; // A caller that continues gets the reason.
  }
}

/** A cgroup at or below the one that is walked. */
type Below = {
  /** 0 is the top. */
  readonly depth: number;
  /** Relative to the top, in bytes; null: it is too deep for a path. */
  readonly path: string | null;
  /** The path of one of its files; valid until the walk continues. */
  readonly file: (name: string) => Buffer;
};
/** Null: nothing new, but a good moment to pause. Known true: the walk is complete; false: a part was not reached. */
type CgroupWalk = Generator<Below | null, Reading<boolean>, void>;

/** The directory itself, then its children, level by level: deeply nested cgroups come last. */
export function* walkCgroups(directory: string): CgroupWalk {
  const walked = yield* walkLevels({ at: directory, top: '', depth: 0, bases: 0, isVisited: false });
  return walked;
}

type Base = {
  readonly at: string;
  /** Its path relative to the top of all. */
  readonly top: string | null;
  readonly depth: number;
  readonly bases: number;
  readonly isVisited: boolean;
};

function* walkLevels(base: Base): CgroupWalk {
  const found: { readonly rel: string; readonly depth: number }[] = [{ rel: '', depth: base.depth }];
  const tooLong: { readonly rel: string; readonly depth: number }[] = [];
  let isWhole = true;
  if (!base.isVisited) yield belowOf(base, '', base.depth);
  // Grows during the walk. A level is visited before anything below it is listed: cgroups with processes come first.
  for (const { rel, depth } of found) {
    const here = base.at + rel;
    try {
      if (statSync(bytesOf(here)).nlink === LINKS_OF_A_LEAF) continue;
      for (const name of namesOf(here)) {
        if (name === null) yield null;
        else if (here.length + name.length < MAX_PATH) {
          const child = { rel: `${rel}/${name}`, depth: depth + 1 };
          yield belowOf(base, child.rel, child.depth);
          found.push(child);
        } else if (tooLong.at(-1)?.rel !== rel) tooLong.push({ rel, depth });
      }
    } catch (cause) {
      const why = fileUnknown(here, cause);
      // A cgroup that vanished has no processes.
      if (depth === 0) return why;
      isWhole &&= why.why === 'absent';
    }
  }
  for (const { rel, depth } of tooLong) {
    const below = yield* walkBelow({ ...base, bases: base.bases + 1, isVisited: true, depth }, rel);
    isWhole &&= below.known && below.value;
  }
  return known(isWhole);
}

function belowOf(base: Base, rel: string, depth: number): Below {
  const path = base.top === null ? null : base.top + rel;
  return {
    depth,
    path: path !== null && path.length < MAX_PATH ? path : null,
    file: (name) => bytesOf(`${base.at}${rel}/${name}`),
  };
}

/** For children too deep for a path from the base: continues from a descriptor of their parent. */
function* walkBelow(base: Base, rel: string): CgroupWalk {
  if (base.bases > MAX_BASES) return known(false);
  let fd: number;
  try {
    fd = openDirectory(bytesOf(base.at + rel));
  } catch (cause) {
    return known(codeOf(cause) === 'ENOENT');
  }
  try {
    return yield* walkLevels({ ...base, at: `/proc/self/fd/${fd}`, top: null });
  } finally {
    closeSync(fd);
  }
}

export const bytesOf = (path: string): Buffer => Buffer.from(path, 'latin1');

/** Names of directories only, never of links; null now and then: a good moment to pause. */
function* namesOf(path: string): Generator<string | null, void, void> {
  const directory = opendirSync(bytesOf(path), { encoding: 'latin1', bufferSize: BUFFERED_NAMES });
  let count = 0;
  try {
    for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
      if (entry.isDirectory()) yield entry.name;
      if (++count % NAMES === 0) yield null;
    }
  } finally {
    directory.closeSync();
  }
}

/** The directories in a directory, never links; at most `max`. */
export function childrenOf(
  path: string,
  max: number,
): Reading<{ readonly names: readonly string[]; readonly isWhole: boolean }> {
  const names: string[] = [];
  try {
    for (const name of namesOf(Buffer.from(path).toString('latin1'))) {
      if (name === null) continue;
      if (names.length >= max) return known({ names, isWhole: false });
      names.push(bytesOf(name).toString());
    }
    return known({ names, isWhole: true });
  } catch (cause) {
    return codeOf(cause) === null ? unknown('unreadable', path, String(cause)) : fileUnknown(path, cause);
  }
}

/** The processes listed in one cgroup, freshly opened; 0 = one that our pid namespace does not show. */
export type Listed = {
  readonly pids: readonly number[];
  /** Lists them again. */
  readonly again: () => Reading<readonly number[]>;
  readonly path: string | null;
};
/** The processes that a cgroup lists itself; its path is bytes. */
export const listIn = (directory: string, path: string): Reading<readonly number[]> =>
  readListOfNumbers(bytesOf(`${directory}${path}/cgroup.procs`), LISTED_BYTES);

/** Null: no process, but a good moment to pause. */
export type ProcessWalk = Generator<Listed | null, Reading<boolean>, void>;

export function* walkProcesses(directory: string): ProcessWalk {
  const cgroups = walkCgroups(directory);
  let isWhole = true;
  try {
    for (let next = cgroups.next(); ; next = cgroups.next()) {
      if (next.done === true) {
        const whole = next.value;
        return whole.known ? known(whole.value && isWhole) : whole;
      }
      const below = next.value;
      if (below === null) {
        yield null;
        continue;
      }
      const list = (): Reading<readonly number[]> => readListOfNumbers(below.file('cgroup.procs'), LISTED_BYTES);
      const listed = list();
      if (listed.known) yield listed.value.length === 0 ? null : { pids: listed.value, again: list, path: below.path };
      // A descendant that vanished has no processes. A threaded one answers EOPNOTSUPP: its processes are listed at the
      // root of its domain, which is above it.
      else if (below.depth === 0) return listed;
      else if (listed.why !== 'absent' && !isUnsupported(listed)) isWhole = false;
    }
  } finally {
    cgroups.return(known(false));
  }
}

export type Seen = {
  /** Without duplicates. */
  readonly pids: ReadonlySet<number>;
  readonly isWhole: boolean;
};

/** Within the cost limit of one look. Ends early when `isEnough` says so. */
export function lookAtProcesses(directory: string, isEnough: (pids: ReadonlySet<number>) => boolean): Reading<Seen> {
  const pids = new Set<number>();
  let steps = 0;
  const walk = walkProcesses(directory);
  try {
    for (let next = walk.next(); ; next = walk.next()) {
      if (next.done === true) {
        return next.value.known ? known({ pids, isWhole: next.value.value }) : next.value;
      }
      if (next.value !== null) {
        for (const pid of next.value.pids) pids.add(pid);
        if (isEnough(pids)) return known({ pids, isWhole: false });
      }
      if (++steps >= LOOK_CGROUPS) return known({ pids, isWhole: false });
    }
  } finally {
    walk.return(known(false));
  }
}
