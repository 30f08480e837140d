import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { SYSTEM_BUS } from '../host/bus.ts';
import { type CgroupMounts, isPopulated, refOf } from '../host/cgroupfs.ts';
import { createDiskWalker } from '../host/disk-walk.ts';
import { watchPath } from '../host/files.ts';
import type { Systemd, UnitFacts } from '../host/systemd.ts';
import type { BoundPod, CgroupRef, Clock, Findings, PodSource } from '../ports.ts';
import { oldestStartMs } from './age.ts';
import {
  cgroupPlace,
  type Guarded,
  guardedNow,
  guardedUnits,
  isWithin,
  type Place,
  refusal,
  resolveTarget,
} from './bind.ts';
import type { ManifestPod } from './manifest.ts';
import { createManifestFiles } from './manifest-files.ts';
import { measuring } from './measuring.ts';

export type SourceNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly cgroupRoot: string;
  readonly podManifests: string;
  readonly systemd: Systemd;
  readonly findings: Findings;
  readonly wake: () => void;
};
/** What the killer needs of a pod. */
export type LivePod = {
  readonly manifest: ManifestPod;
  /** Unknown with `not-asked` as long as the binding was never looked up. */
  readonly cgroup: Reading<CgroupRef>;
  readonly unit: string | null;
  /** As systemd said last; null: no unit, or it did not say. */
  readonly facts: UnitFacts | null;
};
export type StandaloneSource = PodSource & {
  readonly find: (uid: string) => LivePod | null;
  /** False right after the start, while systemd has not told what the pods are bound to: then pods that run are missing. */
  readonly isSettled: () => boolean;
  /** Those with processes, as declared. */
  readonly running: () => readonly BoundPod['declared'][];
  /** The pod is terminating until `stopEnded`, or, where it survived, until its cgroup is empty. */
  readonly stopBegan: (uid: string) => void;
  readonly stopEnded: (uid: string, how: 'ended' | 'survived') => void;
};

/**
 * How often paths are looked at again, as a restarted unit has a new cgroup under its old path: so often near a threshold,
 * and when somebody asks; with the looks otherwise.
 */
const REFRESH_MS = 2_000;
/** Where the looks are further apart than that: with a look, which by default comes within 10 s. */
const FAR_REFRESH_MS = 11_000;
/** How often systemd and podman are asked again about what does not run. */
const RESOLVE_MS = 5_000;
/** The same of systemd far from every threshold: it tells by itself when a start has ended. */
const FAR_RESOLVE_MS = 60_000;
/** The directory is watched; this is for the event that got lost. */
const REREAD_MS = 30_000;
/** A start of systemd's bus is waited for before its absence is told. */
const BUS_PATIENCE_MS = 5_000;

type Entry = {
  readonly manifest: ManifestPod;
  place: Reading<Place>;
  /** ASK_NOW: what is known may have changed. */
  askedMs: MonoMs;
  /** Unknown: it does not run, or must not be used. */
  cgroup: Reading<CgroupRef>;
  startedAtWallMs: number | null;
  /** Stops of ours that have ended. */
  stops: number;
};

