import type { Emptied } from '../core/outcome.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import { type CgroupMounts, isPopulated } from '../host/cgroupfs.ts';
import type { DiskWalker, WalkedDisk } from '../host/disk-walk.ts';
import { emptyDirectory } from '../host/empty-directory.ts';
import { unsafePlace } from '../host/safe-place.ts';
import type { CommandRunner } from '../host/transient.ts';
import type { CgroupRef, Clock, Finding, Findings, Scratch } from '../ports.ts';
import { overlap } from './directories.ts';
import type { ManifestPod } from './manifest.ts';

export type ScratchNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly run: CommandRunner;
  readonly walker: DiskWalker;
  readonly findings: Findings;
  readonly find: (uid: string) => { readonly manifest: ManifestPod; readonly cgroup: Reading<CgroupRef> } | null;
};

/** Of all directories of a pod together. */
const EMPTY_MS = 60_000;
/** So long the end of an eviction waits for it; what takes longer goes on, and is a finding if it fails. */
const WAIT_MS = 8_000;
/** What is there is counted before, so that what was freed is known; with many files only a part of it. */
const COUNT_MS = 300;

export function createScratch({ clock, mounts, run, walker, findings, find }: ScratchNeeds): Scratch {
  const inTime = <T>(ms: number, promise: Promise<T>, late: () => T): Promise<T> =>
    new Promise((resolve, reject) => {
      const cancel = clock.after(ms, () => resolve(late()));
      promise.finally(cancel).then(resolve, reject);
    });
  const count = (paths: readonly string[]): Promise<Reading<WalkedDisk>> => {
    let soFar: Reading<WalkedDisk> = unknown('timed-out', 'scratch', 'it was not counted in time');
    const walked = walker.walk(paths, (least) => {
      soFar = known(least);
    });
    return inTime(COUNT_MS, walked, () => soFar);
  };

  async function emptyAll(manifest: ManifestPod): Promise<Emptied> {
    const { declared, scratch } = manifest;
    const before = await count(scratch);
    const endsMs = clock.monoMs() + EMPTY_MS;
    const problems: string[] = [];
    for (const path of scratch) {
      const problem = await emptyDirectory(run, path, Math.max(1_000, Math.round(endsMs - clock.monoMs())));
      if (problem !== null) problems.push(`${path} is not empty: ${problem}`);
    }
    const after = await count(scratch);
    const id = `scratch/${declared.uid}`;
    const text = `${nameOf(manifest)} was evicted, and ${problems.join('; ')}`;
    if (problems.length > 0) findings.raise({ id, text });
    else findings.clear(id);
    return { freedBytes: freedOf(before, after), problem: problems.length > 0 ? problems.join('; ') : null };
  }

  return {
    empty: async (uid) => {
      const live = find(uid);
      if (live === null || live.manifest.scratch.length === 0) return null;
      const notKnown = unknown('not-asked', 'scratch', 'nothing was counted');
      const populated = live.cgroup.known ? isPopulated(mounts, live.cgroup.value) : live.cgroup;
      // Whoever runs it may have started it again already: a pod that lives needs what is there.
      if (populated.known && populated.value)
        return { freedBytes: notKnown, problem: 'it runs again: nothing was emptied' };
      const emptied = emptyAll(live.manifest);
      const late = { freedBytes: notKnown, problem: `it takes longer than ${WAIT_MS / 1_000} s, and goes on` };
      return inTime(WAIT_MS, emptied, () => late);
    },
  };
}

function freedOf(before: Reading<WalkedDisk>, after: Reading<WalkedDisk>): Reading<number> {
  if (!before.known) return before;
  if (!after.known) return after;
  const goes = ({ directories }: WalkedDisk): number =>
    directories.reduce((sum, { bytes, linkedBytes }) => sum + bytes - linkedBytes, 0);
  return known(Math.max(0, goes(before.value) - goes(after.value)));
}

export const unsafeScratch = (pod: ManifestPod): string => `scratch-unsafe/${nameOf(pod)}`;
export const refusedScratch = (pod: ManifestPod): string => `scratch-refused/${nameOf(pod)}`;

/**
 * The scratch directories of each pod that may be emptied, as far as names tell: none that overlaps with a directory of
 * another pod or of the agent. The others are findings, and are left out; whether one is a link or a mount point is looked
 * at in the moment of emptying (host/empty-directory.ts).
 */
export function withSafeScratch(
  pods: readonly ManifestPod[],
  own: readonly string[],
): { readonly pods: readonly ManifestPod[]; readonly refused: readonly Finding[] } {
  const declared = pods.flatMap((pod) => [...pod.disk, ...pod.scratch].map((path) => ({ path, pod, by: nameOf(pod) })));
  const taken = [...own.map((path) => ({ path, pod: null, by: 'nodewarden itself' })), ...declared];
  const refused: Finding[] = [];
  const safe = pods.map((pod) => {
    const scratch = pod.scratch.filter((path) => {
      const other = taken.find((one) => one.pod !== pod && overlap(path, one.path));
      if (other === undefined) return true;
      const text = `the scratch directory ${path} is never emptied: it is, holds or lies in ${other.path} of ${other.by}`;
      refused.push({ id: refusedScratch(pod), text: sayProblem(pod.problem(text)) });
      return false;
    });
    return { ...pod, scratch };
  });
  return { pods: safe, refused };
}

/**
 * Tells of scratch directories that would not be emptied as they are now, when manifests are read. Beside the loop, and
 * one round at a time: a file system that hangs holds one thread.
 */
export function createScratchPlaces(findings: Findings): (pods: readonly ManifestPod[]) => void {
  /** Of the latest call; whoever looks for an earlier one stops. */
  let latest: readonly ManifestPod[] = [];
  let last = Promise.resolve();
  const look = async (pods: readonly ManifestPod[]): Promise<void> => {
    for (const pod of pods) {
      const told: string[] = [];
      for (const path of pod.scratch) {
        const why = await unsafePlace(path);
        if (why !== null) told.push(`the scratch directory ${path} would not be emptied: ${why}`);
      }
      if (pods !== latest) return;
      const id = unsafeScratch(pod);
      if (told.length === 0) findings.clear(id);
      else findings.raise({ id, text: sayProblem(pod.problem(told.join('; '))) });
    }
  };
  return (pods) => {
    latest = pods;
    last = last.then(() => (pods === latest ? look(pods) : undefined));
  };
}

const nameOf = ({ declared: { namespace, name } }: ManifestPod): string => `${namespace}/${name}`;
