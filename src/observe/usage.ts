import { usedOn } from '../core/eviction/comparator.ts';
import { LEAST_DEAD } from '../core/eviction/escaped.ts';
import { isUnread } from '../core/eviction/relief.ts';
import type { Observation } from '../core/observation.ts';
import type { DiskWalk } from '../core/pod/disk-walk.ts';
import { type DiskRelief, type PodUid, type PodView, podName } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { type FileSystemRole, type FsLayout, isDisk, SIGNAL_FACTS, type SignalFacts } from '../core/signal.ts';
import type { NextLook } from '../core/verdict.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { swapBytes } from '../host/cgroup/cgroup-swap.ts';
import {
  countProcesses,
  countUnreaped,
  isPopulated as isPopulatedNow,
  isSame,
  threadsIn,
  whereIs,
} from '../host/cgroup/cgroupfs.ts';
import { leftIn } from '../host/cgroup/left-memory.ts';
import { isOutOfFiles } from '../host/file-error.ts';
import type { BoundPod, CgroupRef, Clock, Findings } from '../ports.ts';
import { PODS_UNREADABLE, podsUnreadable } from '../words/finding-eviction.ts';
import { NONE } from './disk-facts.ts';
import { createHeldCgroups } from './held-cgroups.ts';
import { lifeOf, type PodDisk, type PodWalk } from './pod-disk.ts';

type PodReaderNeeds = {
  readonly clock: Pick<Clock, 'monoMs'>;
  readonly mounts: CgroupMounts;
  readonly findings: Findings;
  /** The last walk of the pod's directories. */
  readonly disk: (uid: PodUid) => Reading<PodWalk>;
  /** The part on one file system, and what the pod's end would free there; absent: not measured. */
  readonly diskOn?: PodDisk['on'];
  readonly isStalledByOwnLimit?: (uid: PodUid) => boolean;
};
type AskedOfPods = {
  /** For the file system of the requested signal. */
  readonly device?: Reading<number> | null;
  /** Nothing can be removed on it, nor grow; absent: it can. */
  readonly isReadOnly?: boolean;
  /** What the pods use is about the same one, by the layout; absent: none was requested, or the layout is unknown. */
  readonly fileSystem?: { readonly role: FileSystemRole; readonly layout: FsLayout };
  /** Whether a read of everything includes swap; absent: it does. */
  readonly isSwapAsked?: boolean;
};
export type PodReader = {
  /** Each pod with a populated cgroup, read now. Costs time per pod, so only for a look that requested it. */
  readonly read: (bound: readonly BoundPod[], want: NextLook['pods'], more?: AskedOfPods) => readonly PodView[];
  /** What the last read found charged to cgroups of pods without processes, and does not come back by itself. */
  readonly leftBytes: () => number;
  /** What does. */
  readonly comesBack: () => NonNullable<Observation['comesBack']>;
  /** Some could not be measured, and whether that is still so, no read has said for a minute. */
  readonly isToReread: () => boolean;
  readonly close: () => void;
};

/** Nothing is known to be freed when it ends, so it is never a candidate, but a shutdown stops it. */
function idleView({ declared, isUnseen }: BoundPod): PodView {
  const unseen = unknown('absent', declared.name, 'it has no cgroup of the memory controller');
  const nothing = isUnseen === true ? unseen : unknown('not-applicable', declared.name, 'it has no processes');
  return {
    ...declared,
    limitedBy: 'not-stoppable',
    usage: {
      workingSetBytes: isUnseen === true ? unseen : known(0),
      processes: isUnseen === true ? unseen : known(0),
      disk: nothing,
      ephemeralStorageBytes: known(0),
      containers: known([]),
      volumes: known([]),
    },
  };
}

/** D13: in a ranking by disk usage, a usage that could not be measured does not count as zero. */
const isDiskSignal = (want: NextLook['pods']): boolean => want !== null && want !== 'all' && isDisk(want);
/**
 * D13: how long a usage that exceeds the request counts while it cannot be read again. One within the request is evidence of
 * nothing: a pod takes more in that time.
 */
const LAST_KNOWN_MS = 1_000;
const REREAD_MS = 60_000;
const RENAME_TRIES = 5;
const NOT_ASKED = unknown('not-asked', 'cgroup', 'only a decision about processes or swap needs it');
const isAsked = (want: NextLook['pods'], counts: SignalFacts['counts']): boolean =>
  want === 'all' || (want !== null && SIGNAL_FACTS[want].counts === counts);

