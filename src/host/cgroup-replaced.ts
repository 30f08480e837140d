import { cgroupInode } from './cgroup-inode.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf } from './cgroup-walk.ts';

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
