import { oldestStartMs } from '../../act/oldest-start.ts';
import { CLEAN_UP } from '../../act/successors.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import type { LocatedProblem } from '../../document/problem.ts';
import { cgroupInode } from '../../host/cgroup/cgroup-inode.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { directoryOf } from '../../host/cgroup/cgroup-walk.ts';
import { anonBytes, countProcesses, isPopulated, refOf, runsUnmeasured, whereIs } from '../../host/cgroup/cgroupfs.ts';
import { currentRun, findUnit, hasRun } from '../../host/systemd/unit-path.ts';
import type { BoundPod, CgroupRef, Clock } from '../../ports.ts';
import { overlapping } from '../../words/finding-standalone.ts';
import type { Guarded } from '../manifests/bind.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import { moreProtected } from '../manifests/more-protected.ts';
import {
  type Entry,
  factsNow,
  isUnlocated,
  keyOf,
  newEntry,
  type PlaceMemory,
  unmeasured,
  whyNowhere,
} from './pod-place.ts';

type LivePodsNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  /** cgroupRoot, without a slash at its end. */
  readonly node: string;
  readonly places: PlaceMemory;
  /** An answer may still come. */
  readonly isEarly: () => boolean;
  /** Called when a new cgroup was found. */
  readonly renewed: () => void;
  /** What is measured beside the loop. */
  readonly measure: (entry: Entry) => Omit<BoundPod, 'declared' | 'cgroup' | 'containers' | 'stops'>;
};
/** The pods and the cgroup of each. */
type LivePods = {
  readonly entries: ReadonlyMap<string, Entry>;
  /** Replaces the pods; those that stay keep what is known of them. Returns those that are gone. */
  readonly replace: (manifests: readonly ManifestPod[]) => readonly Entry[];
  /** The pods at this moment (D13). On the decision path: one system call per path and nothing else. */
  readonly now: () => readonly BoundPod[];
  /** The same with slower facts: ages, and why one is missing. */
  readonly allNow: () => readonly BoundPod[];
  /** A path, or what must never be stopped, has changed. */
  readonly movedTo: (guarded: readonly Guarded[] | null) => void;
  readonly stopBegan: (uid: string) => void;
  /** `inode`: of the cgroup that was stopped; absent: unknown. */
  readonly stopEnded: (uid: string, how: 'ended' | 'survived', inode?: number) => void;
};

/** The minimum time between searches for a running unit without a known cgroup. */
const SEEK_MS = 50;
/** How often paths are read again that a tenant keeps renaming. */
const MAX_TRIES = 3;

