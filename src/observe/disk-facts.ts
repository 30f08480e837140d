import { isUnread } from '../core/eviction/relief.ts';
import type { DiskWalk, OpenFiles, WalkedDirectory } from '../core/pod/disk-walk.ts';
import type { DiskRelief, DiskUsage, PodUid, Relief } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { BoundPod } from '../ports.ts';
import { type Amounts, NOTHING_SHARED, sharedIn, sumOf, unattributedIn } from './shared-files.ts';

/**
 * `stops`: those of ours that had ended when the walk began. A pod that restarts by itself goes on filling the same directories;
 * what ended by our stop is to be judged anew, and its scratch directories were emptied.
 */
type StoppedWalk = DiskWalk & { readonly stops: number };

/** A pod's last and earlier measurements: the facts for D14, for one file system. */
type DiskFacts = {
  /** Call for a complete walk. `round`: the number of the round. */
  readonly noteWalk: (uid: PodUid, walk: StoppedWalk, atMs: MonoMs, round: number) => void;
  readonly noteOpen: (uid: PodUid, open: Reading<OpenFiles>, life: string | null, atMs: MonoMs) => void;
  /** `latest`: its last walk, complete or not. `life`: the pod's present one. */
  readonly on: (of: {
    readonly pod: BoundPod;
    readonly device: number;
    readonly latest: Reading<StoppedWalk>;
    /** What was read of another life of the pod's processes is not open any more. */
    readonly life: string | null;
    readonly written: Reading<number>;
    readonly nowMs: MonoMs;
    /** The last one that has begun. */
    readonly round: number;
    /** What was measured then may have changed since. */
    readonly isTooOld: (atMs: MonoMs) => boolean;
  }) => { readonly usage: Reading<DiskUsage>; readonly relief: DiskRelief };
  readonly keepOnly: (uids: ReadonlySet<PodUid>) => void;
};

/** Growth is measured over the last minute, but walks do not start exactly on time. */
const WINDOW_MS = 70_000;
/** If rounds take longer, growth is measured from the round before: that many ago while the last one is under way. */
const ROUNDS_BACK = 2;
/** New files that a walk found longer ago than this do not count as growth of the last minute. */
const FRESH_FOR_MS = 10_000;
/** Under pressure, walks may be 100 ms apart, and the history must cover the whole window. */
const APART_MS = 5_000;
const KEPT = 1 + WINDOW_MS / APART_MS;
const NOT_LOOKED = 'they have not been read yet';

type Noted = {
  readonly atMs: MonoMs;
  readonly round: number;
  readonly stops: number;
  readonly directories: readonly WalkedDirectory[];
};

type Opened = { readonly reading: Reading<OpenFiles>; readonly life: string | null; readonly atMs: MonoMs };

export function createDiskFacts(): DiskFacts {
  const walks = new Map<PodUid, readonly Noted[]>();
  const opens = new Map<PodUid, Opened>();
  return {
    noteWalk: (uid, { directories = [], stops }, atMs, round) => {
      const before = (walks.get(uid) ?? []).filter((old) => old.stops === stops);
      const last = before.at(-1);
      if (last !== undefined && atMs - last.atMs < APART_MS) return;
      const kept = before.filter((old) => old === last || atMs - old.atMs <= WINDOW_MS);
      walks.set(uid, [...kept.slice(-KEPT + 1), { atMs, round, stops, directories }]);
    },
    noteOpen: (uid, reading, life, atMs) => void opens.set(uid, { reading, life, atMs }),
    on: ({ pod, device, latest, life, written, nowMs, round, isTooOld }) => {
      const { uid } = pod.declared;
      const { stops = 0 } = pod;
      const open = openOf(opens.get(uid), pod, life, isTooOld);
      const deletedOpen = held(open, device);
      // Until the next walk, growth remains what the last one showed, whether it was a second ago or minutes.
      const atMs = (latest.known ? latest.value.pod.sampledAtMs : undefined) ?? nowMs;
      const noted = (walks.get(uid) ?? []).filter((old) => old.stops === stops);
      const { grown, unattributed } = grownOf(latest, device, stops, firstOf(noted, atMs, round), atMs);
      const isUnclear = isSome(unattributed) || isSome(deletedOpen.unattributed);
      const isCut = open.known ? !open.value.isComplete : isUnread(open);
      const isLess = isCut || (latest.known && latest.value.pod.isAtLeast === true);
      return {
        usage: usageOf(latest, device, deletedOpen, isCut),
        relief: {
          scratch: scratchOf(latest, device, pod.scratch ?? []),
          deletedOpen: deletedOpen.own,
          grownLastMinute: grown,
          writtenBytes: written,
          ...(isLess ? { isAtLeast: true } : {}),
          ...(isUnclear ? { unattributed: asRelief(sumOf([unattributed, deletedOpen.unattributed])) } : {}),
        },
      };
    },
    keepOnly: (uids) => {
      for (const map of [walks, opens]) for (const uid of map.keys()) if (!uids.has(uid)) map.delete(uid);
    },
  };
}

