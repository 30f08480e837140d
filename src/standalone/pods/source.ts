import { podName } from '../../core/pod/pod.ts';
import { known, type MonoMs, type Reading } from '../../core/reading.ts';
import { cgroupInode } from '../../host/cgroup/cgroup-inode.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { directoryOf } from '../../host/cgroup/cgroup-walk.ts';
import { hasProcesses } from '../../host/cgroup/cgroupfs.ts';
import { sleep } from '../../host/clock.ts';
import { createDiskWalker } from '../../host/disk/disk-walk.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { CommandRunner } from '../../host/systemd/transient.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import type { BoundPod, CgroupRef, Clock, PodSource } from '../../ports.ts';
import { unreapedId } from '../../words/finding-eviction.ts';
import { bindingId, leftMemoryId, refusedScratchId, unsafeScratchId } from '../../words/finding-standalone.ts';
import { type Guarded, guardedNow, guardedUnits } from '../manifests/bind.ts';
import { followManifests, REREAD_MS } from '../manifests/follow-manifests.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import type { ManifestFilesNeeds } from '../manifests/manifest-files.ts';
import type { Place } from '../manifests/place.ts';
import { podmanBy } from '../manifests/podman.ts';
import { createResolver } from '../manifests/resolver.ts';
import { createBindingFindings } from './binding-findings.ts';
import { createLeftMemory } from './left-memory.ts';
import { createLivePods } from './live-pods.ts';
import { podDisk } from './pod-disk.ts';
import {
  besideUnread,
  createPlaceMemory,
  type Entry,
  factsNow,
  identityOf,
  isAnswerDue,
  isOf,
  isPlaced,
  isToAsk,
  isUnseen,
  keyOf,
  notYet,
  type PlaceMemory,
  unitOf,
} from './pod-place.ts';
import { createPodmanDoubts } from './podman-doubts.ts';
import { createScratchPlaces, type ScratchNeeds, withSafeScratch } from './scratch-places.ts';
import { createSeenDirectories, type SeenDirectories } from './seen-directories.ts';

type SourceNeeds = ManifestFilesNeeds &
  ScratchNeeds & {
    readonly clock: Clock;
    readonly mounts: CgroupMounts;
    readonly cgroupRoot: string;
    readonly systemd: Systemd;
    readonly wake: () => void;
    readonly run?: CommandRunner;
    readonly runtimeDirectory: string;
    /** What an earlier configuration of this run knew; absent: nothing. */
    readonly places?: PlaceMemory;
  };
/** What the killer needs to know about a pod. */
export type LivePod = {
  readonly manifest: ManifestPod;
  /** Unknown with `not-asked` until the binding is first looked up. */
  readonly cgroup: Reading<CgroupRef>;
  /** Where its cgroup is, or will be when it runs; null: not known. */
  readonly path: string | null;
  /** Its own name, if systemd has reported it. */
  readonly unit: string | null;
  /** What systemd reported for the current run; null: no unit, or not reported. */
  readonly facts: UnitFacts | null;
};
export type StandaloneSource = PodSource & {
  readonly find: (uid: string) => LivePod | null;
  /**
   * Resolves once the scratch directories of the present manifests were checked: those that would not be emptied are
   * findings.
   */
  readonly scratchTold: () => Promise<void>;
  /** The pods as their manifests declare them. */
  readonly declared: () => readonly ManifestPod[];
  readonly seen: SeenDirectories;
  /** False right after the start, while no query has been answered: then running pods may be missing. */
  readonly isSettled: () => boolean;
  /** Units, other than slices, that run where they cannot be measured; as of the last refresh. */
  readonly unseen: () => ReadonlySet<string>;
  /** Those with processes, as declared. */
  readonly running: () => readonly BoundPod['declared'][];
  /** The pod is terminating until `stopEnded` or, if it survived, until its cgroup is empty. */
  readonly stopBegan: (uid: string) => void;
  readonly stopEnded: (uid: string, how: 'ended' | 'survived', inode?: number) => void;
  /** Resolves once systemd has said anew what its unit does, or after half a second. */
  readonly askedAnew: (uid: string) => Promise<void>;
};

