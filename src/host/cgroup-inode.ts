import { lstatSync } from 'node:fs';

/**
 * Which cgroup a directory is now: its inode, 0 where there is none, null if that is not known. On the decision
 * path, for every bound pod: some 3 µs each.
 */
export function cgroupInode(directory: string): number | null {
  try {
    const facts = lstatSync(directory, NO_THROW);
    if (facts === undefined) return 0;
    return facts.isDirectory() ? facts.ino : null;
  } catch {
    // To report the obstacle, callers read it again with refOf.
    return null;
  }
}

const NO_THROW = { throwIfNoEntry: false } as const;
