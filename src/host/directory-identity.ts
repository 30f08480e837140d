import { lstat } from 'node:fs/promises';

/** Which directory it is, whatever its name. */
export type DirectoryIdentity = { readonly device: number; readonly inode: number };

/** Null: there is no directory at the path, or it cannot be known. */
export async function directoryIdentity(path: string): Promise<DirectoryIdentity | null> {
  const stats = await lstat(path).catch(() => null);
  return stats?.isDirectory() ? { device: stats.dev, inode: stats.ino } : null;
}
