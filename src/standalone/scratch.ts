import type { Emptied } from '../core/outcome.ts';
import { podName } from '../core/pod/pod.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { hasProcesses } from '../host/cgroupfs.ts';
import { within } from '../host/clock.ts';
import type { DiskWalker, WalkedDisk } from '../host/disk-walk.ts';
import { emptyDirectory } from '../host/empty-directory.ts';
import { unsafePlace } from '../host/mounts.ts';
import type { CommandRunner } from '../host/transient.ts';
import type { CgroupRef, Clock, Finding, Findings, Scratch } from '../ports.ts';
import {
  refusedScratch,
  scratchId,
  scratchNotEmptied,
  unsafeScratch,
  unsafeScratchId,
} from '../words/finding-standalone.ts';
import { SCRATCH } from './annotation.ts';
import { overlap } from './directories.ts';
import type { ManifestPod } from './manifest.ts';

type ScratchNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly run: CommandRunner;
  readonly walker: DiskWalker;
  readonly findings: Findings;
  readonly find: (uid: string) => { readonly manifest: ManifestPod; readonly cgroup: Reading<CgroupRef> } | null;
};

/** For all directories of a pod together. */
const EMPTY_MS = 60_000;
/** How long the end of an eviction waits for it. If it takes longer, it continues, with a finding if it fails. */
const WAIT_MS = 8_000;
/** The content is counted first, so that the freed amount is known; with many files only a part. Relief waits for it. */
const COUNT_BEFORE_MS = 800;
/** Nothing waits for this. */
const COUNT_AFTER_MS = 3_000;

export function createScratch({ clock, mounts, run, walker, findings, find }: ScratchNeeds): Scratch {
  const count = (paths: readonly string[], withinMs: number): Promise<Reading<WalkedDisk>> => {
    let soFar: Reading<WalkedDisk> = unknown('timed-out', 'scratch', 'counting timed out');
    const walked = walker.walk(paths, (least) => {
      soFar = known(least);
    });
    return within(clock, withinMs, walked, () => soFar);
  };

  async function emptyAll(manifest: ManifestPod): Promise<Emptied> {
    const { declared, scratch } = manifest;
    const before = await count(scratch, COUNT_BEFORE_MS);
    const endsMs = clock.monoMs() + EMPTY_MS;
    const problems: string[] = [];
    for (const path of scratch) {
      const problem = await emptyDirectory(run, path, Math.max(1_000, Math.round(endsMs - clock.monoMs())));
      if (problem !== null) problems.push(`${path} is not empty: ${problem}`);
    }
    const after = await count(scratch, COUNT_AFTER_MS);
    const { uid } = declared;
    if (problems.length > 0) findings.raise(scratchNotEmptied(uid, nameOf(manifest), problems));
    else findings.clear(scratchId(uid));
    return { freedBytes: freedOf(before, after), problem: problems.length > 0 ? problems.join('; ') : null };
  }

  return {
    empty: async (uid) => {
      const live = find(uid);
      if (live === null || live.manifest.scratch.length === 0) return null;
      const notKnown = unknown('not-asked', 'scratch', 'nothing was counted');
      // The pod may have been restarted already, and a running pod needs its files.
      if (live.cgroup.known && hasProcesses(mounts, live.cgroup.value))
        return { freedBytes: notKnown, problem: 'the pod runs again: nothing was emptied' };
      const emptied = emptyAll(live.manifest);
      const late = { freedBytes: notKnown, problem: `it takes longer than ${WAIT_MS / 1_000} s and continues` };
      return within(clock, WAIT_MS, emptied, () => late);
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

/**
 * The scratch directories of each pod that may be emptied, judged by their names: none that overlaps with a directory of
 * another pod or of the agent. The others are left out and reported as findings. Whether one is a link or a mount point is
 * checked when it is emptied (host/empty-directory.ts).
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
      refused.push(refusedScratch(nameOf(pod), at(pod), path, other));
      return false;
    });
    return { ...pod, scratch };
  });
  return { pods: safe, refused };
}

/**
 * When manifests are read, reports scratch directories that could not be emptied in their current state. Beside the loop,
 * one round at a time: a file system that hangs blocks one thread. Resolves when these pods, or later ones, were looked at.
 */
export function createScratchPlaces(findings: Findings): (pods: readonly ManifestPod[]) => Promise<void> {
  /** The latest call; earlier calls that are still running stop. */
  let latest: readonly ManifestPod[] = [];
  let last = Promise.resolve();
  const look = async (pods: readonly ManifestPod[]): Promise<void> => {
    for (const pod of pods) {
      const unsafe: { readonly path: string; readonly why: string }[] = [];
      for (const path of pod.scratch) {
        const why = await unsafePlace(path);
        if (why !== null) unsafe.push({ path, why });
      }
      if (pods !== latest) return;
      if (unsafe.length === 0) findings.clear(unsafeScratchId(nameOf(pod)));
      else findings.raise(unsafeScratch(nameOf(pod), at(pod), unsafe));
    }
  };
  return (pods) => {
    latest = pods;
    last = last.then(() => (pods === latest ? look(pods) : undefined));
    return last;
  };
}

const at =
  (pod: ManifestPod) =>
  (what: string): string =>
    sayProblem(pod.problem(what, SCRATCH));
const nameOf = ({ declared }: ManifestPod): string => podName(declared);
