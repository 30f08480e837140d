import type { Emptying } from '../../core/observation.ts';
import type { Emptied } from '../../core/outcome.ts';
import { type PodUid, podName, type Victim } from '../../core/pod/pod.ts';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { directoryOf } from '../../host/cgroup/cgroup-walk.ts';
import { hasProcesses, refOf } from '../../host/cgroup/cgroupfs.ts';
import { type Moment, momentNow, sleep, within } from '../../host/clock.ts';
import type { DirectoryIdentity } from '../../host/disk/directory-identity.ts';
import type { DiskWalker, WalkedDisk } from '../../host/disk/disk-walk.ts';
import { emptyDirectory, isEmptyDirectory, type NotEmptied, type ToEmpty } from '../../host/disk/empty-directory.ts';
import type { CommandRunner } from '../../host/systemd/transient.ts';
import type { Clock, Findings, Scratch } from '../../ports.ts';
import { scratchId, scratchNotEmptied } from '../../words/finding-standalone.ts';
import type { LivePod, StandaloneSource } from '../pods/source.ts';
import { isBoundAs } from './stop-target.ts';

type Live = Pick<LivePod, 'manifest' | 'cgroup' | 'path'>;
type ScratchNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly run: CommandRunner;
  readonly walker: DiskWalker;
  readonly findings: Findings;
  /** What is being emptied. Absent: nothing is yet. */
  readonly emptying?: Set<Emptying> | undefined;
  readonly source: Pick<StandaloneSource, 'declared' | 'seen' | 'scratchTold'> & {
    readonly find: (uid: string) => Live | null;
  };
};

/** For all directories of a pod together. */
const EMPTY_MS = 60_000;
/** How long the end of an eviction waits for it. If it takes longer, it continues, with a finding if it fails. */
const WAIT_MS = 8_000;
/** The content is counted first, so that the freed amount is known; with many files only a part. Relief waits for it. */
const COUNT_BEFORE_MS = 800;
/** Nothing waits for this. */
const COUNT_AFTER_MS = 3_000;
/**
 * The time of a file's last change is only roughly known. After this pause, what the pod wrote up to its death is older for
 * certain than what it writes when it runs again.
 */
const SETTLE_MS = 25;
/** How long to wait after a start, or a change of the manifests, until it was seen which directories the pods have. */
const TOLD_MS = 2_000;
/** How often it is looked whether what could not be emptied is empty by now. */
const RECHECK_MS = 60_000;