export function createLivePods(needs: LivePodsNeeds): LivePods {
  const { clock, mounts, node, places } = needs;
  const entries = new Map<string, Entry>();
  const terminating = new Map<string, 'stopping' | 'survived'>();
  const cleaning = new Map<string, CleanUp>();
  /** The run of its unit that is being stopped, as systemd reported it last. */
  const stopping = new Map<string, string>();
  let guarded: readonly Guarded[] = [];
  let arePathsNew = true;
  let bound: readonly BoundPod[] = [];

  const collect = (): void => {
    bound = [...entries.values()].map(({ pod }) => pod);
  };

  function replace(manifests: readonly ManifestPod[]): readonly Entry[] {
    const before = new Map(entries);
    entries.clear();
    for (const manifest of manifests) {
      const { uid } = manifest.declared;
      const old = before.get(uid);
      const isSame = old !== undefined && keyOf(old.manifest) === keyOf(manifest);
      const entry = isSame ? old : newEntry(manifest, node, places);
      if (entry.manifest !== manifest) Object.assign(entry, { manifest, said: undefined });
      entries.set(uid, entry);
      entry.pod = podOf(entry);
    }
    for (const uids of [terminating, stopping]) for (const uid of uids.keys()) if (!entries.has(uid)) uids.delete(uid);
    arePathsNew = true;
    return [...before].filter(([uid, entry]) => entries.get(uid) !== entry).map(([, entry]) => entry);
  }

  function now(tries = 0): readonly BoundPod[] {
    let isOther = arePathsNew;
    if (arePathsNew) judgePaths();
    for (const entry of entries.values()) {
      const { directory, cgroup, place } = entry;
      const inode = directory === null ? 0 : cgroupInode(directory);
      if (inode === 0 && isElsewhere(entry)) continue;
      // While it is renamed, or after that, it keeps its cgroup until another one has its path.
      const renamed = inode === 0 && directory !== null && cgroup.known ? whereIs(mounts, cgroup.value) : null;
      const path = renamed?.path ?? place.path;
      const isSamePath = !cgroup.known || cgroup.value.path === path;
      if ((renamed?.inode ?? inode) === entry.inode && inode !== null && isSamePath) continue;
      entry.inode = renamed?.inode ?? inode;
      setCgroup(entry, path);
      isOther = true;
    }
    if (arePathsNew || (isOther && tries < MAX_TRIES && isOneTwice())) return now(tries + 1);
    isOther ||= tries > 0;
    if (isOther && isOneTwice()) keepOnce();
    for (const [uid, cleanUp] of cleaning) {
      const entry = entries.get(uid);
      const isRest = entry?.cgroup.known === true && isCleaningUp(mounts, entry.cgroup.value, cleanUp, clock.monoMs());
      if (isRest || (entry?.cgroup.known === false && clock.monoMs() < cleanUp.untilMs)) continue;
      cleaning.delete(uid);
      if (entry !== undefined) entry.pod = podOf(entry);
      isOther = true;
    }
    for (const [uid, as] of terminating) {
      const entry = entries.get(uid);
      if (as !== 'survived' || entry === undefined || !isEmpty(entry)) continue;
      endStop(uid);
      isOther = true;
    }
    if (isOther) collect();
    return bound;
  }

  /** Two pods with one cgroup: it was renamed while their paths were read, and what the other one has was missed. */
  function isOneTwice(): boolean {
    const inodes = [...entries.values()].flatMap(({ cgroup }) => (cgroup.known ? [cgroup.value.inode] : []));
    return new Set(inodes).size < inodes.length;
  }

  /** The one whose path it has keeps it: the other one's cgroup was renamed to that path. */
  function keepOnce(): void {
    const owners = new Map<number, Entry>();
    const isAtHome = ({ cgroup, place }: Entry): boolean => cgroup.known && cgroup.value.path === place.path;
    for (const entry of entries.values())
      if (entry.cgroup.known && isAtHome(entry)) owners.set(entry.cgroup.value.inode, entry);
    for (const entry of entries.values()) {
      const owner = entry.cgroup.known ? owners.get(entry.cgroup.value.inode) : undefined;
      if (owner === undefined || owner === entry || isAtHome(entry)) continue;
      entry.inode = 0;
      setCgroup(entry);
    }
  }

  /** It runs, but in a slice that systemd could not name yet. */
  function isElsewhere(entry: Entry): boolean {
    const { manifest, place } = entry;
    if (manifest.target.kind !== 'unit') return false;
    const unit = place.unit ?? manifest.target.unit;
    if (unit.endsWith('.slice') || clock.monoMs() - entry.soughtMs < SEEK_MS || !hasRun(unit)) return false;
    entry.soughtMs = clock.monoMs();
    const path = findUnit(directoryOf(mounts, ''), unit);
    if (path === null || path === place.path) return false;
    Object.assign(entry, { place: { path, unit, facts: null }, isReported: true, factsInode: null, isAnew: true });
    arePathsNew = true;
    return true;
  }

  function allNow(): readonly BoundPod[] {
    now();
    for (const entry of entries.values()) {
      if (!entry.cgroup.known) setCgroup(entry);
      const startedAtWallMs = startedAt(entry);
      if (startedAtWallMs === entry.startedAtWallMs) continue;
      entry.startedAtWallMs = startedAtWallMs;
      entry.pod = podOf(entry);
    }
    collect();
    return bound;
  }

  /** Which entry may be a pod at which path. Runs only when a path has changed, since it compares all of them. */
  function judgePaths(): void {
    arePathsNew = false;
    // A likely path neither takes precedence over a reported one nor is refused: the pod may be elsewhere.
    // One that is being stopped keeps its cgroup until then.
    const rank = ({ isReported, manifest: { declared } }: Entry): number =>
      2 * Number(isReported) + Number(terminating.has(declared.uid));
    const all = [...entries.values()].toSorted(
      (a, b) => rank(b) - rank(a) || moreProtected(a.manifest.declared, b.manifest.declared),
    );
    const claims = all.map(({ manifest, place }) => ({ path: place.path, problem: manifest.problem }));
    const refused = refusals(claims, node, guarded);
    for (const [i, entry] of all.entries()) {
      const { path } = entry.place;
      const judged = refused[i] ?? null;
      const why = entry.isReported ? judged : null;
      const directory = path === null || judged !== null ? null : directoryOf(mounts, path);
      if (why === entry.refused && directory === entry.directory) continue;
      Object.assign(entry, { refused: why, directory, inode: directory === null ? 0 : cgroupInode(directory) });
      setCgroup(entry);
    }
  }

  function setCgroup(entry: Entry, path = entry.place.path): void {
    const before = entry.cgroup;
    const { refused, directory, inode } = entry;
    const isByPath = entry.manifest.target.kind === 'cgroup';
    if (refused !== null) entry.cgroup = unknown('unreadable', path ?? '', refused);
    else if (path !== null && inode === 0 && isByPath && runsUnmeasured(mounts, path)) entry.cgroup = unmeasured(path);
    else if (path === null || directory === null || inode === 0) entry.cgroup = whyNowhere(entry, needs.isEarly());
    else entry.cgroup = inode === null ? refOf(mounts, path) : known({ path, inode });
    const { cgroup } = entry;
    const since = factsNow(entry)?.activeSinceWallMs ?? null;
    // Of thousands that do not run, each refresh would make as many pods anew.
    if (isSameUnknown(before, cgroup) && since === entry.startedAtWallMs) return;
    const isNew = cgroup.known && !(before.known && before.value.inode === cgroup.value.inode);
    if (isNew) {
      // Facts about the unit are from its previous run.
      if (entry.manifest.target.kind === 'unit' && entry.factsInode !== inode) entry.isAnew = true;
      if (terminating.get(entry.manifest.declared.uid) === 'survived') endStop(entry.manifest.declared.uid);
      needs.renewed();
    }
    if (before.known && !cgroup.known) entry.isAnew = true;
    if (isNew || !cgroup.known) entry.startedAtWallMs = since;
    entry.pod = podOf(entry);
  }

  function podOf(entry: Entry): BoundPod {
    const { cgroup, startedAtWallMs, stops } = entry;
    const { declared } = entry.manifest;
    const [only, ...others] = declared.containers;
    const notOne = unknown('not-applicable', declared.name, 'a manifest binds the pod, not its containers');
    return {
      declared: {
        ...declared,
        startedAtWallMs,
        isTerminating: terminating.has(declared.uid) || cleaning.has(declared.uid),
      },
      cgroup,
      ...(isUnlocated(entry) ? { isUnlocated: true } : {}),
      containers: declared.containers.map(({ name }) => ({
        name,
        cgroup: only !== undefined && others.length === 0 ? cgroup : notOne,
      })),
      stops,
      ...needs.measure(entry),
    };
  }

  /** A slice stays active while units in it end and start: once it was stopped, only its processes tell. */
  const isStoppedSlice = ({ place, stops }: Entry): boolean => stops > 0 && place.unit?.endsWith('.slice') === true;

  /** From systemd; else from its oldest process, determined once per run, and per stop of a slice. */
  function startedAt(entry: Entry): number | null {
    const { cgroup, startedAtWallMs } = entry;
    const since = (isStoppedSlice(entry) ? null : factsNow(entry)?.activeSinceWallMs) ?? startedAtWallMs;
    if (since !== null || !cgroup.known) return since;
    const oldestMs = oldestStartMs(mounts, cgroup.value);
    return oldestMs === null ? null : Math.round(clock.wallMs() - clock.monoMs() + oldestMs);
  }

  /** A pod that survived is not chosen again until its cgroup is empty or replaced. */
  function isEmpty({ cgroup }: Entry): boolean {
    const populated = cgroup.known ? isPopulated(mounts, cgroup.value) : cgroup;
    return !cgroup.known || (populated.known && !populated.value);
  }

  function endStop(uid: string): void {
    terminating.delete(uid);
    const entry = entries.get(uid);
    if (entry === undefined) return;
    entry.stops += 1;
    entry.stoppedMs = clock.monoMs();
    if (isStoppedSlice(entry)) entry.startedAtWallMs = null;
    entry.pod = podOf(entry);
  }

  /** On the path to a kill: nothing is looked up here. */
  function mark(uid: string, as: 'stopping' | 'survived'): void {
    terminating.set(uid, as);
    const entry = entries.get(uid);
    const run = entry === undefined ? undefined : factsNow(entry)?.invocationId;
    if (as === 'stopping' && run) stopping.set(uid, run);
    if (entry !== undefined) entry.pod = podOf(entry);
    collect();
  }

  return {
    entries,
    replace,
    now,
    allNow,
    movedTo: (what) => {
      arePathsNew = true;
      guarded = what ?? guarded;
    },
    stopBegan: (uid) => mark(uid, 'stopping'),
    stopEnded: (uid, how, inode) => {
      const stopped = stopping.get(uid);
      stopping.delete(uid);
      const { cgroup } = entries.get(uid) ?? {};
      // Another cgroup at its path is not what survived.
      const isStopped = inode === undefined || cgroup?.known !== true || cgroup.value.inode === inode;
      if (how === 'survived' && isStopped) return mark(uid, 'survived');
      const cleanUp = cleanUpOf(entries.get(uid)?.place.unit ?? null, clock.monoMs());
      // systemd may have started its unit again by now.
      if (cleanUp !== null && (stopped ?? cleanUp.run) === cleanUp.run) cleaning.set(uid, cleanUp);
      endStop(uid);
      collect();
    },
  };
}

