import { lstat } from 'node:fs/promises';
import { mountedBelow, readMounts } from './mounts.ts';

/**
 * Why a directory would not be emptied as it is now, by its names and by what is mounted; null: nothing is in the way, or
 * it is not there. For people, beforehand: in the moment of emptying host/empty-directory.ts looks at what it has opened.
 */
export async function unsafePlace(path: string): Promise<string | null> {
  const mounts = readMounts();
  const mounted = mounts.known ? mountedBelow(path, mounts.value) : null;
  if (mounted !== null)
    return mounted === path ? 'a file system is mounted at it' : `a file system is mounted at ${mounted}`;
  let at = '';
  for (const name of path.split('/').slice(1)) {
    at += `/${name}`;
    const stats = await lstat(at).catch(() => null);
    if (stats === null) return null;
    const it = at === path ? 'it' : at;
    if (stats.isSymbolicLink()) return `${it} is a symbolic link`;
    if (!stats.isDirectory()) return `${it} is no directory`;
  }
  return null;
}
