import { lstat, realpath } from 'node:fs/promises';

/** Which directory it is, whatever its name. */
export type DirectoryIdentity = { readonly device: number; readonly inode: number };

/** Null: there is no directory at the path, or it cannot be known. */
export async function directoryIdentity(path: string): Promise<DirectoryIdentity | null> {
  const stats = await lstat(path).catch(() => null);
  return stats?.isDirectory() ? { device: stats.dev, inode: stats.ino } : null;
}

/** Where a symbolic link leads in the end, the path itself if that is not known; null: there is no link at the path. */
export async function linkTarget(path: string): Promise<string | null> {
  const stats = await lstat(path).catch(() => null);
  return stats?.isSymbolicLink() ? realpath(path).catch(() => path) : null;
}