const isSameUnknown = (one: Reading<CgroupRef>, other: Reading<CgroupRef>): boolean =>
  !one.known && !other.known && one.why === other.why && one.where === other.where && one.detail === other.detail;

/** The part of a binding that decides whether it is refused. */
type Claim = { readonly path: string | null; readonly problem: (text: string) => LocatedProblem };

/**
 * Why each of these cgroups must not be a pod; null: it may. Of two that are equal or nested, the first one stays. Paths
 * are looked up by their parts, so that the cost grows linearly with the number of bindings.
 */
function refusals(claims: readonly Claim[], node: string, guarded: readonly Guarded[]): readonly (string | null)[] {
  const holdsGuarded = new Map(guarded.flatMap(({ what, path }) => withParents(path).map((part) => [part, what])));
  const taken = new Map<string, Claim>();
  const holdsTaken = new Map<string, Claim>();
  return claims.map((claim) => {
    const { path } = claim;
    if (path === null) return null;
    const what = holdsGuarded.get(path);
    if (what !== undefined) return `${path} contains ${what}, which must never be stopped`;
    if (node !== '/' && !path.startsWith(`${node}/`)) {
      return `${path} is not below ${node}, the node that cgroupRoot names: stopping it would free nothing on that node`;
    }
    const parts = withParents(path);
    const holder = parts.find((part) => taken.has(part));
    const other = holder === undefined ? holdsTaken.get(path) : taken.get(holder);
    if (other !== undefined) {
      const { file, line, column } = other.problem('');
      return overlapping(path, other.path ?? '', `${file}:${line}:${column}`);
    }
    taken.set(path, claim);
    for (const part of parts) holdsTaken.set(part, claim);
    return null;
  });
}

