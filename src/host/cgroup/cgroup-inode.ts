import { lstatSync } from 'node:fs';
import { known, type Reading, unknown } from '../../core/reading.ts';
import { fileUnknown } from '../file-error.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf } from './cgroup-walk.ts';

/**
 * The inode that identifies a directory's present cgroup; 0 if there is none, null if unknown. On the decision path, for
 * every bound pod: some 3 µs each.
 */
export function cgroupInode(directory: string): number | null {
  const facts = cgroupFacts(directory);
  if (facts.known) return facts.value.inode;
  // To report the obstacle, callers read it again with refOf.
  return facts === NONE ? 0 : null;
}

/** `children`: how many cgroups are directly below it. Unknown `absent`: there is no such cgroup. */
export function cgroupFacts(directory: string): Reading<{ readonly inode: number; readonly children: number }> {
  try {
    const facts = lstatSync(directory, NO_THROW);
    if (facts === undefined) return NONE;
    if (!facts.isDirectory()) return unknown('unreadable', directory, 'not a directory');
    return known({ inode: facts.ino, children: facts.nlink - OWN_LINKS });
  } catch (cause) {
    return fileUnknown(directory, cause);
  }
}

const NO_THROW = { throwIfNoEntry: false } as const;
const NONE = unknown('absent', 'cgroup', 'there is no such directory');
/** A directory's own links on a kernel file system: its name and `.`. */
const OWN_LINKS = 2;

/**
 * To call before the open files of the cgroup at `path` are read: closes them if its directory was renamed or replaced. An
 * open file goes along with its directory, and what is measured would no longer be what is found at the path. Version 2
 * renames no cgroup, and the files of a removed one cannot be read.
 */
export function closedIfReplaced(
  { mounts, path, directory = directoryOf(mounts, path) }: Where,
  close: () => void,
): () => void {
  if (mounts.version === 2 || path === '/') return () => undefined;
  let seen = cgroupInode(directory);
  return () => {
    const inode = cgroupInode(directory);
    if (inode !== seen) close();
    seen = inode;
  };
}
/** `directory`: where its files are; absent: those of the memory controller. */
type Where = { readonly mounts: CgroupMounts; readonly path: string; readonly directory?: string };