type LastRead = { readonly bytes: number; readonly atMs: MonoMs };
type Read = {
  /** Otherwise unknown. */
  readonly isPopulated: Reading<boolean>;
  readonly workingSetBytes: Reading<number>;
  readonly processes: Reading<number>;
  readonly pidsHeld: Reading<number>;
  readonly deadHeld: Reading<number>;
  readonly swapBytes: Reading<number>;
};

const NO_PROCESS: Read = {
  isPopulated: known(false),
  workingSetBytes: known(0),
  processes: known(0),
  pidsHeld: known(0),
  deadHeld: known(0),
  swapBytes: NOT_ASKED,
};

const NO_RELIEF: DiskRelief = {
  scratch: NONE,
  deletedOpen: NONE,
  grownLastMinute: NONE,
  writtenBytes: known(0),
};

const isPopulatedIn = ({ isPopulated }: Read): boolean => isPopulated.known && isPopulated.value;

export function createPodReader(needs: PodReaderNeeds): PodReader {
  const { clock, mounts, findings, disk, diskOn } = needs;
  const cgroups = createHeldCgroups(mounts);
  /** What was read last of the cgroups presented last, by inode, for D13. */
  let lastRead: ReadonlyMap<number, LastRead> = new Map();
  /** When some could not be measured; null: all could. */
  let foundAtMs: MonoMs | null = null;
  let leftBytes = 0;
  let comesBack: NonNullable<Observation['comesBack']> = [];

  const note = (unread: readonly { readonly pod: BoundPod; readonly why: Unknown }[]): void => {
    const first = unread[0];
    if (first === undefined) {
      if (foundAtMs !== null) findings.clear(PODS_UNREADABLE);
      foundAtMs = null;
      return;
    }
    foundAtMs = clock.monoMs();
    const cause = `${first.why.where}: ${first.why.detail}`;
    findings.raise(podsUnreadable(podName(first.pod.declared), unread.length - 1, cause));
  };

  return {
    read: (bound, want, { isSwapAsked = true, ...of } = {}) => {
      const views: PodView[] = [];
      const unread: { readonly pod: BoundPod; readonly why: Unknown }[] = [];
      const nowRead = new Map<number, LastRead>();
      const atMs = clock.monoMs();
      const isDiskAsked = isDiskSignal(want);
      leftBytes = 0;
      comesBack = [];
      for (const pod of bound) {
        const ref = pod.cgroup.known ? pod.cgroup.value : null;
        const read = ref === null ? 'none' : readWithFiles(pod, ref, want, isSwapAsked);
        if (ref === null || read === 'none') {
          if (pod.isIdle === true && want === 'all') views.push(idleView(pod));
          if (isDiskAsked) noteFiles(pod);
          // D13: it may be the one to choose. Why it is not found is a finding of its own.
          if (pod.isUnlocated === true) views.push(unlocatedView(pod, of, isDiskAsked));
          // As in the kubelet, it counts for a disk: its files stay, and its next run goes on filling it.
          if (pod.isBetweenRuns === true && isDiskAsked)
            views.push({ ...viewOf(pod, NO_PROCESS, of, isDiskAsked), isBetweenRuns: true });
          continue;
        }
        const before = lastRead.get(ref.inode);
        const last = read.workingSetBytes.known ? { bytes: read.workingSetBytes.value, atMs } : before;
        const isFresh = last !== undefined && atMs - last.atMs <= LAST_KNOWN_MS;
        if (isFresh) nowRead.set(ref.inode, last);
        const isProof = isFresh && last.bytes > pod.declared.requests.memoryBytes && isPopulatedIn(read);
        const workingSetBytes = isProof ? known(last.bytes) : read.workingSetBytes;
        const failed = read.isPopulated.known
          ? [workingSetBytes, read.swapBytes, read.processes].find(isUnread)
          : read.isPopulated;
        if (failed?.known === false) unread.push({ pod, why: failed });
        const view = viewOf(pod, { ...read, workingSetBytes }, of, isDiskAsked);
        const { disk: used } = view.usage;
        // A pod that declares no directory is no failure: D14 decides whether it may be chosen.
        if (isDiskAsked && !used.known && used.why !== 'not-applicable') unread.push({ pod, why: used });
        views.push(view);
      }
      lastRead = nowRead;
      cgroups.sweep();
      note(unread);
      return views;
    },
    leftBytes: () => leftBytes,
    comesBack: () => comesBack,
    isToReread: () => foundAtMs !== null && clock.monoMs() - foundAtMs >= REREAD_MS,
    close: cgroups.close,
  };

  function unlocatedView(pod: BoundPod, of: AskedOfPods, isDiskAsked: boolean): PodView {
    const why = unknown('unreadable', pod.declared.name, pod.cgroup.known ? 'it is elsewhere' : pod.cgroup.detail);
    const nothing = { isPopulated: why, workingSetBytes: why, processes: why, pidsHeld: why, deadHeld: why };
    return viewOf(pod, { ...nothing, swapBytes: why }, { ...of, ...(of.device ? { device: why } : {}) }, isDiskAsked);
  }

  function readWithFiles(pod: BoundPod, ref: CgroupRef, want: NextLook['pods'], isSwapAsked: boolean): 'none' | Read {
    const read = readWhereItIs(pod, ref, want, isSwapAsked);
    const isShort = read !== 'none' && Object.values(read).some((part) => !part.known && isOutOfFiles(part));
    return isShort && cgroups.yieldFiles() ? readWhereItIs(pod, ref, want, isSwapAsked) : read;
  }

  /** A cgroup that is renamed at this moment is not gone. */
  function readWhereItIs(pod: BoundPod, at: CgroupRef, want: NextLook['pods'], isSwapAsked: boolean): 'none' | Read {
    let ref = at;
    for (let tries = 0; tries < RENAME_TRIES; tries++) {
      const read = readPod(pod, ref, want, isSwapAsked);
      if (read !== 'none' || isSame(mounts, ref)) return read;
      const there = whereIs(mounts, ref);
      if (there === null) return read;
      ref = there;
    }
    return 'none';
  }

  /**
   * D13: an empty or removed cgroup is no candidate. For a pod that is being stopped, unreaped dead processes count, too.
   */
  function readPod(pod: BoundPod, ref: CgroupRef, want: NextLook['pods'], isSwapAsked: boolean): 'none' | Read {
    const { declared } = pod;
    const areCounted = isAsked(want, 'processes');
    const processes = areCounted ? countProcesses(mounts, ref) : NOT_ASKED;
    const pidsHeld = areCounted ? threadsIn(mounts, ref) : NOT_ASKED;
    const areDeadHeld = declared.isTerminating && pidsHeld.known && pidsHeld.value > 0;
    const populated = (ask: () => Reading<boolean>): Reading<boolean> =>
      processes.known ? known(processes.value > 0 || areDeadHeld) : ask();
    let isPopulated: Reading<boolean> | null = null;
    const bytes = cgroups.read(ref, (cgroup) => {
      isPopulated = populated(cgroup.isPopulated);
      return cgroup.workingSetBytes();
    });
    isPopulated ??= populated(() => isPopulatedNow(mounts, ref));
    const isEmpty = isPopulated.known && !isPopulated.value;
    if (isEmpty) noteLeft(pod, ref);
    if (isEmpty || (!bytes.known && !isSame(mounts, ref))) return 'none';
    // The cgroup is there: what it lacks is not zero.
    const workingSetBytes = bytes.known || bytes.why !== 'absent' ? bytes : { ...bytes, why: 'unreadable' as const };
    const isCounted = isAsked(want, 'memoryAndSwapBytes') && (want !== 'all' || isSwapAsked);
    const swap = isCounted ? swapBytes(mounts, ref) : NOT_ASKED;
    const areFewDead = processes.known && pidsHeld.known && pidsHeld.value - processes.value < LEAST_DEAD;
    const countDead = (): Reading<number> => (areFewDead ? known(0) : countUnreaped(mounts, ref, LEAST_DEAD));
    const deadHeld = areCounted ? countDead() : NOT_ASKED;
    return { isPopulated, workingSetBytes, processes, pidsHeld, deadHeld, swapBytes: swap };
  }

  function noteLeft({ declared: { uid }, comesBack: isFreed }: BoundPod, ref: CgroupRef): void {
    const left = leftIn(mounts, ref);
    if (!left.known) return;
    const { sharedBytes, ownBytes } = left.value;
    leftBytes += isFreed ? ownBytes : sharedBytes + ownBytes;
    if (isFreed && sharedBytes > 0) comesBack = [...comesBack, { uid, memoryBytes: sharedBytes }];
  }

  /** The files of a pod that is being removed go with it, however late; a mode that names directories says itself which do. */
  function noteFiles({ declared: { uid, isTerminating }, directories }: BoundPod): void {
    const last = disk(uid);
    if (!isTerminating || directories !== undefined || !last.known) return;
    comesBack = [...comesBack, { uid, memoryBytes: 0, disk: last.value.pod }];
  }

  function viewOf(
    pod: BoundPod,
    { isPopulated, workingSetBytes, processes, pidsHeld, deadHeld, swapBytes: swap }: Read,
    { device = null, fileSystem, isReadOnly = false }: AskedOfPods,
    isDiskAsked: boolean,
  ): PodView {
    const latest = disk(pod.declared.uid);
    const last = isDiskAsked ? asMissed(latest) : latest;
    // In a mode that names no directories, a pod's files are removed with the pod.
    const isMeasured = diskOn !== undefined && pod.directories !== undefined;
    const onDevice = isMeasured && device?.known ? diskOn(pod, device.value) : undefined;
    const notKnown = isMeasured && device?.known === false ? device : undefined;
    const removed =
      pod.directories === undefined && fileSystem !== undefined ? removedWith(last, fileSystem) : undefined;
    const used = onDevice?.usage ?? (last.known ? known(last.value.pod) : last);
    const freed = onDevice === undefined ? (notKnown ?? removed) : known(onDevice.relief);
    const relief = isReadOnly && freed !== undefined ? known(NO_RELIEF) : freed;
    // A ranking may use figures from an earlier life; a limit evicts only for what is proven about this one.
    const life = lifeOf(pod);
    const walk = last.known && (life === null || last.value.life !== life) ? earlier(pod) : last;
    const { limitedBy } = pod.declared;
    const isFirst = limitedBy !== null && limitedBy !== 'manifest-unread';
    return {
      ...pod.declared,
      ...(pod.cgroup.known ? { cgroupInode: pod.cgroup.value.inode, cgroupPath: pod.cgroup.value.path } : {}),
      ...(relief === undefined ? {} : { diskRelief: relief }),
      limitedBy: isPopulated.known || isFirst ? limitedBy : 'maybe-empty',
      ...(needs.isStalledByOwnLimit?.(pod.declared.uid) ? { isStalledByOwnLimit: true } : {}),
      usage: {
        workingSetBytes,
        // If the kernel does not report swap per cgroup, only the working set is left to compare.
        ...(swap.known || swap.why !== 'absent' ? { swapBytes: swap } : {}),
        processes,
        pidsHeld,
        deadHeld,
        disk: isDiskAsked ? asMissed(used) : used,
        ephemeralStorageBytes: walk.known ? known(localBytes(walk.value)) : walk,
        volumes: walk.known ? known(walk.value.volumes) : walk,
        containers: known(
          pod.containers.map(({ name, cgroup }) => {
            const walked = walk.known ? walk.value.containers.find((container) => container.name === name) : undefined;
            const notWalked = walk.known ? unknown('absent', `disk of ${name}`, 'it was not measured') : walk;
            return {
              name,
              workingSetBytes: containerBytes(pod, cgroup, workingSetBytes),
              logsBytes: walked?.logsBytes ?? notWalked,
              rootfsBytes: walked?.rootfsBytes ?? notWalked,
            };
          }),
        ),
      },
    };
  }

  function containerBytes(pod: BoundPod, cgroup: Reading<CgroupRef>, podBytes: Reading<number>): Reading<number> {
    if (!cgroup.known) return cgroup;
    const isWholePod = pod.cgroup.known && pod.cgroup.value.inode === cgroup.value.inode;
    return isWholePod ? podBytes : cgroups.read(cgroup.value, (held) => held.workingSetBytes());
  }
}

