import { stat, statfs } from 'node:fs/promises';
import { known, type MonoMs, type Reading, sayCause, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { within } from '../clock.ts';
import { run } from '../exec.ts';

/**
 * One statfs(2), counted as in the kubelet (kubelet-eviction.md 1.2.1): bytes that an ordinary user may still write.
 */
export type FileSystemSample = {
  readonly bytesAvailable: number;
  readonly bytesCapacity: number;
  readonly inodesFree: number;
  /** 0 if the file system does not count them (btrfs). */
  readonly inodes: number;
  /** st_dev: the same number is the same file system. */
  readonly device: number;
  /** The time of the request: the figures are never older. */
  readonly sampledAtMs: MonoMs;
};
export type FileSystem = {
  /** Joins a call in progress. After one is overdue, the next starts only when it has returned. Never rejects. */
  readonly sample: () => Promise<Reading<FileSystemSample>>;
  /**
   * If f_bsize and f_frsize differ, counts are in another unit than Node assumes; null = they agree or are not known
   * yet.
   */
  readonly differingBlockSizes: () => BlockSizes | null;
};

type BlockSizes = { readonly bsize: bigint; readonly frsize: bigint };

/** A local file system answers in microseconds; a network mount that needs longer than this does not help a decision. */
const DEADLINE_MS = 2_000;
/** For one child of coreutils, off the event loop. */
const BLOCK_SIZE_DEADLINE_MS = 5_000;
const BLOCK_SIZE_RETRY_MS = 60_000;

/** The file system that holds `path`. At most one statfs(2) in flight: a hung one holds one of libuv's threads. */
export function openFileSystem(path: string, clock: Clock): FileSystem {
  const blockSize = createBlockSize(path, clock);
  let inFlight: Promise<Reading<FileSystemSample>> | null = null;
  let isOverdue = false;
  const late = unknown(
    'timed-out',
    `statfs ${path}`,
    `no answer within ${DEADLINE_MS / 1_000} s; the mount may hang, or the machine is very busy`,
  );
  const start = (): Promise<Reading<FileSystemSample>> => {
    const reading = read(path, blockSize, clock.monoMs()).finally(() => {
      isOverdue = false;
      inFlight = null;
    });
    return within(clock, DEADLINE_MS, reading, () => {
      isOverdue = true;
      inFlight = null;
      return late;
    });
  };
  return {
    sample: () => {
      if (isOverdue) return Promise.resolve(late);
      inFlight ??= start();
      return inFlight;
    },
    differingBlockSizes: blockSize.differing,
  };
}

async function read(path: string, blockSize: BlockSize, sampledAtMs: MonoMs): Promise<Reading<FileSystemSample>> {
  try {
    const { dev } = await stat(path);
    const counts = await statfs(path, { bigint: true });
    // Mounted or unmounted in between: it is unknown which file system the figures belong to.
    if ((await stat(path)).dev !== dev) return unknown('unreadable', `statfs ${path}`, 'it is just being mounted');
    const unit = blockSize.unitFor(dev, counts.bsize);
    return known({
      bytesAvailable: saturate(counts.bavail * unit),
      bytesCapacity: saturate(counts.blocks * unit),
      inodesFree: saturate(counts.ffree),
      inodes: saturate(counts.files),
      device: dev,
      sampledAtMs,
    });
  } catch (cause) {
    const detail = sayCause(cause);
    return unknown(detail.startsWith('ENOENT') ? 'absent' : 'unreadable', `statfs ${path}`, detail);
  }
}

const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/** Some FUSE file systems report more than 8 PiB, or a "minus one". */
function saturate(count: bigint): number {
  if (count < 0n) return 0;
  return Number(count > MOST ? MOST : count);
}

type BlockSize = {
  readonly unitFor: (device: number, bsize: bigint) => bigint;
  readonly differing: () => BlockSizes | null;
};

/** Counts are in units of f_frsize, which Node leaves out: read once per mount with stat(1), until then f_bsize. */
function createBlockSize(path: string, clock: Clock): BlockSize {
  let askedFor: { readonly device: number; readonly atMs: number } | null = null;
  let found: { readonly device: number; readonly bytes: bigint } | null = null;
  let differing: BlockSizes | null = null;
  const ask = async (device: number, bsize: bigint): Promise<void> => {
    const end = await run(['stat', '-f', '-c', '%S', '--', path], {
      timeoutMs: BLOCK_SIZE_DEADLINE_MS,
      maxOutputBytes: 100,
    });
    const text = end.kind === 'exited' && end.code === 0 ? end.stdout.trim() : '';
    if (!/^[1-9][0-9]{0,9}$/.test(text)) return;
    const bytes = BigInt(text);
    found = { device, bytes };
    differing = bytes === bsize ? null : { bsize, frsize: bytes };
  };
  return {
    unitFor: (device, bsize) => {
      if (found?.device === device) return found.bytes;
      const nowMs = clock.monoMs();
      if (askedFor?.device !== device || nowMs - askedFor.atMs > BLOCK_SIZE_RETRY_MS) {
        askedFor = { device, atMs: nowMs };
        void ask(device, bsize);
      }
      return bsize;
    },
    differing: () => differing,
  };
}