/** What it held open longer ago it may have closed. */
function openOf(
  last: Opened | undefined,
  { declared, openFiles }: BoundPod,
  life: string | null,
  isTooOld: (atMs: MonoMs) => boolean,
): Reading<OpenFiles> {
  const where = `open files of ${declared.uid}`;
  if (last === undefined && openFiles !== undefined) return unknown('timed-out', where, NOT_LOOKED);
  if (last?.life !== life) return unknown('not-asked', where, NOT_LOOKED);
  return isTooOld(last.atMs) ? unknown('stale', where, 'they were read too long ago') : last.reading;
}

type Held = { readonly own: Relief; readonly unattributed: Amounts };
export const NONE: Relief = { bytes: known(0), inodes: known(0) };
const NOTHING: Amounts = { bytes: 0, inodes: 0 };
const isSome = ({ bytes, inodes }: Amounts): boolean => bytes > 0 || inodes > 0;
const asRelief = ({ bytes, inodes }: Amounts): Relief => ({ bytes: known(bytes), inodes: known(inodes) });

function held(open: Reading<OpenFiles>, device: number): Held {
  if (!open.known) return { own: { bytes: open, inodes: open }, unattributed: NOTHING };
  const found = open.value.devices.find((of) => of.device === device);
  if (found === undefined) return { own: NONE, unattributed: NOTHING };
  const { unattributed, others } = found.shared ?? NOTHING_SHARED;
  const own = (count: 'bytes' | 'inodes') => known(Math.max(0, found[count] - unattributed[count] - others[count]));
  return { own: { bytes: own('bytes'), inodes: own('inodes') }, unattributed };
}

/**
 * Counts what is on this file system. Deleted files are in no directory, so a pod that declares none may still hold some.
 */
