import type { Effective } from '../config/effective.ts';
import { limits } from '../core/eviction/thresholds-met.ts';
import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import {
  type FileSystemRole,
  fileSystemOf,
  isDisk,
  SIGNAL_FACTS,
  type Signal,
  type SignalSample,
} from '../core/signal.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { createDiskWalker, type DiskWalker } from '../host/disk/disk-walk.ts';
import { mountPointOf, readMounts } from '../host/disk/mounts.ts';
import { openFileSystem } from '../host/disk/statfs.ts';
import type { Clock } from '../ports.ts';
import type { DiskFacts, NearDisk } from './facts.ts';
import type { LoadedHere } from './loaded-here.ts';

/** The deadline for finding what fills a disk; a mount that reports nothing for `silentMs` hangs. */
const BOUNDS = { deadlineMs: 4_000, silentMs: 2_000 };
/** A disk is near its threshold below this multiple of it. */
const NEAR = 2;
export const isNear = (available: number, limit: number): boolean => available < limit * NEAR;
const ONLY_AGENT = unknown('absent', 'the disk of images', 'only the running agent asks the container runtime for it');
/** Directories are reported if they hold at least this share of what is used. */
const SHARE = 1 / 20;

/** The disk signals with thresholds, and for those near one, what fills the file system. */
export async function lookAtDisks(
  effective: Effective,
  hung: LoadedHere['hung'],
  clock: Clock,
): Promise<readonly DiskFacts[]> {
  const walker = createDiskWalker(clock, BOUNDS);
  const signals = [...new Set(effective.thresholds.map(({ signal }) => signal))].filter(isDisk);
  try {
    return await Promise.all(
      signals.flatMap((signal): readonly (DiskFacts | Promise<DiskFacts>)[] => {
        const path = pathOf(effective, fileSystemOf(signal));
        if (path !== null) return [diskFacts({ effective, clock, walker }, signal, { path, hangs: hung.get(path) })];
        return effective.mode === 'kubelet' ? [{ signal, path, near: ONLY_AGENT }] : [];
      }),
    );
  } finally {
    walker.close();
  }
}

type Needs = { readonly effective: Effective; readonly clock: Clock; readonly walker: DiskWalker };

async function diskFacts(
  { effective, clock, walker }: Needs,
  signal: Signal,
  { path, hangs }: { readonly path: string; readonly hangs: Unknown | undefined },
): Promise<DiskFacts> {
  if (hangs !== undefined) return { signal, path, near: hangs };
  const sampled = await openFileSystem(path, clock).sample();
  if (!sampled.known) return { signal, path, near: sampled };
  const { bytesAvailable, bytesCapacity, inodesFree, inodes, sampledAtMs } = sampled.value;
  const by = SIGNAL_FACTS[signal].unit === 'inodes' ? 'inodes' : 'bytes';
  const [available, capacity] = by === 'inodes' ? [inodesFree, inodes] : [bytesAvailable, bytesCapacity];
  const limit = highestLimit(effective, signal, { available, capacity, sampledAtMs });
  if (capacity === 0 || !isNear(available, limit)) return { signal, path, near: known(null) };
  const mounts = readMounts();
  const root = mounts.known ? mountPointOf(path, mounts.value) : path;
  const survey = await walker.survey(root, by, Math.max(1, (capacity - available) * SHARE));
  const near: Reading<NearDisk> = known({ available, limit, root, survey });
  return { signal, path, near };
}

function highestLimit({ thresholds }: Effective, signal: Signal, sample: SignalSample): number {
  const own = thresholds.filter((threshold) => threshold.signal === signal);
  return Math.max(0, ...own.map((threshold) => bytesUp(limits(threshold, sample).limit)));
}

function pathOf({ nodefsPath, imagefsPath, containerfsPath }: Effective, role: FileSystemRole | null): string | null {
  const paths = { nodefs: nodefsPath, imagefs: imagefsPath, containerfs: containerfsPath };
  return role === null ? null : paths[role];
}
