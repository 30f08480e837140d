import { type OomScore, oomScoreAdj } from '../../core/pod/oom-score.ts';
import { podName } from '../../core/pod/pod.ts';
import { known, type Reading } from '../../core/reading.ts';
import { isNumber, isOneOf, isText, listOf, shape } from '../../core/shape.ts';
import { openMemory } from '../../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { processesOf, refOf } from '../../host/cgroup/cgroupfs.ts';
import { sleep } from '../../host/clock.ts';
import { oomScoreCommand, readOomScoreAdj, writeOomScoreAdj } from '../../host/process/oom-score.ts';
import { startTicks } from '../../host/process/workload.ts';
import { createProcfs } from '../../host/procfs.ts';
import { busUp } from '../../host/systemd/bus.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { CommandRunner } from '../../host/systemd/transient.ts';
import type { BoundPod, Clock, Findings } from '../../ports.ts';
import { OOM_SCORES, oomScoresKept } from '../../words/finding-eviction.ts';
import { loadRuntimeFile, saveRuntimeFile } from '../manifests/runtime-file.ts';
import { createOwnScores, judgeScores, type ScoreGroup } from './oom-score-groups.ts';

export type OomScores = {
  /** The pods have changed. */
  readonly changed: () => void;
  readonly now: () => readonly OomScore[];
  readonly close: () => void;
};
export type OomScoresNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly cgroupRoot: string;
  readonly systemd: Pick<Systemd, 'isUp' | 'whenUp' | 'oomScoreAdjust' | 'unit'>;
  readonly run: CommandRunner;
  readonly pods: () => readonly BoundPod[];
  /** Null: it is bound by its cgroup. */
  readonly unitOf: (uid: string) => string | null;
  readonly runtimeDirectory: string;
  readonly bootId: string;
  readonly findings: Findings;
};

const PACE_MS = 60_000;
/** A kill may be in progress, and this is less urgent. */
const SOON_MS = 300;
/** The maximum in one pass; the next one continues. */
const MOST_CHANGED = 2_000;
const SLICE_PODS = 8;
const SET_MS = 10_000;
/** What is not noted could not be restored: where so many cgroups have changed, no others are set. */
const MOST_NOTED = 10_000;

/** For restoring at uninstall: processes in this cgroup had `before`, and now have `set`. */
type Changed = { readonly path: string; readonly inode: number; readonly before: number; readonly set: number };
type Note = { readonly schema: 1; readonly bootId: string; readonly changed: readonly Changed[] };

const notePath = (runtimeDirectory: string): string => `${runtimeDirectory}/oom-scores.json`;

const isNote = shape<Note>({
  schema: isOneOf(1),
  bootId: isText,
  changed: listOf(shape<Changed>({ path: isText, inode: isNumber, before: isNumber, set: isNumber }), MOST_NOTED),
});

function loadNote(runtimeDirectory: string, bootId: string, clock: Clock): readonly Changed[] {
  const { value } = loadRuntimeFile(notePath(runtimeDirectory), (json) => (isNote(json) ? json : null), clock);
  return value?.bootId === bootId ? value.changed : [];
}

type Wanted = ScoreGroup & { readonly pod: string; readonly value: number };

/**
 * product.md section 7, "the kernel's choice": the processes of a pod have the oom_score_adj of its QoS class. Children
 * inherit it; a process with another value is set again once a minute. This runs beside the loop and delays no decision.
 */
