import { closeSync, constants, fstatSync, opendirSync, openSync } from 'node:fs';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { CgroupRef } from '../ports.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { codeOf, fileUnknown, isUnsupported } from './file-error.ts';
import { readKernelFile } from './kernel-file.ts';

/**
 * beside-a-kubelet H11: the subtree may belong to a tenant, who makes what he likes of it. What lies beyond the bounds
 * is not seen, and `isWhole` says so.
 */
const MAX_CGROUPS = 10_000;
const MAX_DEPTH = 64;
const MAX_PIDS = 100_000;
/** A pid and a line end. */
const PIDS_BYTES = MAX_PIDS * 8;

/**
 * Calls `use` with a path that means this very cgroup as long as the call runs, whatever is put under its name: below
 * the descriptor of its directory (beside-a-kubelet H2). Unknown `absent` when the cgroup is gone or another one has
 * its path.
 */
export function inCgroup<T>(mounts: CgroupMounts, ref: CgroupRef, use: (directory: string) => Reading<T>): Reading<T> {
  const path = directoryOf(mounts, ref.path);
  const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = constants;
  try {
    const fd = openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      if (fstatSync(fd).ino !== ref.inode) return unknown('absent', path, 'another cgroup has this path now');
      const result = use(`/proc/self/fd/${fd}`);
      return result.known ? result : { ...result, where: result.where.replace(/^\/proc\/self\/fd\/\d+/, path) };
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

/** The directory that holds the memory controller's files of a cgroup, or the unified one. */
export function directoryOf(mounts: CgroupMounts, path: string): string {
  return path === '/' ? mounts.memory : mounts.memory + path;
}

export type Walk = {
  /** Without duplicates. 0 = a process that our pid namespace does not show. */
  readonly pids: ReadonlySet<number>;
  readonly isWhole: boolean;
  /** The cgroup looked at last, relative to the directory: '' or '/a/b'. */
  readonly endedAt: string;
};

/** The processes below a directory, each list freshly opened. Ends early when `isEnough` says so. */
export function walkProcesses(directory: string, isEnough: (pids: ReadonlySet<number>) => boolean): Reading<Walk> {
  const pids = new Set<number>();
  let isWhole = true;
  let endedAt = '';
  const walked = walkCgroups(directory, (path, depth) => {
    endedAt = path.slice(directory.length);
    const listed = addProcesses(pids, `${path}/cgroup.procs`);
    if (!listed.known) {
      // A descendant that vanished has no processes. A threaded one answers EOPNOTSUPP: its processes are listed at the
      // head of its domain, which is above it.
      return depth > 0 && (listed.why === 'absent' || isUnsupported(listed)) ? 'go-on' : listed;
    }
    isWhole &&= listed.value;
    return isEnough(pids) ? 'enough' : 'go-on';
  });
  if (!walked.known) return walked;
  return known({ pids, isWhole: isWhole && walked.value, endedAt });
}

/** Adds to `pids`; false = there are more than the bound. */
function addProcesses(pids: Set<number>, path: string): Reading<boolean> {
  const bytes = readKernelFile(path, PIDS_BYTES);
  if (!bytes.known) return bytes;
  const text = bytes.value.toString('latin1');
  if (text !== '' && !/^(?:\d{1,10}\n)+$/.test(text)) return unknown('malformed', path, 'not a list of processes');
  for (const line of text.split('\n')) {
    if (line === '') continue;
    if (pids.size >= MAX_PIDS) return known(false);
    pids.add(Number(line));
  }
  return known(true);
}

/** Iteratively, the directory itself first. False = a bound was reached. */
export function walkCgroups(
  directory: string,
  visit: (path: string, depth: number) => 'go-on' | 'enough' | Extract<Reading<never>, { known: false }>,
): Reading<boolean> {
  let count = 0;
  let isWhole = true;
  const open: { readonly path: string; readonly depth: number }[] = [{ path: directory, depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (++count > MAX_CGROUPS) return known(false);
    const seen = visit(next.path, next.depth);
    if (seen === 'enough') return known(isWhole);
    if (seen !== 'go-on') return seen;
    const children = childrenOf(next.path, MAX_CGROUPS - count - open.length);
    if (!children.known) {
      if (next.depth > 0 && children.why === 'absent') continue;
      return children;
    }
    isWhole &&= children.value.isWhole && (children.value.names.length === 0 || next.depth < MAX_DEPTH);
    if (next.depth >= MAX_DEPTH) continue;
    for (const name of children.value.names) open.push({ path: `${next.path}/${name}`, depth: next.depth + 1 });
  }
  return known(isWhole);
}

/** Of a directory: directories only, never links; at most `max`. */
export function childrenOf(
  path: string,
  max: number,
): Reading<{ readonly names: readonly string[]; readonly isWhole: boolean }> {
  try {
    const directory = opendirSync(path);
    try {
      const names: string[] = [];
      for (let entry = directory.readSync(); entry !== null; entry = directory.readSync()) {
        if (!entry.isDirectory()) continue;
        if (names.length >= max) return known({ names, isWhole: false });
        names.push(entry.name);
      }
      return known({ names, isWhole: true });
    } finally {
      directory.closeSync();
    }
  } catch (cause) {
    return codeOf(cause) === null ? unknown('unreadable', path, String(cause)) : fileUnknown(path, cause);
  }
}