/** `/a/b` is in `/`, `/a` and itself. */
function withParents(path: string): readonly string[] {
  const parts = ['/'];
  for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) parts.push(path.slice(0, at));
  return path === '/' ? parts : [...parts, path];
}

/** A stopped run of a unit that may still clean up (ExecStopPost=) in the cgroup that was seen empty. */
type CleanUp = { readonly unit: string; readonly run: string; readonly untilMs: MonoMs };

/** As long as the eviction waits for its proof (D3). */
const CLEAN_UP_MS = 10_000;

/** Null: systemd no longer has this run, so it cannot do anything any more. */
function cleanUpOf(unit: string | null, nowMs: MonoMs): CleanUp | null {
  const run = unit === null ? null : currentRun(unit);
  return unit === null || !run?.known ? null : { unit, run: run.value, untilMs: nowMs + CLEAN_UP_MS };
}

/** Whether the cgroup holds only the small rest of that run, which must not be chosen as a victim. */
function isCleaningUp(mounts: CgroupMounts, ref: CgroupRef, cleanUp: CleanUp, nowMs: MonoMs): boolean {
  const run = currentRun(cleanUp.unit);
  if (nowMs >= cleanUp.untilMs || !run.known || run.value !== cleanUp.run) return false;
  const processes = countProcesses(mounts, ref);
  const anon = anonBytes(mounts, ref);
  return processes.known && processes.value <= CLEAN_UP.processes && anon.known && anon.value <= CLEAN_UP.bytes;
}
