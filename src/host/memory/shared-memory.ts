import { constants } from 'node:fs';
import { type FileHandle, lstat, open, opendir, statfs } from 'node:fs/promises';
import { known, type Reading, type Unknown } from '../../core/reading.ts';
import { type Mount, readMounts } from '../disk/mounts.ts';
import { fileUnknown } from '../file-error.ts';
import { readKernelFile } from '../kernel-file.ts';

/** Memory that exists without a process. */
export type SharedMemory = {
  /** Mounts of type tmpfs, the fullest first. */
  readonly mounts: readonly {
    readonly path: string;
    readonly usedBytes: number;
    /** The files that were seen, the largest first. */
    readonly files: readonly { readonly path: string; readonly bytes: number; readonly uid: number }[];
  }[];
  /** Why a file system or the segments could not be measured, for the first that could not; null: all could. */
  readonly unread: Unknown | null;
  /** SysV segments that no process has attached, the largest first. */
  readonly segments: readonly { readonly id: number; readonly bytes: number; readonly uid: number }[];
};

const MAX_MOUNTS = 256;
const MOUNTS_TOLD = 3;
const FILES_TOLD = 3;
const SEGMENTS_TOLD = 3;
/** The limits for all mounts together: entries, and depth. */
const MAX_ENTRIES = 5_000;
const MAX_DEPTH = 8;
const MAX_PATH = 256;
const SEGMENTS_BYTES = 2 * 1024 * 1024;
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;

/**
 * What uses at least `leastBytes`. It runs in this process, because it is needed when memory is scarce, and a child would take
 * 45 MiB. A tmpfs does not hang; each call runs off the event loop, by descriptors, and no link is followed.
 */
export async function readSharedMemory(leastBytes: number, proc = '/proc'): Promise<Reading<SharedMemory>> {
  const mounted = readMounts(`${proc}/self/mountinfo`);
  if (!mounted.known) return mounted;
  const used = await Promise.all(tmpfsOf(mounted.value).map(usedOf));
  const unread = used.find((one): one is Unknown => 'why' in one) ?? null;
  const fullest = used
    .flatMap((one) => ('why' in one ? [] : [one]))
    .filter(({ usedBytes }) => usedBytes >= leastBytes)
    .toSorted((a, b) => b.usedBytes - a.usedBytes)
    .slice(0, MOUNTS_TOLD);
  const budget = { entries: MAX_ENTRIES };
  const mounts: SharedMemory['mounts'][number][] = [];
  for (const mount of fullest) mounts.push({ ...mount, files: await largestIn(mount.path, budget) });
  const segments = readKernelFile(`${proc}/sysvipc/shm`, SEGMENTS_BYTES);
  return known({
    mounts,
    segments: segments.known ? segmentsOf(segments.value, leastBytes) : [],
    // A kernel without SysV IPC has no such file.
    unread: unread ?? (segments.known || segments.why === 'absent' ? null : segments),
  });
}

/** Each file system once, and only if nothing else is mounted over it, because that may hang. */
function tmpfsOf(mounts: readonly Mount[]): readonly string[] {
  const onTop = new Map(mounts.map(({ at, device }) => [at, device]));
  const byDevice = new Map<string, string>();
  for (const { at, type, device } of mounts) {
    if (type === 'tmpfs' && onTop.get(at) === device && !byDevice.has(device))
      byDevice.set(device, Buffer.from(at, 'latin1').toString());
  }
  return [...byDevice.values()].slice(0, MAX_MOUNTS);
}

async function usedOf(path: string): Promise<{ readonly path: string; readonly usedBytes: number } | Unknown> {
  try {
    const { blocks, bfree, bsize } = await statfs(path);
    return { path, usedBytes: (blocks - bfree) * bsize };
  } catch (cause) {
    const why = fileUnknown(path, cause);
    // Unmounted meanwhile.
    return why.why === 'absent' ? { path, usedBytes: 0 } : why;
  }
}

type File = SharedMemory['mounts'][number]['files'][number];

async function largestIn(path: string, budget: { entries: number }): Promise<readonly File[]> {
  let largest: readonly File[] = [];
  const goInto = async (handle: FileHandle, device: number, shown: string, depth: number): Promise<void> => {
    const here = `/proc/self/fd/${handle.fd}`;
    for await (const { name } of await opendir(here, { encoding: 'latin1' as BufferEncoding })) {
      budget.entries -= 1;
      if (budget.entries < 0) return;
      const entry = Buffer.concat([Buffer.from(`${here}/`), Buffer.from(name, 'latin1')]);
      const stats = await lstat(entry).catch(() => null);
      if (stats === null || stats.dev !== device) continue;
      const inner = `${shown}/${Buffer.from(name, 'latin1').toString()}`.slice(0, MAX_PATH);
      if (!stats.isDirectory()) {
        const file = { path: inner, bytes: stats.blocks * 512, uid: stats.uid };
        largest = [...largest, file].toSorted((a, b) => b.bytes - a.bytes).slice(0, FILES_TOLD);
      } else if (depth < MAX_DEPTH) await within(entry, device, (found) => goInto(found, device, inner, depth + 1));
    }
  };
  await within(path, null, async (handle, device) => goInto(handle, device, path === '/' ? '' : path, 0));
  return largest.filter(({ bytes }) => bytes > 0);
}

/** Nothing if it is gone or on another file system. */
async function within(
  path: string | Buffer,
  device: number | null,
  use: (handle: FileHandle, device: number) => Promise<void>,
): Promise<void> {
  const handle = await open(path, DIRECTORY).catch(() => null);
  if (handle === null) return;
  try {
    const { dev } = await handle.stat();
    if (device === null || dev === device) await use(handle, dev);
  } catch {
    // It was removed while it was read: what was seen counts.
  } finally {
    await handle.close();
  }
}

/** Finds columns by name, because older kernels have no rss and swap. */
function segmentsOf(text: Buffer, leastBytes: number): SharedMemory['segments'] {
  const [head = '', ...lines] = text.toString('latin1').trimEnd().split('\n');
  const names = head.trim().split(/\s+/);
  return lines
    .map((line) => {
      const values = line.trim().split(/\s+/).map(Number);
      const of = (name: string): number => values[names.indexOf(name)] ?? 0;
      return { id: of('shmid'), bytes: of('rss') + of('swap'), uid: of('uid'), attached: of('nattch') };
    })
    .filter(({ bytes, attached }) => attached === 0 && bytes >= leastBytes)
    .toSorted((a, b) => b.bytes - a.bytes)
    .slice(0, SEGMENTS_TOLD)
    .map(({ id, bytes, uid }) => ({ id, bytes, uid }));
}
