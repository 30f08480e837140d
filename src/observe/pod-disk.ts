import type { DiskWalk, OpenFiles } from '../core/pod/disk-walk.ts';
import { type DiskRelief, type DiskUsage, type PodUid, podName } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { isDisk } from '../core/signal.ts';
import type { NextLook } from '../core/verdict.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { hasProcesses } from '../host/cgroup/cgroupfs.ts';
import type { BoundPod, Clock, Findings } from '../ports.ts';
import { SHARED_FILES, sharedFiles } from '../words/finding-eviction.ts';
import { createDiskFacts } from './disk-facts.ts';
import { createDiskWrites } from './disk-writes.ts';
import {
  mayShare,
  type Overlap,
  overlapsOf,
  rootsTwice,
  sumOf,
  unattributedIn,
  unattributedOpen,
  withShared,
  withSharedOpen,
  withTwice,
} from './shared-files.ts';

type PodDiskNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly findings: Findings;
  readonly pods: () => Reading<readonly BoundPod[]>;
  /** As in PodSource. */
  readonly podsLately?: () => Reading<readonly BoundPod[]>;
  readonly wake: () => void;
};
/**
 * `life`: the pod's life when the walk began (lifeOf); null: nothing ran in it, and what runs now may have cleaned up since.
 * `stops`: those of ours that had ended by then.
 */
export type PodWalk = DiskWalk & { readonly life: string | null; readonly stops: number };
export type PodDisk = {
  /** The last walk of the pod's directories. */
  readonly latest: (uid: PodUid) => Reading<PodWalk>;
  /** What it uses on one file system, and what its end would free there (D14), by the last round. */
  readonly on: (pod: BoundPod, device: number) => { readonly usage: Reading<DiskUsage>; readonly relief: DiskRelief };
  /**
   * What the loop needs. A requested disk signal starts a round at once; one that is near its threshold keeps the
   * schedule.
   */
  readonly follow: (want: NextLook) => void;
  /** Why a ranking for the signal would be a guess: no pod has been walked yet. Null: it would not. */
  readonly notReady: (signal: NextLook['pods']) => Unknown | null;
  /** There are new results: a look may then enforce a local storage limit. */
  readonly hasNews: () => boolean;
  /** The same, and no longer after it. */
  readonly takeNews: () => boolean;
  readonly close: () => void;
};

/**
 * The kubelet's own period: the interval of rounds while a disk threshold is met or near, and of the check whether a
 * walk is due.
 */
const ROUND_MS = 10_000;
/**
 * For limits alone, from the end of one round to the end of the next, plus up to ROUND_MS, so that figures are at most a
 * minute old. Each round starts a child, which would cost 0.4 % of a core every 10 s. The kubelet compares every 10 s, but
 * with what cAdvisor's du counted up to a minute ago (wishes.md W6).
 */
const LIMITS_ROUND_MS = 45_000;
/**
 * While a threshold is near but not met, walking takes at most a twentieth of the time: many files mean fewer rounds, as in
 * cAdvisor. But the next round begins within 50 s, so that figures are at most a minute old.
 */
const UNMET_REST_FACTOR = 19;
const UNMET_ROUND_MS = 50_000;
/** A walk stops after a minute, and is killed if it hangs (host/disk/disk-walk.ts), unless the kernel keeps it. */
const HUNG_MS = 70_000;
/** Each hung walk holds a child that cannot be killed; beyond this number, none is started. */
const MAX_HUNG = 2;
/** Growth needs two walks: while a threshold is met, the second one follows soon. */
const SECOND_ROUND_MS = 1_000;
/** A round may take minutes with many slow pods; figures older than this are no longer used. */
const STALE_MS = 600_000;
/** While walks of the pod fail, and before the first one of a pressure, its earlier figures may be no older than they usually are. */
const USUAL_MS = 60_000;
/** How long a disk threshold waits for the first figures before pods are chosen without them. */
const FIRST_ROUND_MS = 10_000;
/**
 * A ranking may use figures of the last three rounds that began during this pressure: the pod that fills the disk now was
 * small before.
 */
const READY_FOR_MS = 3 * ROUND_MS;
const NEWS_PACE_MS = 1_000;
/** Files of several pods are a finding from here on. */
const LEAST_TOLD = { bytes: 1024 * 1024, inodes: 100 };

/** `failed`: why the last walk has no figures, if there are earlier ones. */
type Walked = { readonly reading: Reading<PodWalk>; readonly atMs: MonoMs; readonly failed?: Unknown };
/** `life`: the life that the figures are about; undefined: the walk failed. */
type Tried = { readonly life: string | null | undefined; readonly endedMs: MonoMs; readonly tookMs: number };