/** How often ages, refusals and findings are refreshed; `pods()` always returns the pods as they are at that moment. */
const REFRESH_MS = 2_000;
/** If looks are further apart than REFRESH_MS: with the next look, by default within 10 s. */
const FAR_REFRESH_MS = 11_000;
const SOON_MS = 5;
/** A refresh takes longer the more pods there are: with thousands, it waits for more answers. */
const SOON_PODS_PER_MS = 20;
/** While a victim must be chosen, new pods are searched for: at most 1 % of a core. */
const WATCH_MS = 2_500;
const WATCH_PACE_MS = 20;
const WATCHED_PER_MS = 5;
/** The maximum time from a pod's cgroup to its first page of memory. */
const BEGIN_MS = 500;
/** How long no pod is chosen because an answer is missing (D13), and how long a shutdown waits for one. */
const SETTLE_MS = 2_000;
const SETTLE_SHUTDOWN_MS = 500;
/** How long to wait for systemd's bus to start before reporting its absence. */
const BUS_PATIENCE_MS = 5_000;

/** The pods of the manifests directory with what they are bound to, kept current beside the loop. */
export function createStandaloneSource(needs: SourceNeeds): StandaloneSource {
  const { clock, mounts, systemd, findings } = needs;
  const manifests = followManifests({
    ...needs,
    changed: () => {
      adopt();
      refreshAgain(true);
    },
    added: () => {
      adopt();
      soon();
    },
  });
  const walker = createDiskWalker(clock);
  const places = needs.places ?? createPlaceMemory();
  const seen = createSeenDirectories();
  const startMs = clock.monoMs();
  const sinceStartMs = (): number => clock.monoMs() - startMs;
  const isEarly = (): boolean => sinceStartMs() < BUS_PATIENCE_MS;
  const live = createLivePods({
    clock,
    mounts,
    node: needs.cgroupRoot.replace(/\/+$/, '') || '/',
    places,
    isEarly,
    renewed: () => {
      renewedMs = clock.monoMs();
      soon();
    },
    measure: ({ manifest, cgroup, stoppedMs }) => podDisk({ walker, mounts, manifest, cgroup, seen, stoppedMs }),
  });
  const { entries } = live;
  const asks = { clock, systemd, podman: podmanBy(needs.run, needs.runtimeDirectory) };
  const resolver = createResolver<Entry>({ ...asks, questions: () => entries.values(), isDue, answered });
  let guarded: readonly Guarded[] = [];
  let movedUnits: readonly Guarded[] = [];
  let before: readonly BoundPod[] = [];
  let unseen: ReadonlySet<string> = new Set();
  let hasSettled = false;
  let refreshedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let renewedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let chosenFromMs: MonoMs = Number.NEGATIVE_INFINITY;
  let cancelWatch: (() => void) | null = null;
  let isFar = false;
  let isClosed = false;
  let cancelTimer: () => void = () => undefined;
  let cancelSoon: (() => void) | null = null;

  const told = createBindingFindings({ clock, findings, isEarly, again: soon });
  const tellUnsafe = createScratchPlaces(findings, seen, needs.hangs);
  const tellLeftMemory = createLeftMemory(mounts, findings);
  let scratchTold = Promise.resolve();
  function adopt(): void {
    const declared = manifests.declared();
    const { pods, refused } = withSafeScratch(declared, needs.own ?? []);
    seen.keepOnly(declared.flatMap(({ disk, scratch }) => [...disk, ...scratch]));
    for (const { manifest } of live.replace(pods)) {
      const pod = podName(manifest.declared);
      for (const idOf of [bindingId, leftMemoryId, refusedScratchId, unreapedId, unsafeScratchId])
        findings.clear(idOf(pod));
    }
    for (const finding of refused) findings.raise(finding);
    scratchTold = tellUnsafe(pods, declared);
    const keys = new Set([...entries.values()].map(({ manifest }) => keyOf(manifest)));
    for (const key of places.keys()) if (!keys.has(key)) places.delete(key);
  }

  /** Refreshes everything beside the loop, including slow facts and findings. */
  function refresh(): void {
    refreshedMs = clock.monoMs();
    const now = [...guardedNow(mounts), ...movedUnits];
    if (JSON.stringify(now) !== JSON.stringify(guarded)) live.movedTo(now);
    guarded = now;
    const bound = live.allNow();
    for (const entry of entries.values()) told.tell(entry);
    const found = [...entries].filter(([, entry]) => isUnseen(entry) && unitOf(entry)?.endsWith('.slice') === false);
    unseen = new Set(found.map(([uid]) => uid));
    const isOther = JSON.stringify(before.map(identityOf)) !== JSON.stringify(bound.map(identityOf));
    before = bound;
    const isFirstSettled = !hasSettled && isSettled();
    hasSettled ||= isFirstSettled;
    if (isOther || isFirstSettled) needs.wake();
    resolver.pump();
  }

  /** Once for all answers that arrive together. */
  function soon(): void {
    cancelSoon ??= clock.after(Math.max(SOON_MS, entries.size / SOON_PODS_PER_MS), () => {
      cancelSoon = null;
      if (!isClosed) refresh();
    });
  }

  /** If this answer failed, what was known stays in force, and its path is still checked. */
  function answered(entry: Entry, answer: Reading<Place>): void {
    const { isOutrun } = entry;
    if (isAnswerDue(entry)) doubts.answered();
    if (!isOutrun) entry.unanswered = answer.known ? null : answer;
    if (answer.known) {
      const { path, facts } = answer.value;
      if (path !== entry.place.path || !entry.isReported) live.movedTo(null);
      entry.isReported ||= !isOutrun;
      entry.place = answer.value;
      places.set(keyOf(entry.manifest), answer.value);
      // A unit that started or ended during the query is queried again.
      const inode = path === null ? 0 : cgroupInode(directoryOf(mounts, path));
      entry.factsInode = facts !== null && (facts.controlGroup !== null) === (inode !== 0) ? inode : null;
    }
    soon();
  }

  function isDue(entry: Entry): boolean {
    if (entries.get(entry.manifest.declared.uid) !== entry) return false;
    return isToAsk(entry, { atMs: clock.monoMs(), isFar, isUp: systemd.isUp(), pods: entries.size });
  }

  /** A start or stop has begun or ended, or the bus is back. */
  function askAgain(isMeant: (entry: Entry) => boolean): void {
    for (const entry of entries.values()) if (isMeant(entry)) entry.isAnew = true;
    resolver.pump();
  }

  async function askedAnew(uid: string): Promise<void> {
    const entry = entries.get(uid);
    if (entry === undefined || entry.manifest.target.kind === 'cgroup') return;
    askAgain((one) => one === entry);
    const endMs = clock.monoMs() + SETTLE_SHUTDOWN_MS;
    const isOpen = (): boolean => !isClosed && clock.monoMs() < endMs;
    const isAsked = (): boolean => entry.isAsking || entry.isAnew || cancelSoon !== null;
    while (isAsked() && isOpen()) await sleep(clock, SOON_MS);
  }

  function tick(): void {
    if (isClosed) return;
    manifests.rereadIfDue();
    refreshAgain();
    // Not with each refresh: one follows the news of a pod that has just started, and may have to be chosen next.
    tellLeftMemory(before);
  }

  /** Without pods there is only the directory to refresh. */
  function refreshAgain(isChanged = false): void {
    // Far from every threshold, the look of this wake-up may have refreshed already.
    if (isChanged || !isFar || !isFresh()) refresh();
    else resolver.pump();
    if (entries.size === 0) tickAfter(REREAD_MS);
    else tickAfter(isFar ? FAR_REFRESH_MS : REFRESH_MS);
  }

  function tickAfter(ms: number): void {
    cancelTimer();
    cancelTimer = clock.after(ms, tick);
  }

  /**
   * A victim must be chosen. If none can be, looks are a second apart, and a pod that starts meanwhile may fill the node
   * within that time. So new pods are watched for, and looks are woken until such a pod has had time to allocate memory.
   */
  function watch(): void {
    chosenFromMs = clock.monoMs();
    if (cancelWatch !== null) return;
    const again = (): void => {
      cancelWatch = null;
      const nowMs = clock.monoMs();
      if (isClosed || nowMs - chosenFromMs > WATCH_MS) return;
      void manifests.takeNew();
      live.now();
      if (nowMs - renewedMs <= BEGIN_MS) needs.wake();
      cancelWatch = clock.after(paceMs(), again);
    };
    const paceMs = (): number => Math.max(WATCH_PACE_MS, entries.size / WATCHED_PER_MS);
    cancelWatch = clock.after(paceMs(), again);
  }

  /** Far from every threshold, paths are checked right after the node: one wake-up for both. */
  function follow(afterMs: number): void {
    const wasFar = isFar;
    isFar = afterMs > REFRESH_MS;
    if (entries.size === 0) return;
    const sinceMs = clock.monoMs() - refreshedMs;
    if (isFar && sinceMs + afterMs >= FAR_REFRESH_MS) tickAfter(0);
    else if (wasFar && !isFar) tickAfter(Math.max(REFRESH_MS - sinceMs, 0));
  }

  const isFresh = (): boolean => clock.monoMs() - refreshedMs < REFRESH_MS;
  const unplaced = (): readonly Entry[] => [...entries.values()].filter((entry) => !isPlaced(entry));
  const isSettled = (): boolean =>
    manifests.isRead() && (hasSettled || sinceStartMs() >= SETTLE_MS || unplaced().length === 0);
  const doubts = createPodmanDoubts({
    clock,
    entries: () => entries.values(),
    look: live.now,
    doubted: () => {
      live.allNow();
      soon();
      resolver.pump();
    },
  });
  // From the start of a job on, the path of a unit that did not exist before is known.
  const endBegins = systemd.whenJobBegins((unit) => {
    doubts.began(unit);
    askAgain((entry) => isOf(entry, unit));
  });
  const endJobs = systemd.whenJobEnds(({ unit }) => askAgain((entry) => isOf(entry, unit)));
  const askAnew = (): void => {
    doubts.doubt();
    void guardedUnits(systemd).then((moved) => {
      movedUnits = moved;
      if (!isClosed) soon();
    });
    askAgain((entry) => entry.manifest.target.kind === 'unit');
  };
  const endUps = systemd.whenUp(askAnew);
  const endReloads = systemd.whenReloading((isReloading) => (isReloading ? undefined : askAnew()));
  const cancelSettle = clock.after(SETTLE_MS, soon);
  if (systemd.isUp()) askAnew();
  tick();

  return {
    pods: () => {
      const read = manifests.pods();
      if (!read.known) return read;
      const bound = live.now();
      return known(manifests.areAllRead() ? bound : bound.map(besideUnread));
    },
    opened: manifests.opened,
    freshen: manifests.freshen,
    unsettled: (forWhat) => {
      if (forWhat !== null) watch();
      const patienceMs = forWhat === 'all' ? SETTLE_SHUTDOWN_MS : SETTLE_MS;
      if (hasSettled || sinceStartMs() >= patienceMs) return null;
      live.now();
      const [first, ...others] = unplaced();
      return first === undefined ? null : notYet(first, others.length);
    },
    follow,
    isSettled,
    unseen: () => unseen,
    running: () =>
      live
        .now()
        .filter(({ cgroup }) => cgroup.known && hasProcesses(mounts, cgroup.value))
        .map(({ declared }) => declared),
    scratchTold: () => scratchTold,
    declared: manifests.declared,
    seen,
    find: (uid) => {
      const entry = entries.get(uid);
      if (entry === undefined) return null;
      const { manifest, cgroup, directory, place } = entry;
      const path = cgroup.known ? cgroup.value.path : directory === null ? null : place.path;
      return { manifest, cgroup, path, unit: unitOf(entry), facts: factsNow(entry) };
    },
    stopBegan: live.stopBegan,
    stopEnded: live.stopEnded,
    askedAnew,
    close: async () => {
      isClosed = true;
      cancelTimer();
      cancelSettle();
      cancelSoon?.();
      cancelWatch?.();
      manifests.close();
      endBegins();
      doubts.close();
      told.close();
      endJobs();
      endUps();
      endReloads();
      resolver.close();
      walker.close();
    },
  };
}