export function createScratch(needs: ScratchNeeds): Required<Scratch> {
  const { clock, mounts, run, walker, findings, source, emptying = new Set<Emptying>() } = needs;
  /** By pod, what the last try left. */
  const notEmptied = new Map<PodUid, ReadonlySet<string>>();
  const count = (paths: readonly string[], withinMs: number): Promise<Reading<WalkedDisk>> => {
    let soFar: Reading<WalkedDisk> = unknown('timed-out', 'scratch', 'counting timed out');
    const walked = walker.walk(paths, (least) => {
      soFar = known(least);
    });
    return within(clock, withinMs, walked, () => soFar);
  };
  const seenAt = (paths: readonly string[]): readonly DirectoryIdentity[] =>
    paths.flatMap((path) => source.seen.at(path) ?? []);

  function toEmpty({ manifest, path: cgroup }: Live, path: string, end: Moment): ToEmpty {
    const { declared, disk, scratch } = manifest;
    const others = source.declared().filter((pod) => pod.declared.uid !== declared.uid);
    const ofOthers = seenAt(others.flatMap((pod) => [...pod.disk, ...pod.scratch]));
    const ofItsOwn = seenAt(disk.filter((own) => !scratch.includes(own)));
    return {
      path,
      measured: source.seen.at(path),
      kept: [...ofOthers, ...ofItsOwn],
      others: ofOthers,
      cgroup: cgroup === null ? null : directoryOf(mounts, cgroup),
      end,
    };
  }

  async function emptyAll(live: Live, end: Moment): Promise<Emptied> {
    const { declared, scratch } = live.manifest;
    const before = await count(scratch, COUNT_BEFORE_MS);
    const endsMs = clock.monoMs() + EMPTY_MS;
    const left: (NotEmptied & { readonly path: string })[] = [];
    for (const path of scratch) {
      const leftMs = Math.max(1_000, Math.round(endsMs - clock.monoMs()));
      const problem = await emptyDirectory(run, toEmpty(live, path, end), leftMs);
      if (problem !== null) left.push({ ...problem, path });
    }
    const after = await count(scratch, COUNT_AFTER_MS);
    const { uid } = declared;
    const problems = left.filter(({ runsAgain }) => !runsAgain);
    if (problems.length > 0) {
      const texts = problems.map(({ text }) => text);
      findings.raise(scratchNotEmptied(uid, podName(declared), texts));
      const full = new Set(problems.map(({ path }) => path));
      notEmptied.set(uid, full);
      clearWhenEmpty(uid, full);
    } else ended(uid);
    const said = left.map(({ text }) => text).join('; ');
    return { freedBytes: freedOf(before, after), problem: left.length > 0 ? said : null };
  }

  function ended(uid: PodUid): void {
    findings.clear(scratchId(uid));
    notEmptied.delete(uid);
  }

  /** Somebody may empty them, or withdraw the manifest. Not asked again of a file system that hangs: each call may stay. */
  function clearWhenEmpty(uid: PodUid, paths: ReadonlySet<string>): void {
    clock.after(RECHECK_MS, async () => {
      const looked = await Promise.all([...paths].map(isEmptyDirectory));
      // Meanwhile it may have been evicted again.
      if (notEmptied.get(uid) !== paths) return;
      const areEmpty = looked.every((isEmpty) => isEmpty.known && isEmpty.value);
      if (areEmpty || source.find(uid) === null) ended(uid);
      else if (!looked.some((isEmpty) => !isEmpty.known && isEmpty.why === 'timed-out')) clearWhenEmpty(uid, paths);
    });
  }

  /** Why its files stay; null: it is down, and they are its own. */
  function whyKept(victim: Pick<Victim, 'boundTo'>, { manifest, cgroup, path }: Live): string | null {
    if (!isBoundAs(victim, { manifest })) return 'its manifest names another place by now: what is in it stays';
    if (path === null || (!cgroup.known && cgroup.why !== 'absent')) {
      return 'it is not known whether the pod runs again: what is in it stays';
    }
    const ref = refOf(mounts, path);
    const isRunning = ref.known && hasProcesses(mounts, ref.value);
    return isRunning ? 'the pod runs again: what is left stays' : null;
  }

  async function emptyDead(victim: Pick<Victim, 'uid' | 'boundTo'>): Promise<Emptied | null> {
    await within(clock, TOLD_MS, source.scratchTold(), () => undefined);
    await sleep(clock, SETTLE_MS);
    // Before the question: a pod that is not running then was dead at this moment.
    const end = momentNow();
    const live = source.find(victim.uid);
    if (live === null) return null;
    const kept = whyKept(victim, live);
    return kept === null ? emptyAll(live, end) : { freedBytes: known(0), problem: kept };
  }

  return {
    empty: async (victim, as) => {
      if ((source.find(victim.uid)?.manifest.scratch.length ?? 0) === 0) return null;
      // Before anything is awaited: no look may choose another pod meanwhile.
      emptying.add(as);
      const emptied = emptyDead(victim).finally(() => emptying.delete(as));
      const late = {
        freedBytes: unknown('not-asked', 'scratch', 'not counted yet'),
        problem: `it takes longer than ${WAIT_MS / 1_000} s and continues`,
      };
      return within(clock, WAIT_MS, emptied, () => late);
    },
    emptying: () => [...emptying],
  };
}

function freedOf(before: Reading<WalkedDisk>, after: Reading<WalkedDisk>): Reading<number> {
  if (!before.known) return before;
  if (!after.known) return after;
  const isOther = before.value.directories.some(({ path, device, inode }) => {
    const now = after.value.directories.find((one) => one.path === path);
    return now !== undefined && (now.device !== device || now.inode !== inode);
  });
  if (isOther) return unknown('stale', 'scratch', 'another directory is there now');
  const goes = ({ directories }: WalkedDisk): number =>
    directories.reduce((sum, { bytes, linkedBytes }) => sum + bytes - linkedBytes, 0);
  return known(Math.max(0, goes(before.value) - goes(after.value)));
}
