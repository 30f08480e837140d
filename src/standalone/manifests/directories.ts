const MAX_PATH = 4096;
/** The limit of one walk (host/disk/disk-walk.ts). */
export const MAX_DIRECTORIES = 64;

/** Absolute paths separated by commas, without redundant slashes. `mistake`: the first wrong one. */
export function readDirectories(value: string | undefined): {
  readonly paths: readonly string[];
  readonly mistake: string | null;
} {
  if (value === undefined) return { paths: [], mistake: null };
  const written = value.split(',').map((path) => path.trim());
  const mistake = written.map(directoryMistake).find((found) => found !== null) ?? null;
  return { paths: written.map((path) => `/${namesOf(path).join('/')}`), mistake };
}

function directoryMistake(path: string): string | null {
  if (!path.startsWith('/')) return `must be absolute paths, separated by commas, not ${JSON.stringify(path)}`;
  if (path.split('/').includes('..')) return `must not contain ..: ${JSON.stringify(path)}`;
  if (path.includes('\0') || path.length > MAX_PATH) return 'not a path';
  return namesOf(path).length === 0 ? 'the whole file system cannot be the directory of one pod' : null;
}

/** Directories of the system: nothing below them is emptied. */
const OF_THE_SYSTEM = [
  'bin',
  'boot',
  'dev',
  'etc',
  'lib',
  'lib32',
  'lib64',
  'libx32',
  'proc',
  'root',
  'sbin',
  'sys',
  'usr',
];
/** Directories whose subdirectories hold the data of many users, or all data of one. */
const SHARED = ['home', 'run', 'var'];

/** Why a directory must never be emptied, judged by its name alone; null = it may belong to one pod. */
export function scratchMistake(path: string): string | null {
  const [first = '', ...others] = namesOf(path);
  const isSystem = OF_THE_SYSTEM.includes(first);
  if (!isSystem && others.length >= (SHARED.includes(first) ? 2 : 1)) return null;
  const why = isSystem ? `/${first} belongs to the system` : `${path} may hold more than the data of this pod`;
  return `${why}: name a directory that may be emptied at any time, such as /srv/web/tmp`;
}

/** Equal, or one contains the other. */
export function overlap(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b}/`) || b.startsWith(`${a}/`);
}

const namesOf = (path: string): readonly string[] => path.split('/').filter((name) => name !== '' && name !== '.');