function usageOf(
  latest: Reading<DiskWalk>,
  device: number,
  { own: { bytes, inodes }, unattributed }: Held,
  isCut: boolean,
): Reading<DiskUsage> {
  const heldBytes = bytes.known ? bytes.value : 0;
  const heldInodes = inodes.known ? inodes.value : 0;
  if (!latest.known && heldBytes === 0 && !isSome(unattributed)) return latest;
  const empty = { logsBytes: 0, rootfsBytes: 0, volumesBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
  const walked = latest.known ? latest.value.pod : empty;
  const here = latest.known ? latest.value.directories?.filter((of) => of.device === device) : [];
  const unclear = sumOf([unattributedIn(here), unattributed]);
  return known({
    ...walked,
    isOfFileSystem: true,
    volumesBytes: heldBytes + (here?.reduce((sum, of) => sum + ownIn(of, 'bytes'), 0) ?? walked.volumesBytes),
    volumesInodes: heldInodes + (here?.reduce((sum, of) => sum + ownIn(of, 'inodes'), 0) ?? walked.volumesInodes),
    ...(latest.known && !isCut ? {} : { isAtLeast: true }),
    ...(isSome(unclear) ? { unattributedBytes: unclear.bytes, unattributedInodes: unclear.inodes } : {}),
  });
}

/** Without the files that other pods have, too, unless they are known to be this one's. A directory may have changed meanwhile. */
function ownIn(of: WalkedDirectory, count: 'bytes' | 'inodes' | 'freshBytes' | 'freshInodes'): number {
  const { unattributed, others } = sharedIn(of);
  return Math.max(0, of[count] - unattributed[count] - others[count]);
}

/** Without what stays: the directories themselves, files with another name, and directories that would not be emptied. */
function scratchOf(latest: Reading<DiskWalk>, device: number, scratch: readonly string[]): Relief {
  if (scratch.length === 0) return NONE;
  if (!latest.known) return { bytes: latest, inodes: latest };
  const goes = (of: WalkedDirectory): boolean =>
    of.device === device && of.staysFull !== true && scratch.includes(of.path);
  const emptied = (latest.value.directories ?? []).filter(goes);
  return {
    bytes: known(emptied.reduce((sum, { bytes, ownBytes, linkedBytes }) => sum + bytes - ownBytes - linkedBytes, 0)),
    inodes: known(emptied.reduce((sum, { inodes, linkedInodes }) => sum + inodes - 1 - linkedInodes, 0)),
  };
}

/** The walk that growth is measured from; undefined: there is none, or it is from long before. */
function firstOf(noted: readonly Noted[], atMs: MonoMs, round: number): Noted | undefined {
  const inWindow = noted.find((old) => atMs - old.atMs <= WINDOW_MS);
  if (inWindow !== undefined && inWindow.atMs < atMs) return inWindow;
  return noted.findLast((old) => old.atMs < atMs && round - old.round <= ROUNDS_BACK) ?? inWindow;
}

/**
 * Growth since the oldest complete walk of the window, plus what was new in that walk, because a disk that fills within a
 * second was not walked before. An incomplete walk proves only what it found. A file that gets a name in another pod's
 * directory grows neither: what counts is the growth of the pod's own files, as far as all of its files grew. The rest of that
 * may be its own, too, unless the files are known to be another pod's.
 */
function grownOf(
  latest: Reading<StoppedWalk>,
  device: number,
  stops: number,
  first: Noted | undefined,
  atMs: MonoMs,
): { readonly grown: Relief; readonly unattributed: Amounts } {
  if (!latest.known) {
    const isNone = latest.why === 'not-applicable';
    return { grown: isNone ? NONE : { bytes: latest, inodes: latest }, unattributed: NOTHING };
  }
  if (latest.value.stops !== stops) {
    const stale = unknown('stale', 'growth', 'it was measured before the pod was stopped');
    return { grown: { bytes: stale, inodes: stale }, unattributed: NOTHING };
  }
  const now = (latest.value.directories ?? []).filter((of) => of.device === device);
  const isCut = latest.value.pod.isAtLeast === true;
  const isFresh = first === undefined || atMs - first.atMs <= FRESH_FOR_MS;
  type Count = (of: WalkedDirectory) => number;
  const growthIn = (count: Count, fresh: Count): number => {
    let sum = 0;
    for (const of of now) {
      const old = first?.directories.find(
        ({ path, device, inode }) => path === of.path && device === of.device && inode === of.inode,
      );
      // It did not exist then, was not measured, or another directory had this path: only new files certainly are growth.
      if (old === undefined) sum += fresh(of);
      else sum += Math.max(isCut ? 0 : Number.NEGATIVE_INFINITY, count(of) - count(old)) + (isFresh ? fresh(old) : 0);
    }
    return Math.max(0, sum);
  };
  const grown = (count: 'bytes' | 'inodes', fresh: 'freshBytes' | 'freshInodes') => {
    const ofAll = growthIn(
      (of) => of[count],
      (of) => of[fresh],
    );
    const ofOwn = growthIn(
      (of) => ownIn(of, count),
      (of) => ownIn(of, fresh),
    );
    const own = Math.min(ofOwn, ofAll);
    return { own: known(own), unattributed: Math.min(ofAll - own, unclear[count]) };
  };
  const unclear = unattributedIn(now);
  const [bytes, inodes] = [grown('bytes', 'freshBytes'), grown('inodes', 'freshInodes')];
  return {
    grown: { bytes: bytes.own, inodes: inodes.own },
    unattributed: { bytes: bytes.unattributed, inodes: inodes.unattributed },
  };
}