export function createOomScores(needs: OomScoresNeeds): OomScores {
  const { clock, mounts, findings, runtimeDirectory, bootId } = needs;
  let changed = loadNote(runtimeDirectory, bootId, clock);
  let scores: readonly OomScore[] = [];
  let isClosed = false;
  let isBusy = false;
  let isDue = false;
  let cancel = clock.after(SOON_MS, () => void pass());
  const procfs = createProcfs();
  const node = openMemory(mounts, needs.cgroupRoot);
  const isBusTried = busUp(needs.systemd, clock);

  function capacity(): Reading<number> {
    const total = procfs.memTotalBytes();
    const limit = node.limit();
    return total.known && limit.known && limit.value !== null ? known(Math.min(total.value, limit.value)) : total;
  }

  const schedule = (ms: number): void => {
    cancel();
    if (!isClosed) cancel = clock.after(ms, () => void pass());
  };

  async function pass(): Promise<void> {
    if (isBusy) {
      isDue = true;
      return;
    }
    isBusy = true;
    isDue = false;
    try {
      await setAll();
    } catch {
      // The cgroup is not the pod's own: retried in a minute.
    }
    isBusy = false;
    schedule(isDue ? SOON_MS : PACE_MS);
  }

  async function setAll(): Promise<void> {
    await isBusTried;
    if (isClosed) return;
    const bytes = capacity();
    if (!bytes.known) return;
    const inherited = readOomScoreAdj(1);
    const usual = inherited.known ? inherited.value : 0;
    const found: OomScore[] = [];
    const wanted: Wanted[] = [];
    const own = createOwnScores(needs.systemd, usual);
    let left = MOST_CHANGED;
    for (const [i, { declared, cgroup, isTerminating }] of needs.pods().map(flat).entries()) {
      if (i > 0 && i % SLICE_PODS === 0) await sleep(clock, 1);
      if (isClosed) return;
      if (!cgroup.known || isTerminating) continue;
      const pod = podName(declared);
      const unit = needs.unitOf(declared.uid);
      const service = unit?.endsWith('.service') === true ? unit : null;
      const ofUnit = service === null ? known(null) : await own.ofService(service);
      // Its unit's setting is unknown: it may have a value of its own.
      if (!ofUnit.known) continue;
      // Without a process nobody carries a value.
      const pids = processesOf(mounts, cgroup.value);
      if (!pids.known || pids.value.length === 0) continue;
      if (ofUnit.value !== null) {
        found.push({ pod, oomScoreAdj: ofUnit.value, from: 'unit', others: 0 });
        continue;
      }
      const value = oomScoreAdj(declared, bytes.value);
      const of = { ref: cgroup.value, pids: pids.value, value, most: left };
      const judged = await judgeScores(needs, of, service === null ? own : null);
      const count = judged.others.reduce((sum, { processes }) => sum + processes.length, 0);
      left -= count;
      wanted.push(...judged.others.map((group) => ({ ...group, pod, value })));
      const isAllKept = judged.kept === pids.value.length;
      if (isAllKept) found.push({ pod, oomScoreAdj: judged.highestKept, from: 'unit', others: 0 });
      else if (judged.isWhole) found.push({ pod, oomScoreAdj: value, from: 'qos', others: count });
    }
    scores = found;
    if (wanted.length === 0) {
      findings.clear(OOM_SCORES);
      return;
    }
    const failed = await set(wanted, remember(wanted, usual));
    scores = found.map((score) => ({ ...score, others: failed.get(score.pod)?.count ?? 0 }));
    tell(failed);
  }

  /** Called before anything is changed; forgets cgroups that are gone. Returns those that are noted: only these may change. */
  function remember(wanted: readonly Wanted[], usual: number): readonly Wanted[] {
    const isThere = ({ path, inode }: Changed): boolean => {
      const ref = refOf(mounts, path);
      return ref.known && ref.value.inode === inode;
    };
    const noted = new Map(changed.filter(isThere).map((one) => [one.inode, one]));
    let isSame = noted.size === changed.length;
    for (const { ref, value, processes } of wanted) {
      const before = noted.get(ref.inode);
      if (before?.set === value || (before === undefined && noted.size >= MOST_NOTED)) continue;
      const first = processes[0] === undefined ? null : readOomScoreAdj(processes[0].pid);
      const was = before?.before ?? (first?.known === true ? first.value : usual);
      noted.set(ref.inode, { path: ref.path, inode: ref.inode, before: was, set: value });
      isSame = false;
    }
    if (!isSame) {
      changed = [...noted.values()];
      const note: Note = { schema: 1, bootId, changed };
      saveRuntimeFile(notePath(runtimeDirectory), note);
    }
    return wanted.filter(({ ref, value }) => noted.get(ref.inode)?.set === value);
  }

  /** Processes that still have another value, by pod. */
  async function set(
    wanted: readonly Wanted[],
    noted: readonly Wanted[],
  ): Promise<ReadonlyMap<string, { readonly count: number; readonly why: string }>> {
    const why = needs.systemd.isUp() ? await setByProgram(noted) : setDirectly(noted);
    const failed = new Map<string, { readonly count: number; readonly why: string }>();
    for (const one of wanted) {
      const { pod, ref, value, processes } = one;
      const count = processes.filter(({ pid, ticks }) => {
        const now = readOomScoreAdj(pid);
        return startTicks(pid) === ticks && ticks !== null && now.known && now.value !== value;
      }).length;
      if (count === 0) continue;
      const otherwise = noted.includes(one)
        ? 'the value did not change'
        : `more than ${MOST_NOTED} cgroups have changed`;
      const before = failed.get(pod)?.count ?? 0;
      failed.set(pod, { count: before + count, why: why.get(ref.inode) ?? otherwise });
    }
    return failed;
  }

  function setDirectly(wanted: readonly Wanted[]): ReadonlyMap<number, string> {
    const why = new Map<number, string>();
    for (const { ref, value, processes } of wanted) {
      for (const { pid } of processes) {
        const written = writeOomScoreAdj(mounts, ref, pid, value);
        if (!written.known) why.set(ref.inode, `${value} was refused: ${written.detail}`);
      }
    }
    return why;
  }

  /** Not allowed in the agent's own sandbox: done by a transient unit. */
  async function setByProgram(wanted: readonly Wanted[]): Promise<ReadonlyMap<number, string>> {
    if (wanted.length === 0) return new Map();
    const scores = wanted.map(({ ref, value, processes }) => ({ ref, value, pids: processes.map(({ pid }) => pid) }));
    const end = await needs.run({ ...oomScoreCommand(mounts, scores), timeoutMs: SET_MS });
    if (end.kind === 'exited' && end.code === 0) return new Map();
    const said =
      end.kind === 'exited'
        ? `exit status ${end.code}`
        : end.kind === 'failed'
          ? end.detail
          : `no end within ${SET_MS / 1_000} s`;
    return new Map(wanted.map(({ ref, value }) => [ref.inode, `${value} was refused: ${said}`]));
  }

  function tell(failed: ReadonlyMap<string, { readonly count: number; readonly why: string }>): void {
    const [first] = failed;
    if (first === undefined) {
      findings.clear(OOM_SCORES);
      return;
    }
    const [pod, processes] = first;
    findings.raise(oomScoresKept(pod, failed.size - 1, processes));
  }

  return {
    changed: () => {
      if (isBusy) isDue = true;
      else schedule(SOON_MS);
    },
    now: () => scores,
    close: () => {
      isClosed = true;
      cancel();
      procfs.close();
      node.close();
    },
  };
}

const flat = ({ declared, cgroup }: BoundPod) => ({ declared, cgroup, isTerminating: declared.isTerminating });

/** For uninstalling the agent: returns how many processes have their old value again, and what could not be restored. */
export function putBackOomScores(needs: {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly runtimeDirectory: string;
  readonly bootId: string;
}): { readonly count: number; readonly problems: readonly string[] } {
  const { clock, mounts, runtimeDirectory, bootId } = needs;
  let count = 0;
  const problems: string[] = [];
  for (const { path, inode, before, set } of loadNote(runtimeDirectory, bootId, clock)) {
    const ref = { path, inode };
    const pids = processesOf(mounts, ref);
    for (const pid of pids.known ? pids.value : []) {
      const now = readOomScoreAdj(pid);
      if (!now.known || now.value !== set) continue;
      const written = writeOomScoreAdj(mounts, ref, pid, before);
      if (written.known) count += 1;
      else problems.push(`process ${pid} in ${path} keeps oom_score_adj ${set}: ${written.detail}`);
    }
  }
  const none: Note = { schema: 1, bootId, changed: [] };
  if (problems.length === 0) saveRuntimeFile(notePath(runtimeDirectory), none);
  return { count, problems: problems.slice(0, 10) };
}
