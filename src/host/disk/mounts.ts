import type { Stats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { known, type Reading } from '../../core/reading.ts';
import { STICKY, WRITABLE_BY_OTHERS } from '../files.ts';
import { readKernelFile } from '../kernel-file.ts';

export type Mount = {
  /** Byte for byte (latin1). */
  readonly at: string;
  readonly type: string;
  /** Major and minor number: mounts of the same file system have the same. */
  readonly device: string;
  /** The mounted part of the file system: `/` for the whole. */
  readonly top: string;
  /** The options of the file system itself, not of this mount. */
  readonly options: string;
};

/** Some 200 bytes per mount; some hosts have tens of thousands of mounts (one per volume). */
const MOUNTS_BYTES = 16 * 1024 * 1024;

/** The mounts that this process sees; other mount namespaces have others. */
export function readMounts(path = '/proc/self/mountinfo'): Reading<readonly Mount[]> {
  const text = readKernelFile(path, MOUNTS_BYTES);
  if (!text.known) return text;
  const mounts = text.value
    .toString('latin1')
    .split('\n')
    .flatMap((line) => {
      const [before = '', after = ''] = line.split(' - ', 2);
      const [, , device = '', top = '', at = ''] = before.split(' ');
      const [type = '', , options = ''] = after.split(' ');
      return type === '' ? [] : [{ at: unescaped(at), type, device, top, options }];
    });
  return known(mounts);
}

/** Major and minor number, as glibc decodes st_dev. */
export function deviceName(device: number): string {
  const bits = BigInt(device);
  const [major, minor] = [
    ((bits >> 8n) & 0xfffn) | ((bits >> 32n) & ~0xfffn),
    (bits & 0xffn) | ((bits >> 12n) & 0xffffff00n),
  ];
  return `${major}:${minor}`;
}

/** ext4 has its own words for what an error has made of it. */
const READ_ONLY = ['ro', 'emergency_ro', 'shutdown'];
/**
 * Nobody can remove anything on the file system. Judged by its own options: a mount of it that is read-only, as systemd makes
 * for a service, says nothing of the others. By device: a name may be a link, and to follow it may hang.
 */
export function isReadOnly(device: number, where?: string): boolean {
  const mounts = readMounts(where);
  const name = deviceName(device);
  const isSo = ({ options }: Mount): boolean => options.split(',').some((option) => READ_ONLY.includes(option));
  return mounts.known && mounts.value.some((mount) => mount.device === name && isSo(mount));
}

/** The mount point of the file system that contains the path, judged by names. */
export function mountPointOf(path: string, mounts: readonly Mount[]): string {
  const bytes = Buffer.from(path).toString('latin1');
  const holds = (at: string): boolean => at === '/' || bytes === at || bytes.startsWith(`${at}/`);
  const deepest = mounts.reduce((best, { at }) => (holds(at) && at.length >= best.length ? at : best), '/');
  return Buffer.from(deepest, 'latin1').toString();
}

/** The first mount at the path or below it; null: there is none. */
function mountedBelow(path: string, mounts: readonly Mount[]): string | null {
  const bytes = Buffer.from(path).toString('latin1');
  const found = mounts.find(({ at }) => at === bytes || at.startsWith(`${bytes}/`));
  return found === undefined ? null : Buffer.from(found.at, 'latin1').toString();
}

const unescaped = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

/**
 * Why a directory would not be emptied as it is now, judged by its names, by their owners and by what is mounted; null:
 * nothing stands in the way, or it does not exist. Only to warn people beforehand: when it empties, host/disk/empty-directory.ts
 * checks what it opened.
 */
export async function unsafePlace(path: string): Promise<string | null> {
  const mounts = readMounts();
  const mounted = mounts.known ? mountedBelow(path, mounts.value) : null;
  if (mounted !== null)
    return mounted === path ? 'a file system is mounted at it' : `a file system is mounted at ${mounted}`;
  let above = { at: '/', stats: await lstat('/') };
  let at = '';
  for (const name of path.split('/').slice(1)) {
    at += `/${name}`;
    const stats = await lstat(at).catch(() => null);
    const it = at === path ? 'it' : at;
    if (stats?.isSymbolicLink()) return `${it} is a symbolic link`;
    if (stats?.isDirectory() === false) return `${it} is no directory`;
    const unsafe = unsafeStep(above.stats, stats, { above: above.at, next: at });
    if (unsafe !== null || stats === null) return unsafe;
    above = { at, stats };
  }
  return null;
}

const ROOT = 0;

type Owned = Pick<Stats, 'uid' | 'mode'>;

/**
 * Why whoever may write to a directory could put another user's directory at a name in it, which root would then take for
 * the one that was meant: a user who may neither read nor remove a file must not have root remove it. Null: nobody but root
 * and the owner of both could. `next` null: nothing has the name yet. The program that removes applies the same rule to what
 * it has opened (host/disk/empty-directory-program.ts).
 */
function unsafeStep(above: Owned, next: Owned | null, names: { above: string; next: string }): string | null {
  const { above: directory, next: name } = names;
  if ((above.mode & WRITABLE_BY_OTHERS) !== 0 && (above.mode & STICKY) === 0) {
    return `${directory} can be written by its group or by others and has no sticky bit, so that they could put another directory in the place of ${name} (chmod go-w ${directory}, or chmod +t ${directory})`;
  }
  if (next === null || above.uid === ROOT || above.uid === next.uid) return null;
  return `${directory} belongs to user ${above.uid}, but ${name} to user ${next.uid}, so that the former could put another directory in its place (chown root ${directory})`;
}