/** The pods of the manifests directory with what they are bound to, kept current beside the loop. */
export function createStandaloneSource(needs: SourceNeeds): StandaloneSource {
  const { clock, mounts, systemd, findings } = needs;
  const files = createManifestFiles(needs.podManifests, findings);
  const walker = createDiskWalker(clock);
  const entries = new Map<string, Entry>();
  const terminating = new Map<string, 'stopping' | 'survived'>();
  const startMs = clock.monoMs();
  let movedUnits: readonly Guarded[] = [];
  let bound: readonly BoundPod[] = [];
  let hasSettled = false;
  let readMs: MonoMs = Number.NEGATIVE_INFINITY;
  let refreshedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let isFar = false;
  let isResolving = false;
  let isClosed = false;
  let cancelTimer: () => void = () => undefined;

  function readManifests(): void {
    readMs = clock.monoMs();
    if (!files.read()) return;
    const before = new Map(entries);
    entries.clear();
    for (const manifest of files.pods()) {
      const { uid } = manifest.declared;
      const old = before.get(uid);
      const isSameTarget = old !== undefined && JSON.stringify(old.manifest.target) === JSON.stringify(manifest.target);
      entries.set(uid, isSameTarget ? { ...old, manifest } : newEntry(manifest, needs.cgroupRoot));
    }
    for (const [uid, { manifest }] of before) {
      if (!entries.has(uid)) terminating.delete(uid);
      findings.clear(findingOf(manifest));
    }
  }

  /** Synchronous: paths to cgroups, refusals, conflicts, ages; then the list that `pods` gives. */
  function refresh(): void {
    refreshedMs = clock.monoMs();
    const guarded = [...guardedNow(mounts), ...movedUnits];
    const taken: { readonly path: string; readonly problem: () => Problem }[] = [];
    const before = bound;
    for (const [uid, entry] of entries) {
      const old = entry.cgroup;
      entry.cgroup = cgroupOf(entry, guarded, taken);
      const isNew = entry.cgroup.known && !(old.known && old.value.inode === entry.cgroup.value.inode);
      if (isNew || entry.startedAtWallMs === null) entry.startedAtWallMs = startedAt(entry);
      if (isNew || terminating.get(uid) === 'survived') settle(uid, entry);
    }
    bound = [...entries].map(([uid, entry]) => boundPod(entry, terminating.has(uid)));
    const isOther = JSON.stringify(before.map(identityOf)) !== JSON.stringify(bound.map(identityOf));
    const isFirstSettled = !hasSettled && isSettled();
    hasSettled ||= isFirstSettled;
    if (isOther || isFirstSettled) needs.wake();
  }

  /** A pod that survived stays out of every choice until its cgroup is empty or another one. */
  function settle(uid: string, { cgroup }: Entry): void {
    if (terminating.get(uid) !== 'survived') return;
    const populated = cgroup.known ? isPopulated(mounts, cgroup.value) : cgroup;
    if (!cgroup.known || (populated.known && !populated.value)) endStop(uid);
  }

  function cgroupOf(
    { manifest, place }: Entry,
    guarded: readonly Guarded[],
    taken: { readonly path: string; readonly problem: () => Problem }[],
  ): Reading<CgroupRef> {
    const id = findingOf(manifest);
    const refuse = (text: string, where: string): Reading<CgroupRef> => {
      findings.raise({ id, text: sayProblem(manifest.problem(text)) });
      return unknown('unreadable', where, text);
    };
    if (!place.known) {
      if (place.why === 'not-asked' || (isBusMissing(place) && isEarly() && manifest.target.kind === 'unit'))
        return place;
      return refuse(`cannot be resolved: ${place.where}: ${place.detail}`, place.where);
    }
    const { path, unit } = place.value;
    if (path === null) {
      findings.clear(id);
      return unknown('absent', unit ?? '', 'it is not running');
    }
    const refused = refusal(path, guarded);
    if (refused !== null) return refuse(refused, path);
    const other = taken.find((earlier) => isWithin(earlier.path, path) || isWithin(path, earlier.path));
    if (other !== undefined) {
      const { file, line, column } = other.problem();
      return refuse(`${path} is, holds or lies in ${other.path}, which is bound at ${file}:${line}:${column}`, path);
    }
    taken.push({ path, problem: () => manifest.problem('') });
    const ref = refOf(mounts, path);
    if (!ref.known && ref.why !== 'absent') return refuse(`${ref.where}: ${ref.detail}`, path);
    findings.clear(id);
    return ref;
  }

  function startedAt({ place, cgroup }: Entry): number | null {
    const since = place.known ? (place.value.facts?.activeSinceWallMs ?? null) : null;
    if (since !== null || !cgroup.known) return since;
    const oldestMs = oldestStartMs(mounts, cgroup.value);
    return oldestMs === null ? null : Math.round(clock.wallMs() - clock.monoMs() + oldestMs);
  }

  function boundPod({ manifest, cgroup, startedAtWallMs, stops }: Entry, isTerminating: boolean): BoundPod {
    const { declared } = manifest;
    const [only, ...others] = declared.containers;
    const notOne = unknown('not-applicable', declared.name, 'a manifest binds the pod, not its containers');
    return {
      declared: { ...declared, startedAtWallMs, isTerminating },
      cgroup,
      containers: declared.containers.map(({ name }) => ({
        name,
        cgroup: only !== undefined && others.length === 0 ? cgroup : notOne,
      })),
      stops,
      ...measuring({ walker, mounts, manifest, cgroup }),
    };
  }

  /** Asks about everything that is due, one after another; never two rounds at a time. */
  async function resolve(): Promise<void> {
    if (isResolving) return;
    isResolving = true;
    for (let entry = nextDue(); entry !== undefined && !isClosed; entry = nextDue()) {
      entry.askedMs = clock.monoMs();
      const { target } = entry.manifest;
      if (target.kind === 'cgroup') continue;
      const place = await resolveTarget(systemd, target);
      // With the bus away what was known of a unit still holds: its path does not change.
      if (place.known || !entry.place.known || systemd.isUp()) entry.place = place;
      if (!isClosed) refresh();
    }
    isResolving = false;
  }

  /** Units first: podman takes its time. */
  function nextDue(): Entry | undefined {
    const due = [...entries.values()].filter(isDue);
    return due.find(({ manifest }) => manifest.target.kind === 'unit') ?? due[0];
  }

  function isDue(entry: Entry): boolean {
    if (entry.manifest.target.kind === 'cgroup') return false;
    if (entry.askedMs === ASK_NOW) return true;
    const isRunning = entry.place.known && entry.place.value.path !== null && entry.cgroup.known;
    const isTold = entry.manifest.target.kind === 'unit' && entry.place.known && systemd.isUp();
    const pauseMs = isFar && isTold ? FAR_RESOLVE_MS : RESOLVE_MS;
    return !isRunning && clock.monoMs() - entry.askedMs >= pauseMs;
  }

  /** A start or stop has ended, or the bus is back. */
  function askAgain(isMeant: (entry: Entry) => boolean): void {
    for (const entry of entries.values()) if (isMeant(entry)) entry.askedMs = ASK_NOW;
    void resolve();
  }

  function tick(): void {
    if (isClosed) return;
    if (clock.monoMs() - readMs >= REREAD_MS) readManifests();
    lookAgain();
  }

  /** With no pod there is nothing to look at but the directory. */
  function lookAgain(): void {
    // Far from every threshold the look of this wake-up may have done it.
    if (!isFar || readMs >= refreshedMs || !isFresh()) refresh();
    void resolve();
    if (entries.size === 0) tickAfter(REREAD_MS);
    else tickAfter(isFar ? FAR_REFRESH_MS : REFRESH_MS);
  }

  function tickAfter(ms: number): void {
    cancelTimer();
    cancelTimer = clock.after(ms, tick);
  }

  /** Far from every threshold paths are looked at right after the node: one wake-up for both. */
  function follow(afterMs: number): void {
    const wasFar = isFar;
    isFar = afterMs > REFRESH_MS;
    if (entries.size === 0) return;
    const sinceMs = clock.monoMs() - refreshedMs;
    if (isFar && sinceMs + afterMs >= FAR_REFRESH_MS) tickAfter(0);
    else if (wasFar && !isFar) tickAfter(Math.max(REFRESH_MS - sinceMs, 0));
  }

  /** On the path to a kill: nothing is looked up here. */
  function mark(uid: string, as: 'stopping' | 'survived' | null): void {
    if (as === null) endStop(uid);
    else terminating.set(uid, as);
    const stops = entries.get(uid)?.stops ?? 0;
    bound = bound.map((pod) =>
      pod.declared.uid === uid ? { ...pod, stops, declared: { ...pod.declared, isTerminating: as !== null } } : pod,
    );
  }

  function endStop(uid: string): void {
    terminating.delete(uid);
    const entry = entries.get(uid);
    if (entry !== undefined) entry.stops += 1;
  }

  const isFresh = (): boolean => clock.monoMs() - refreshedMs < REFRESH_MS;
  const current = (): readonly BoundPod[] => {
    if (!isFresh()) refresh();
    return bound;
  };
  const isEarly = (): boolean => clock.monoMs() - startMs < BUS_PATIENCE_MS;
  const isPlaced = ({ place, manifest }: Entry): boolean =>
    place.known || manifest.target.kind === 'cgroup' || (place.why !== 'not-asked' && !isBusMissing(place));
  const isSettled = (): boolean => !isEarly() || [...entries.values()].every(isPlaced);
  const unitOf = ({ place, manifest }: Entry): string | null =>
    place.known ? place.value.unit : manifest.target.kind === 'unit' ? manifest.target.unit : null;
  const isPopulatedNow = (cgroup: Reading<CgroupRef>): boolean => {
    const populated = cgroup.known ? isPopulated(mounts, cgroup.value) : cgroup;
    return populated.known && populated.value;
  };
  const endWatch = watchPath(
    needs.podManifests,
    () => {
      readManifests();
      lookAgain();
    },
    clock,
  );
  const endJobs = systemd.whenJobEnds(({ unit }) => askAgain((entry) => unitOf(entry) === unit));
  const askAnew = (): void => {
    void guardedUnits(systemd).then((moved) => {
      movedUnits = moved;
    });
    askAgain((entry) => entry.manifest.target.kind === 'unit');
  };
  const endUps = systemd.whenUp(askAnew);
  readManifests();
  if (systemd.isUp()) askAnew();
  tick();

  return {
    pods: () => known(current()),
    follow,
    isSettled,
    running: () =>
      current()
        .filter(({ cgroup }) => isPopulatedNow(cgroup))
        .map(({ declared }) => declared),
    find: (uid) => {
      const entry = entries.get(uid);
      if (entry === undefined) return null;
      const { manifest, cgroup, place } = entry;
      return { manifest, cgroup, unit: unitOf(entry), facts: place.known ? place.value.facts : null };
    },
    stopBegan: (uid) => mark(uid, 'stopping'),
    stopEnded: (uid, how) => mark(uid, how === 'survived' ? 'survived' : null),
    close: async () => {
      isClosed = true;
      cancelTimer();
      endWatch();
      endJobs();
      endUps();
      walker.close();
    },
  };
}

const ASK_NOW = Number.NEGATIVE_INFINITY;
const NOT_ASKED = unknown('not-asked', 'binding', 'not looked up yet');
/** The answer of a bus that is not there (yet): nothing was asked. */
const isBusMissing = (place: Reading<Place>): boolean => !place.known && place.where === SYSTEM_BUS;
const findingOf = ({ declared: { namespace, name } }: ManifestPod): string => `binding/${namespace}/${name}`;

function newEntry(manifest: ManifestPod, cgroupRoot: string): Entry {
  const { target } = manifest;
  const place = target.kind === 'cgroup' ? known(cgroupPlace(cgroupRoot, target)) : NOT_ASKED;
  return { manifest, place, askedMs: ASK_NOW, cgroup: NOT_ASKED, startedAtWallMs: null, stops: 0 };
}

/** What of a pod makes a look worth while when it changes. */
function identityOf({ declared, cgroup }: BoundPod): readonly unknown[] {
  return [declared.uid, declared.isTerminating, cgroup.known ? cgroup.value.inode : null];
}
