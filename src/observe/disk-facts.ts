import type { DiskRelief, DiskUsage, PodUid, Relief } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { BoundPod, DiskWalk, OpenFiles, WalkedDirectory } from '../ports.ts';

/** A pod's last and earlier measurements: the facts for D14, for one file system. */
type DiskFacts = {
  /** Call for a complete walk of a pod that ran throughout. */
  readonly noteWalk: (uid: PodUid, walk: DiskWalk, life: string, atMs: MonoMs) => void;
  readonly noteOpen: (uid: PodUid, open: Reading<OpenFiles>, life: string | null) => void;
  /** `latest`: its last walk, complete or not. `life`: the pod's present one. */
  readonly on: (of: {
    readonly pod: BoundPod;
    readonly device: number;
    readonly latest: Reading<DiskWalk & { readonly life: string | null }>;
    readonly life: string | null;
    readonly written: Reading<number>;
    readonly nowMs: MonoMs;
  }) => { readonly usage: Reading<DiskUsage>; readonly relief: DiskRelief };
  readonly keepOnly: (uids: ReadonlySet<PodUid>) => void;
};

/** Growth is measured over the last minute, but walks do not start exactly on time. */
const WINDOW_MS = 70_000;
/** New files that a walk found longer ago than this do not count as growth of the last minute. */
const FRESH_FOR_MS = 10_000;
/** Under pressure, walks may be 100 ms apart, and the history must cover the whole window. */
const APART_MS = 5_000;
const KEPT = 1 + WINDOW_MS / APART_MS;
const NOT_LOOKED = 'they have not been read yet';

type Noted = { readonly atMs: MonoMs; readonly life: string; readonly directories: readonly WalkedDirectory[] };

export function createDiskFacts(): DiskFacts {
  const walks = new Map<PodUid, readonly Noted[]>();
  const opens = new Map<PodUid, { readonly reading: Reading<OpenFiles>; readonly life: string | null }>();
  return {
    noteWalk: (uid, { directories = [] }, life, atMs) => {
      const before = (walks.get(uid) ?? []).filter((old) => old.life === life && atMs - old.atMs <= WINDOW_MS);
      const last = before.at(-1);
      if (last !== undefined && atMs - last.atMs < APART_MS) return;
      walks.set(uid, [...before.slice(-KEPT + 1), { atMs, life, directories }]);
    },
    noteOpen: (uid, reading, of) => void opens.set(uid, { reading, life: of }),
    on: ({ pod, device, latest, life, written, nowMs }) => {
      const { uid } = pod.declared;
      const last = opens.get(uid);
      const open = last?.life === life ? last.reading : unknown('not-asked', `open files of ${uid}`, NOT_LOOKED);
      const deletedOpen = held(open, device);
      const earlier = (walks.get(uid) ?? []).filter((old) => old.life === life && nowMs - old.atMs <= WINDOW_MS);
      return {
        usage: usageOf(latest, device, deletedOpen, open.known && !open.value.isComplete),
        relief: {
          scratch: scratchOf(latest, device, pod.scratch ?? []),
          deletedOpen,
          grownLastMinute: grownOf(latest, device, life, earlier, nowMs),
          writtenBytes: written,
        },
      };
    },
    keepOnly: (uids) => {
      for (const map of [walks, opens]) for (const uid of map.keys()) if (!uids.has(uid)) map.delete(uid);
    },
  };
}

const NONE: Relief = { bytes: known(0), inodes: known(0) };

function held(open: Reading<OpenFiles>, device: number): Relief {
  if (!open.known) return { bytes: open, inodes: open };
  const found = open.value.devices.find((of) => of.device === device);
  return found === undefined ? NONE : { bytes: known(found.bytes), inodes: known(found.inodes) };
}

/**
 * Counts what is on this file system. Deleted files are in no directory, so a pod that declares none may still hold some.
 */
function usageOf(
  latest: Reading<DiskWalk>,
  device: number,
  { bytes, inodes }: Relief,
  isCut: boolean,
): Reading<DiskUsage> {
  const heldBytes = bytes.known ? bytes.value : 0;
  const heldInodes = inodes.known ? inodes.value : 0;
  if (!latest.known && heldBytes === 0) return latest;
  const empty = { logsBytes: 0, rootfsBytes: 0, volumesBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
  const walked = latest.known ? latest.value.pod : empty;
  const here = latest.known ? latest.value.directories?.filter((of) => of.device === device) : [];
  const volumesBytes = here?.reduce((sum, of) => sum + of.bytes, 0) ?? walked.volumesBytes;
  const volumesInodes = here?.reduce((sum, of) => sum + of.inodes, 0) ?? walked.volumesInodes;
  return known({
    ...walked,
    volumesBytes: volumesBytes + heldBytes,
    volumesInodes: volumesInodes + heldInodes,
    ...(latest.known && !isCut ? {} : { isAtLeast: true }),
  });
}

/** Without the directories themselves and files with another name, which stay. */
function scratchOf(latest: Reading<DiskWalk>, device: number, scratch: readonly string[]): Relief {
  if (scratch.length === 0) return NONE;
  if (!latest.known) return { bytes: latest, inodes: latest };
  const emptied = (latest.value.directories ?? []).filter((of) => of.device === device && scratch.includes(of.path));
  return {
    bytes: known(emptied.reduce((sum, { bytes, ownBytes, linkedBytes }) => sum + bytes - ownBytes - linkedBytes, 0)),
    inodes: known(emptied.reduce((sum, { inodes, linkedInodes }) => sum + inodes - 1 - linkedInodes, 0)),
  };
}

/**
 * Growth since the oldest complete walk of the window, plus what was new in that walk, because a disk that fills within a
 * second was not walked before. An incomplete walk proves only what it found.
 */
function grownOf(
  latest: Reading<DiskWalk & { readonly life: string | null }>,
  device: number,
  life: string | null,
  earlier: readonly Noted[],
  nowMs: MonoMs,
): Relief {
  if (!latest.known) return { bytes: latest, inodes: latest };
  if (life === null || latest.value.life !== life) {
    const stale = unknown('stale', 'growth', 'it was measured before the pod restarted');
    return { bytes: stale, inodes: stale };
  }
  const now = (latest.value.directories ?? []).filter((of) => of.device === device);
  const [first] = earlier;
  const isCut = latest.value.pod.isAtLeast === true;
  const isFresh = first === undefined || nowMs - first.atMs <= FRESH_FOR_MS;
  const grown = (count: 'bytes' | 'inodes', fresh: 'freshBytes' | 'freshInodes'): Reading<number> => {
    let sum = 0;
    for (const of of now) {
      const old = first?.directories.find(({ path }) => path === of.path);
      // It did not exist then, or was not measured: only new files certainly are growth.
      if (old === undefined) sum += of[fresh];
      else sum += Math.max(isCut ? 0 : Number.NEGATIVE_INFINITY, of[count] - old[count]) + (isFresh ? old[fresh] : 0);
    }
    return known(Math.max(0, sum));
  };
  return { bytes: grown('bytes', 'freshBytes'), inodes: grown('inodes', 'freshInodes') };
}