const earlier = ({ declared }: BoundPod): Unknown =>
  unknown('stale', `disk of ${declared.uid}`, 'it was measured before the pod restarted');

/** kubelet-eviction.md 5.8, for 4.6.2. */
function localBytes({ pod }: DiskWalk): number {
  return pod.logsBytes + pod.rootfsBytes + pod.volumesBytes;
}

/** A pod that is newer than the last round was not walked in it: a choice does not wait for the next one. */
const asMissed = <T>(last: Reading<T>): Reading<T> =>
  !last.known && last.why === 'not-asked' ? unknown('timed-out', last.where, 'it has not been measured yet') : last;

/** D14: logs, writable layers and emptyDirs go with the pod: at least what is known of them. Undefined: nobody asked. */
function removedWith(
  last: Reading<PodWalk>,
  { role, layout }: NonNullable<AskedOfPods['fileSystem']>,
): PodView['diskRelief'] {
  if (!last.known && last.why === 'not-asked') return undefined;
  const has = (what: 'bytes' | 'inodes'): Reading<number> =>
    known(last.known ? usedOn(role, what, last.value.pod, layout) : 0);
  const isWhole = last.known && last.value.pod.isAtLeast === undefined;
  return known({
    scratch: { bytes: has('bytes'), inodes: has('inodes') },
    deletedOpen: NONE,
    grownLastMinute: NONE,
    writtenBytes: unknown('not-asked', 'writes of the pod', 'what it has counts'),
    ...(isWhole ? {} : { isAtLeast: true }),
  });
}
