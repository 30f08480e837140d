import { type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import { SYSTEM_BUS } from '../host/bus.ts';
import type { UnitFacts } from '../host/unit-facts.ts';
import type { BoundPod, CgroupRef } from '../ports.ts';
import { cgroupPlace, likelyPlace, type Place } from './bind.ts';
import type { ManifestPod } from './manifest.ts';
import { ASK_NOW, type Question } from './resolver.ts';

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
  /** The finding that is raised. */
  said: string | null;
  pod: BoundPod;
};
/** Answers about bindings, kept while a reload recreates the parts. */
export type PlaceMemory = Map<string, Place>;
export const createPlaceMemory = (): PlaceMemory => new Map();

const NOT_ASKED = unknown('not-asked', 'binding', 'not looked up yet');
export const keyOf = ({ target }: ManifestPod): string => JSON.stringify(target);

export function newEntry(manifest: ManifestPod, cgroupRoot: string, memory: PlaceMemory): Entry {
  const { target } = manifest;
  const remembered = memory.get(keyOf(manifest));
  const isReported = target.kind === 'cgroup' || remembered !== undefined;
  const { declared } = manifest;
  return {
    manifest,
    place: target.kind === 'cgroup' ? cgroupPlace(cgroupRoot, target) : (remembered ?? likelyPlace(target)),
    unanswered: isReported ? null : NOT_ASKED,
    isReported,
    factsInode: null,
    soughtMs: Number.NEGATIVE_INFINITY,
    refused: null,
    directory: null,
    inode: 0,
    askedMs: ASK_NOW,
    isAsking: false,
    cgroup: NOT_ASKED,
    startedAtWallMs: null,
    stops: 0,
    stoppedMs: null,
    said: null,
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

const UNSEEN =
  'runs, but systemd gives it no cgroup of the memory controller (on cgroup v1: its file was masked or removed, or the controller is read-only): it is not measured and not evicted, only a shutdown stops it';

/** systemd last reported that it runs in a cgroup that did not exist at that moment. */
export function isUnseen({ cgroup, unanswered, inode, factsInode, place: { facts } }: Entry): boolean {
  const isOld = cgroup.known || unanswered !== null || inode !== 0 || factsInode !== null;
  return !isOld && facts !== null && facts.controlGroup !== null && facts.activeState === 'active';
}

/** The finding for it; null: none. */
export function complaintOf(entry: Entry, isEarly: boolean): string | null {
  const { manifest, cgroup, refused, unanswered, isReported } = entry;
  const say = (text: string): string => sayProblem(manifest.problem(text));
  if (refused !== null) return say(refused);
  if (isUnseen(entry)) return say(`${entry.place.unit} ${UNSEEN}`);
  if (cgroup.known || cgroup.why === 'not-asked') return null;
  const isUnit = manifest.target.kind === 'unit';
  if (unanswered !== null && (!isReported || unanswered.why === 'absent')) {
    // Facts about a unit stay valid while the bus is away.
    if (isBusMissing(unanswered) && isUnit && (isReported || isEarly)) return null;
    return say(`cannot be resolved: ${unanswered.where}: ${unanswered.detail}`);
  }
  return cgroup.why === 'absent' ? null : say(`${cgroup.where}: ${cgroup.detail}`);
}
