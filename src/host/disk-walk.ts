import { constants, type Dir, lstat, type Stats } from 'node:fs';
import { type FileHandle, open, opendir } from 'node:fs/promises';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** `isComplete` false: the walk was cut short, and the figures mean "at least". */
export type WalkedDisk = { readonly bytes: number; readonly inodes: number; readonly isComplete: boolean };

/** beside-a-kubelet.md H3: a slice, then a rest, so that a walk takes at most a quarter of one core. */
const SLICE_ENTRIES = 2_000;
const SLICE_MS = 5;
const REST_MS = 15;
const DEADLINE_MS = 60_000;
/** Each level holds two descriptors. */
const MAX_DEPTH = 256;
/** Files with several names that are remembered; further ones are left out, and the figures mean "at least". */
const MAX_LINKED = 100_000;
const MAX_PATHS = 64;
const READ_AHEAD = 64;

type Walk = {
  readonly clock: Clock;
  readonly soFar: (least: WalkedDisk) => void;
  readonly endsMs: number;
  readonly roots: ReadonlySet<string>;
  readonly linked: Set<string>;
  bytes: number;
  inodes: number;
  isComplete: boolean;
  sliceEntries: number;
  sliceStartMs: number;
};

/**
 * What the directories hold together: st_blocks and inodes, a file with several names once. Never follows a symbolic
 * link, never leaves the file system of each directory, opens no file. A directory that does not exist holds nothing;
 * one that cannot be opened makes the whole sum unknown. Ends by itself after a minute with `isComplete` false. A call
 * that hangs in the kernel cannot be ended: then the promise stays open until it returns, and who asked keeps the
 * deadline (observe/pod-disk.ts). `soFar` hears after each slice what was counted: at least that much is there.
 */
export async function walkDirectories(
  paths: readonly string[],
  clock: Clock,
  soFar: (least: WalkedDisk) => void = () => undefined,
): Promise<Reading<WalkedDisk>> {
  const opened: { readonly handle: FileHandle; readonly stats: Stats }[] = [];
  try {
    for (const path of paths.slice(0, MAX_PATHS)) {
      const root = await openRoot(path);
      if (!root.known) return root;
      if (root.value !== null) opened.push(root.value);
    }
    const roots = new Set(opened.map(({ stats }) => identity(stats)));
    const startMs = clock.monoMs();
    const counts = { bytes: 0, inodes: 0, isComplete: paths.length <= MAX_PATHS };
    const slice = { sliceEntries: 0, sliceStartMs: startMs };
    const walk: Walk = { clock, soFar, endsMs: startMs + DEADLINE_MS, roots, linked: new Set(), ...counts, ...slice };
    const seen = new Set<string>();
    for (const { handle, stats } of opened) {
      if (seen.has(identity(stats))) continue;
      seen.add(identity(stats));
      count(walk, stats);
      await walkDirectory(walk, handle, stats.dev, 1);
    }
    return known({ bytes: walk.bytes, inodes: walk.inodes, isComplete: walk.isComplete });
  } finally {
    for (const { handle } of opened) await handle.close();
  }
}

/** null: it does not exist. */
async function openRoot(path: string): Promise<Reading<{ handle: FileHandle; stats: Stats } | null>> {
  try {
    const handle = await openDirectory(path);
    return known({ handle, stats: await handle.stat() });
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return known(null);
    const isLink = codeOf(cause) === 'ENOTDIR' || codeOf(cause) === 'ELOOP';
    const detail = isLink
      ? 'not a directory, or a symbolic link'
      : cause instanceof Error
        ? cause.message
        : 'no answer';
    return unknown('unreadable', path, detail);
  }
}

/** `handle` is walked by its descriptor: a directory renamed or replaced meanwhile is still the one that was opened. */
async function walkDirectory(walk: Walk, handle: FileHandle, device: number, depth: number): Promise<void> {
  const here = `/proc/self/fd/${handle.fd}`;
  let directory: Dir | null = null;
  try {
    // latin1 keeps names byte for byte, whatever they are encoded in.
    directory = await opendir(here, { encoding: 'latin1', bufferSize: READ_AHEAD });
    for (let entry = await directory.read(); entry !== null; entry = await directory.read()) {
      if (await isOutOfTime(walk)) return;
      const path = Buffer.from(`${here}/${entry.name}`, 'latin1');
      const stats = await statsOf(path);
      if (!stats.known) {
        if (stats.why !== 'absent') walk.isComplete = false;
        continue;
      }
      // Another file system is mounted there. Seen without opening it: that could hang, or start an automount.
      if (stats.value.dev !== device) continue;
      if (stats.value.isDirectory()) await descend(walk, path, stats.value, depth);
      else count(walk, stats.value);
    }
  } catch (cause) {
    if (!isGone(cause)) walk.isComplete = false;
  } finally {
    await directory?.close();
  }
}

async function descend(walk: Walk, path: Buffer, stats: Stats, depth: number): Promise<void> {
  // One of the other directories asked for lies in here: it is counted by itself.
  if (walk.roots.has(identity(stats))) return;
  count(walk, stats);
  if (depth >= MAX_DEPTH) {
    walk.isComplete = false;
    return;
  }
  let handle: FileHandle | null = null;
  try {
    handle = await openDirectory(path);
    const opened = await handle.stat();
    if (identity(opened) === identity(stats)) await walkDirectory(walk, handle, stats.dev, depth + 1);
  } catch (cause) {
    // Removed or replaced since it was listed is no gap; a directory that may not be read is one.
    if (!isGone(cause)) walk.isComplete = false;
  } finally {
    await handle?.close();
  }
}

function count(walk: Walk, stats: Stats): void {
  if (stats.nlink > 1 && !stats.isDirectory()) {
    if (walk.linked.has(identity(stats))) return;
    if (walk.linked.size >= MAX_LINKED) {
      walk.isComplete = false;
      return;
    }
    walk.linked.add(identity(stats));
  }
  walk.bytes += stats.blocks * 512;
  walk.inodes += 1;
}

async function isOutOfTime(walk: Walk): Promise<boolean> {
  const nowMs = walk.clock.monoMs();
  if (nowMs > walk.endsMs) {
    walk.isComplete = false;
    return true;
  }
  walk.sliceEntries += 1;
  if (walk.sliceEntries >= SLICE_ENTRIES || nowMs - walk.sliceStartMs >= SLICE_MS) {
    walk.soFar({ bytes: walk.bytes, inodes: walk.inodes, isComplete: false });
    await new Promise<void>((resolve) => void walk.clock.after(REST_MS, resolve));
    walk.sliceEntries = 0;
    walk.sliceStartMs = walk.clock.monoMs();
  }
  return false;
}

const openDirectory = (path: string | Buffer): Promise<FileHandle> =>
  open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);

/** With a callback: a promise of node:fs costs five times as much, and this runs once per file. */
function statsOf(path: Buffer): Promise<Reading<Stats>> {
  return new Promise((resolve) => {
    lstat(path, (error, stats) => {
      if (error === null) resolve(known(stats));
      else resolve(unknown(error.code === 'ENOENT' ? 'absent' : 'unreadable', 'lstat', error.message));
    });
  });
}

const isGone = (cause: unknown): boolean => ['ENOENT', 'ENOTDIR', 'ELOOP'].includes(codeOf(cause));
const identity = (stats: Stats): string => `${stats.dev}:${stats.ino}`;

function codeOf(cause: unknown): string {
  return cause instanceof Error && 'code' in cause ? String(cause.code) : '';
}
