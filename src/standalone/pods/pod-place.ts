import { podName } from '../../core/pod/pod.ts';
import { type MonoMs, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { SYSTEM_BUS } from '../../host/systemd/bus.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import type { BoundPod, CgroupRef } from '../../ports.ts';
import { noAnswerYet, sayUnlocated } from '../../words/finding-standalone.ts';
import { cgroupPlace, likelyPlace } from '../manifests/bind.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import type { Place } from '../manifests/place.ts';
import { NEW_QUESTION, type Question } from '../manifests/resolver.ts';

/** A pod of the manifests, and everything known about where it runs. */
export type Entry = Question & {
  manifest: ManifestPod;
  /** As systemd or podman reported last, or a likely path: a failed query changes nothing. */
  place: Place;
  /** Why the last query has no answer; null: it has one, or none is needed. */
  unanswered: Unknown | null;
  /** Whether systemd or podman ever reported where it is. */
  isReported: boolean;
  /** The inode of the cgroup that the unit's facts are about; 0: there was none; null: unknown. */
  factsInode: number | null;
  /** When its cgroup was last searched for in every slice. */
  soughtMs: number;
  /** Why it must not be a pod, as a sentence. */
  refused: string | null;
  /** The path that shows whether it runs; null: unknown. */
  directory: string | null;
  /** As last seen: 0 = it does not exist, null = not known. */
  inode: number | null;
  /** Unknown: it does not run, or must not be used. */
  cgroup: Reading<CgroupRef>;
  startedAtWallMs: number | null;
  /** How many of our stops of it have ended. */
  stops: number;
  /** When the last one had. */
  stoppedMs: MonoMs | null;
  /** The complaint that is a finding; null: none; undefined: its position in the manifest may be another one now. */
  said: string | null | undefined;
  /** Since when its answer is due, as far as was noticed; null: it is not. */
  dueMs: MonoMs | null;
  pod: BoundPod;
};
/** Answers about bindings, kept while a reload recreates the parts. */
export type PlaceMemory = Map<string, Place>;
export const createPlaceMemory = (): PlaceMemory => new Map();

export const NOT_ASKED = unknown('not-asked', 'binding', 'not looked up yet');
export const keyOf = ({ target }: ManifestPod): string => JSON.stringify(target);

export function newEntry(manifest: ManifestPod, cgroupRoot: string, memory: PlaceMemory): Entry {
  const { target } = manifest;
  const remembered = memory.get(keyOf(manifest));
  const isReported = target.kind === 'cgroup' || remembered !== undefined;
  const { declared } = manifest;
  return {
    ...NEW_QUESTION,
    manifest,
    place: target.kind === 'cgroup' ? cgroupPlace(cgroupRoot, target) : (remembered ?? likelyPlace(target)),
    unanswered: isReported ? null : NOT_ASKED,
    isReported,
    factsInode: null,
    soughtMs: Number.NEGATIVE_INFINITY,
    refused: null,
    directory: null,
    inode: 0,
    cgroup: NOT_ASKED,
    startedAtWallMs: null,
    stops: 0,
    stoppedMs: null,
    said: null,
    dueMs: null,
    pod: { declared, cgroup: NOT_ASKED, containers: [], disk: async () => NOT_ASKED },
  };
}

/** No query was sent: there is no bus (yet). */
const isBusMissing = (why: Unknown): boolean => why.where === SYSTEM_BUS;

/** Whether it is known where it runs, or that it does not run: by its cgroup, otherwise by an answered query. */
export function isPlaced({ cgroup, unanswered, isReported }: Entry): boolean {
  if (cgroup.known || isReported || unanswered === null) return true;
  return unanswered.why !== 'not-asked' && unanswered.why !== 'timed-out' && !isBusMissing(unanswered);
}

/** For this very run; null: systemd did not report it. */
export function factsNow({ place, factsInode, inode }: Entry): UnitFacts | null {
  return factsInode !== null && factsInode === inode ? place.facts : null;
}

/** How often systemd and podman are queried again about what does not run. */
const RESOLVE_MS = 5_000;
/** The same if there was an answer, be it that there is no such unit or container: systemd reports each start on its own. */
const TOLD_RESOLVE_MS = 60_000;
/** About units, with more pods than fit into that, seldomer: a query costs milliseconds here and in systemd. */
const TOLD_RESOLVE_MS_PER_POD = 1_000;

/** Whether systemd or podman is to be queried about it. */
export function isToAsk(
  entry: Entry,
  now: { readonly atMs: MonoMs; readonly isFar: boolean; readonly isUp: boolean; readonly pods: number },
): boolean {
  const { manifest, isAnew, askedMs, cgroup, unanswered, isReported, factsInode, inode } = entry;
  if (manifest.target.kind === 'cgroup') return false;
  if (isAnew) return true;
  const isUnit = manifest.target.kind === 'unit';
  if (cgroup.known && unanswered === null && (!isUnit || factsInode === inode)) return false;
  if (!now.isUp) return now.atMs - askedMs >= RESOLVE_MS;
  const isAbsent = unanswered?.why === 'absent' && !isBusMissing(unanswered);
  if (!isUnit) return now.atMs - askedMs >= (isReported || isAbsent ? TOLD_RESOLVE_MS : RESOLVE_MS);
  const hasAnswered = isAbsent || (unanswered === null && isReported);
  const isTold = hasAnswered && (now.isFar || !cgroup.known);
  const pauseMs = isTold ? Math.max(TOLD_RESOLVE_MS, now.pods * TOLD_RESOLVE_MS_PER_POD) : RESOLVE_MS;
  return now.atMs - askedMs >= pauseMs;
}

/** Why a pod has no cgroup. `isEarly`: an answer may still arrive. */
export function whyNowhere({ place, unanswered, isReported }: Entry, isEarly: boolean): Unknown {
  const who = place.unit ?? place.path ?? 'binding';
  if (unanswered === null || (isReported && unanswered.why !== 'absent'))
    return unknown('absent', who, 'it is not running');
  if (unanswered.why === 'not-asked' || (isEarly && isBusMissing(unanswered))) return NOT_ASKED;
  const text = `cannot be resolved: ${unanswered.where}: ${unanswered.detail}`;
  const isAbsent = unanswered.why === 'absent' && !isBusMissing(unanswered);
  return unknown(isAbsent ? 'absent' : 'unreadable', unanswered.where, text);
}

/** A cgroup that has no counterpart where memory is measured. */
export const unmeasured = (path: string): Unknown =>
  unknown(
    'unreadable',
    path,
    'processes run in it, but the memory controller has no cgroup of this path (on cgroup v1, systemd makes none for what runs below user@.service): it is not measured, not evicted and not stopped in a shutdown',
  );

const UNSEEN =
  'runs, but systemd gives it no cgroup of the memory controller (on cgroup v1: its file was masked or removed, or the controller is read-only): it is not measured and not evicted, only a shutdown stops it';

/** systemd last reported that it runs in a cgroup that did not exist at that moment. */
export function isUnseen({ cgroup, unanswered, inode, factsInode, place: { facts } }: Entry): boolean {
  const isOld = cgroup.known || unanswered !== null || inode !== 0 || factsInode !== null;
  return !isOld && facts !== null && facts.controlGroup !== null && facts.activeState === 'active';
}

/**
 * It may run where only podman knows, and podman has not said: a unit's own cgroup is found by its name. That podman knows no
 * such container is an answer.
 */
export function isUnlocated({ manifest: { target }, cgroup, refused, unanswered, isReported }: Entry): boolean {
  if (target.kind !== 'podman' || cgroup.known || refused !== null || isReported) return false;
  return unanswered !== null && unanswered.why !== 'absent';
}

/** Until it comes, what was said of the pod stays, for a moment. */
export const isAnswerDue = ({ unanswered, cgroup }: Entry): boolean => unanswered === NOT_ASKED && !cgroup.known;

export const unitOf = ({ place, manifest }: Entry): string | null =>
  place.unit ?? (manifest.target.kind === 'unit' ? manifest.target.unit : null);

export function isOf(entry: Entry, unit: string): boolean {
  const { target } = entry.manifest;
  return unitOf(entry) === unit || (target.kind === 'unit' && target.unit === unit);
}

/** What is wrong with its binding; null: nothing. */
export function complaintOf(entry: Entry, isEarly: boolean): string | null {
  const { manifest, cgroup, refused, unanswered, isReported } = entry;
  if (refused !== null) return refused;
  if (isUnseen(entry)) return `${entry.place.unit} ${UNSEEN}`;
  if (cgroup.known || (cgroup.why === 'not-asked' && !isUnlocated(entry))) return null;
  const isUnit = manifest.target.kind === 'unit';
  if (unanswered !== null && (!isReported || unanswered.why === 'absent')) {
    // Facts about a unit stay valid while the bus is away.
    if (isBusMissing(unanswered) && isUnit && (isReported || isEarly)) return null;
    const { target } = manifest;
    const todo = target.kind === 'podman' && isUnlocated(entry) ? `; ${sayUnlocated(target.name)}` : '';
    const why = unanswered === NOT_ASKED ? noAnswerYet : `${unanswered.where}: ${unanswered.detail}`;
    return `cannot be resolved: ${why}${todo}`;
  }
  return cgroup.why === 'absent' ? null : `${cgroup.where}: ${cgroup.detail}`;
}

export function notYet({ manifest: { declared } }: Entry, others: number): Unknown {
  const who = `${podName(declared)}${others === 0 ? '' : ` and ${others} more`}`;
  return unknown('stale', 'bindings', `systemd or Podman has not yet said where ${who} runs`);
}

/** D13: a pod may be to blame that no manifest known so far declares. */
export function besideUnread(pod: BoundPod): BoundPod {
  return { ...pod, declared: { ...pod.declared, limitedBy: 'manifest-unread' } };
}

/** The parts of a pod whose change makes a look worthwhile. */
export function identityOf({ declared, cgroup }: BoundPod): readonly unknown[] {
  const { uid, isTerminating, startedAtWallMs } = declared;
  // Whether it was started again during a shutdown is known from its start alone, which may be reported later than its cgroup.
  return [uid, isTerminating, cgroup.known ? cgroup.value.inode : null, startedAtWallMs];
}