type Round = { readonly number: number; readonly overlaps: ReadonlyMap<PodUid, Overlap> };
/** `open`: null if they were not read. */
type Measured = {
  readonly pod: BoundPod;
  readonly reading: Reading<PodWalk>;
  readonly endedMs: MonoMs;
  readonly open: { readonly files: OpenFiles; readonly life: string | null; readonly atMs: MonoMs } | null;
};

/**
 * Walks the pods' directories beside the loop, one pod after another: all pods while a disk threshold is met or near, else
 * only those with a limit.
 */
export function createPodDisk({ clock, mounts, findings, pods, podsLately = pods, wake }: PodDiskNeeds): PodDisk {
  const facts = createDiskFacts();
  const writes = createDiskWrites({ clock, mounts, pods });
  const walked = new Map<PodUid, Walked>();
  const tried = new Map<PodUid, Tried>();
  /** Calls that hang, by pod and kind. */
  const hung = new Set<string>();
  let isNear = false;
  let asked: { readonly sinceMs: MonoMs; readonly rounds: number } | null = null;
  let fullRound: { readonly beganMs: MonoMs; readonly endedMs: MonoMs } | null = null;
  let lastRound: { readonly endedMs: MonoMs; readonly tookMs: number } | null = null;
  /** So many have begun. */
  let rounds = 0;
  /** By the last round of all pods. */
  let rootsOfSeveral: ReadonlySet<string> = new Set();
  let isRunning = false;
  let hasNews = false;
  let newsMs = Number.NEGATIVE_INFINITY;
  let isClosed = false;
  let cancelTimer: () => void = () => undefined;

  /** Resolves after HUNG_MS at the latest; a call that hangs stays in `hung` until it returns. */
  const inTime = <T>(what: string, ask: () => Promise<Reading<T>>): Promise<Reading<T>> => {
    if (hung.has(what) || hung.size >= MAX_HUNG) return Promise.resolve(hangs(what));
    return new Promise((resolve) => {
      const cancel = clock.after(HUNG_MS, () => {
        hung.add(what);
        resolve(hangs(what));
      });
      void ask()
        .catch((cause: unknown) => unknown('unreadable', what, String(cause)))
        .then((reading) => {
          cancel();
          hung.delete(what);
          resolve(reading);
        });
    });
  };
  const walk = async (pod: BoundPod, life: string | null, of: Round): Promise<Reading<PodWalk>> => {
    const { declared, stops = 0 } = pod;
    const { uid } = declared;
    const { inside = [], ofSeveral = [] } = of.overlaps.get(uid) ?? {};
    const round = { number: of.number, inside: [...inside], ofSeveral: [...ofSeveral] };
    const lived = (found: DiskWalk): PodWalk => ({ ...withTwice(found, rootsOfSeveral), life, stops });
    const reading = await inTime(`disk of ${uid}`, () => pod.disk((least) => putLeast(uid, lived(least)), round));
    return reading.known ? known(lived(reading.value)) : reading;
  };
  /** A failed walk does not replace the previous one at once. */
  const put = (uid: PodUid, reading: Reading<PodWalk>, atMs = clock.monoMs()): void => {
    const last = walked.get(uid);
    if (!reading.known && last?.reading.known) {
      walked.set(uid, { ...last, failed: reading });
      return;
    }
    const dated = reading.known
      ? known({ ...reading.value, pod: { ...reading.value.pod, sampledAtMs: atMs } })
      : reading;
    walked.set(uid, { reading: dated, atMs });
  };
  /** An unfinished walk gives a lower bound, which counts if it exceeds the last value. */
  const putLeast = (uid: PodUid, least: PodWalk): void => {
    const before = latest(uid);
    if (before.known && !isMore(least, before.value)) return;
    put(uid, known(least));
    hasNews = true;
    if (clock.monoMs() - newsMs >= NEWS_PACE_MS) tell();
  };
  const round = async (): Promise<'everybody' | 'limited' | 'nobody'> => {
    const isFull = asked !== null || isNear;
    const bound = isFull ? pods() : podsLately();
    if (!bound.known) return 'nobody';
    const uids = new Set(bound.value.map(({ declared }) => declared.uid));
    for (const map of [walked, tried]) for (const uid of map.keys()) if (!uids.has(uid)) map.delete(uid);
    facts.keepOnly(uids);
    const isForAll = isFull || isLimitsRoundDue();
    const meant = bound.value.filter((pod) => isFull || (hasLimit(pod) && (isForAll || isDueAlone(pod))));
    const beganMs = clock.monoMs();
    rounds += 1;
    const of: Round = { number: rounds, overlaps: overlapsOf(bound.value) };
    const all: Measured[] = [];
    for (const pod of meant) {
      if (isClosed) return 'nobody';
      const measured = await measure(pod, of);
      if (isFull) all.push({ ...measured, open: await readOpen(pod, of) });
      else if (measured.reading.known) note(measured, measured.reading.value, of);
      if (hasNews && clock.monoMs() - newsMs >= NEWS_PACE_MS) tell();
    }
    if (isFull) await attribute(of, all);
    const endedMs = clock.monoMs();
    if (isForAll && meant.length > 0) lastRound = { endedMs, tookMs: endedMs - beganMs };
    if (isFull) fullRound = { beganMs, endedMs };
    if (isFull && asked !== null) asked = { ...asked, rounds: asked.rounds + 1 };
    if (hasNews || isFull) tell();
    return isFull ? 'everybody' : 'limited';
  };
  const measure = async (pod: BoundPod, of: Round): Promise<Measured> => {
    const { uid } = pod.declared;
    const life = runningAs(pod);
    const beganMs = clock.monoMs();
    const reading = await walk(pod, life, of);
    const endedMs = clock.monoMs();
    tried.set(uid, { life: reading.known ? life : undefined, endedMs, tookMs: endedMs - beganMs });
    put(uid, reading, endedMs);
    hasNews ||= reading.known;
    return { pod, reading, endedMs, open: null };
  };
  const note = ({ pod, endedMs }: Measured, found: PodWalk, of: Round): void => {
    if (found.pod.isAtLeast === undefined) facts.noteWalk(pod.declared.uid, found, endedMs, of.number);
  };
  const readOpen = async (pod: BoundPod, of: Round): Promise<Measured['open']> => {
    const { openFiles, declared } = pod;
    if (openFiles === undefined) return null;
    const life = lifeOf(pod);
    const reading = await inTime(`open files of ${declared.uid}`, () => openFiles(of.number));
    const atMs = clock.monoMs();
    facts.noteOpen(declared.uid, reading, life, atMs);
    return reading.known ? { files: reading.value, life, atMs } : null;
  };
  /** At the end of a round: what is shared, and whose it is, as far as that is known. */
  const attribute = async (of: Round, all: readonly Measured[]): Promise<void> => {
    const walks = all.flatMap(({ reading }) => (reading.known ? [reading.value] : []));
    const isWhole = all.every(({ reading }) =>
      reading.known ? reading.value.pod.isAtLeast === undefined : reading.why === 'not-applicable',
    );
    rootsOfSeveral = rootsTwice(walks);
    const sharers: Parameters<typeof sharedFiles>[0][number][] = [];
    for (const measured of all) {
      const { pod, reading, open } = measured;
      const { uid } = pod.declared;
      const isAsked = (reading.known && mayShare(reading.value)) || (open?.files.devices ?? []).length > 0;
      const ask = () =>
        pod.sharedFiles?.({ number: of.number, walks: walks.length, isWhole }) ?? Promise.resolve(known([]));
      const files = isAsked ? await inTime(`shared files of ${uid}`, ask) : known([]);
      if (!files.known) {
        if (reading.known) note(measured, reading.value, of);
        continue;
      }
      const held = open === null ? null : withSharedOpen(open.files, files.value);
      if (open !== null && held !== null) facts.noteOpen(uid, known(held), open.life, open.atMs);
      const found = reading.known ? withTwice(withShared(reading.value, files.value), rootsOfSeveral) : null;
      if (found !== null) {
        put(uid, known(found), measured.endedMs);
        note(measured, found, of);
      }
      const unclear = sumOf([unattributedIn(found?.directories), ...(held === null ? [] : [unattributedOpen(held)])]);
      if (unclear.bytes >= LEAST_TOLD.bytes || unclear.inodes >= LEAST_TOLD.inodes)
        sharers.push({ pod: podName(pod.declared), ...unclear });
    }
    if (sharers.length > 0) findings.raise(sharedFiles(sharers));
    else findings.clear(SHARED_FILES);
  };
  const isLimitsRoundDue = (): boolean =>
    lastRound === null || clock.monoMs() - lastRound.endedMs + lastRound.tookMs >= LIMITS_ROUND_MS;
  /**
   * Between rounds, walks single pods that are new, were stopped or started, or whose walk failed. At most a twentieth of the
   * time: a pod that keeps failing or restarting waits for the next round if its walk is long.
   */
  const isDueAlone = (pod: BoundPod): boolean => {
    const last = tried.get(pod.declared.uid);
    if (last === undefined) return true;
    const isRested = clock.monoMs() - last.endedMs >= UNMET_REST_FACTOR * last.tookMs;
    return isRested && last.life !== runningAs(pod);
  };
  const runningAs = (pod: BoundPod): string | null =>
    pod.cgroup.known && hasProcesses(mounts, pod.cgroup.value) ? lifeOf(pod) : null;
  const tell = (): void => {
    newsMs = clock.monoMs();
    if (!isClosed) wake();
  };
  const run = (): void => {
    if (isRunning || isClosed) return;
    cancelTimer();
    isRunning = true;
    const startedMs = clock.monoMs();
    void round().then((walkedPods) => {
      isRunning = false;
      if (isClosed) return;
      const isShort = walkedPods !== 'nobody' && asked !== null && !isReady();
      const tookMs = clock.monoMs() - startedMs;
      const isOnlyNear = asked === null && isNear;
      const restMs = isOnlyNear ? Math.min(UNMET_REST_FACTOR * tookMs, UNMET_ROUND_MS - tookMs) : 0;
      const leastMs = asked !== null && asked.rounds === 1 ? SECOND_ROUND_MS : ROUND_MS;
      cancelTimer = clock.after(isShort ? 0 : Math.max(leastMs, restMs), run);
    });
  };
  const isOverdue = (): boolean => asked !== null && clock.monoMs() - asked.sinceMs > FIRST_ROUND_MS;
  /**
   * Overdue figures were requested: the choice of a victim proceeds without them, and does not request them again at once.
   */
  const notWalked = (uid: PodUid): Unknown =>
    isOverdue()
      ? unknown('timed-out', `disk of ${uid}`, 'the measurement timed out')
      : unknown('not-asked', `disk of ${uid}`, 'it has not been needed yet');
  const isReady = (): boolean =>
    asked !== null &&
    fullRound !== null &&
    fullRound.beganMs >= asked.sinceMs &&
    clock.monoMs() - fullRound.endedMs < READY_FOR_MS;
  cancelTimer = clock.after(ROUND_MS, run);

  const isTooOld = (atMs: MonoMs): boolean =>
    clock.monoMs() - atMs > (asked !== null && atMs < asked.sinceMs ? USUAL_MS : STALE_MS);
  const latest = (uid: PodUid): Reading<PodWalk> => {
    const found = walked.get(uid);
    if (found === undefined) return notWalked(uid);
    if (found.failed !== undefined && clock.monoMs() - found.atMs > USUAL_MS) return found.failed;
    if (isTooOld(found.atMs)) return unknown('stale', `disk of ${uid}`, 'the last walk is too old');
    return found.reading;
  };

  return {
    latest,
    on: (pod, device) => {
      const { uid } = pod.declared;
      const written = writes.written(uid, device);
      const life = lifeOf(pod);
      const now = { nowMs: clock.monoMs(), round: rounds, isTooOld };
      return facts.on({ pod, device, latest: latest(uid), life, written, ...now });
    },
    follow: (want) => {
      isNear = want.isDiskNear === true;
      // D3: a look at the pods for another resource does not end the round.
      const isAsked = wantsDisk(want.pods) || (asked !== null && want.isDiskShort === true);
      writes.follow(isNear || isAsked);
      if (!isAsked) {
        if (!isNear) findings.clear(SHARED_FILES);
        asked = null;
        return;
      }
      asked ??= { sinceMs: clock.monoMs(), rounds: 0 };
      if (!isReady()) run();
    },
    notReady: (signal) => {
      if (signal === 'all' || !wantsDisk(signal) || asked === null || isReady()) return null;
      if (isOverdue()) return null;
      return unknown('timed-out', "the pods' directories", 'their usage is being measured');
    },
    hasNews: () => hasNews,
    takeNews: () => {
      const news = hasNews;
      hasNews = false;
      return news;
    },
    close: () => {
      isClosed = true;
      cancelTimer();
      writes.close();
    },
  };
}

function isMore({ pod }: DiskWalk, before: DiskWalk): boolean {
  return pod.volumesBytes > before.pod.volumesBytes || pod.volumesInodes > before.pod.volumesInodes;
}

const hangs = (what: string): Unknown => unknown('timed-out', what, 'a walk hangs in a file system');

/**
 * Constant until the pod runs in another cgroup or one of our stops has ended: figures from an earlier life prove nothing
 * about this one. null: it is bound to no cgroup.
 */
export function lifeOf({ cgroup, stops }: BoundPod): string | null {
  return cgroup.known ? `${cgroup.value.inode}/${stops ?? 0}` : null;
}

function wantsDisk(pods: NextLook['pods']): boolean {
  return pods === 'all' || (pods !== null && isDisk(pods));
}

function hasLimit({ declared }: BoundPod): boolean {
  return (
    declared.ephemeralStorageLimit !== null ||
    declared.volumes.some(({ sizeLimit }) => sizeLimit !== null) ||
    declared.containers.some(({ limits }) => limits.ephemeralStorage !== null)
  );
}
