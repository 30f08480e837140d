import { type OomScore, oomScoreAdj } from '../core/pod/oom-score.ts';
import { podName } from '../core/pod/pod.ts';
import { known, type Reading } from '../core/reading.ts';
import { isNumber, isOneOf, isText, shape } from '../core/shape.ts';
import { openMemory } from '../host/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { processesOf, refOf } from '../host/cgroupfs.ts';
import { sleep } from '../host/clock.ts';
import { readOomScoreAdj, writeOomScoreAdj } from '../host/oom-score.ts';
import { createProcfs } from '../host/procfs.ts';
import type { Systemd } from '../host/systemd.ts';
import type { CommandRunner } from '../host/transient.ts';
import { startTicks } from '../host/workload.ts';
import type { BoundPod, CgroupRef, Clock, Findings } from '../ports.ts';
import { OOM_SCORES, oomScoresKept } from '../words/finding-eviction.ts';
import { loadRuntimeFile, remembered, saveRuntimeFile } from './runtime-file.ts';

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
  readonly systemd: Pick<Systemd, 'isUp' | 'oomScoreAdjust'>;
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
const CHOOM_MS = 10_000;

/** For restoring at uninstall: processes in this cgroup had `before`, and now have `set`. */
type Changed = { readonly path: string; readonly inode: number; readonly before: number; readonly set: number };
type Note = { readonly schema: 1; readonly bootId: string; readonly changed: readonly Changed[] };

const notePath = (runtimeDirectory: string): string => `${runtimeDirectory}/oom-scores.json`;

const isNote = shape<Note>({
  schema: isOneOf(1),
  bootId: isText,
  changed: remembered(shape<Changed>({ path: isText, inode: isNumber, before: isNumber, set: isNumber })),
});

function loadNote(runtimeDirectory: string, bootId: string, clock: Clock): readonly Changed[] {
  const { value } = loadRuntimeFile(notePath(runtimeDirectory), (json) => (isNote(json) ? json : null), clock);
  return value?.bootId === bootId ? value.changed : [];
}

type Process = { readonly pid: number; readonly ticks: number | null };
type Wanted = {
  readonly pod: string;
  readonly ref: CgroupRef;
  readonly value: number;
  readonly processes: readonly Process[];
};

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
    const bytes = capacity();
    if (!bytes.known) return;
    const inherited = readOomScoreAdj(1);
    const usual = inherited.known ? inherited.value : 0;
    const found: OomScore[] = [];
    const wanted: Wanted[] = [];
    let left = MOST_CHANGED;
    for (const [i, { declared, cgroup, isTerminating }] of needs.pods().map(flat).entries()) {
      if (i > 0 && i % SLICE_PODS === 0) await sleep(clock, 1);
      if (isClosed) return;
      if (!cgroup.known || isTerminating) continue;
      const pod = podName(declared);
      const own = await ownValue(needs.unitOf(declared.uid), usual);
      // Its unit's setting is unknown: it may have a value of its own.
      if (!own.known) continue;
      // Without a process nobody carries a value.
      const pids = processesOf(mounts, cgroup.value);
      if (!pids.known || pids.value.length === 0) continue;
      if (own.value !== null) {
        found.push({ pod, oomScoreAdj: own.value, from: 'unit', others: 0 });
        continue;
      }
      const value = oomScoreAdj(declared, bytes.value);
      const ref = cgroup.value;
      const others = othersAmong(pids.value, value, left);
      left -= others.length;
      found.push({ pod, oomScoreAdj: value, from: 'qos', others: others.length });
      if (others.length > 0) wanted.push({ pod, ref, value, processes: others });
    }
    scores = found;
    if (wanted.length === 0) {
      findings.clear(OOM_SCORES);
      return;
    }
    remember(wanted, usual);
    const failed = await set(wanted);
    scores = found.map((score) => ({ ...score, others: failed.get(score.pod)?.count ?? 0 }));
    tell(failed);
  }

  /** Null: none of its own. */
  async function ownValue(unit: string | null, usual: number): Promise<Reading<number | null>> {
    if (unit === null || !unit.endsWith('.service')) return known(null);
    const value = await needs.systemd.oomScoreAdjust(unit);
    if (!value.known) return value;
    return known(value.value === usual ? null : value.value);
  }

  function othersAmong(pids: readonly number[], value: number, most: number): readonly Process[] {
    const others: Process[] = [];
    for (const pid of pids) {
      if (others.length >= most) break;
      const now = readOomScoreAdj(pid);
      if (now.known && now.value !== value) others.push({ pid, ticks: startTicks(pid) });
    }
    return others;
  }

  /** Called before anything is changed; forgets cgroups that are gone. */
  function remember(wanted: readonly Wanted[], usual: number): void {
    const isThere = ({ path, inode }: Changed): boolean => {
      const ref = refOf(mounts, path);
      return ref.known && ref.value.inode === inode;
    };
    const kept = changed.filter(isThere);
    const added = wanted.flatMap(({ ref, value, processes }) => {
      const before = kept.find(({ inode }) => inode === ref.inode);
      if (before?.set === value) return [];
      const first = processes[0] === undefined ? null : readOomScoreAdj(processes[0].pid);
      const was = before?.before ?? (first?.known === true ? first.value : usual);
      return [{ path: ref.path, inode: ref.inode, before: was, set: value }];
    });
    if (added.length === 0 && kept.length === changed.length) return;
    const isAdded = ({ inode }: Changed): boolean => added.some((one) => one.inode === inode);
    changed = [...kept.filter((one) => !isAdded(one)), ...added];
    const note: Note = { schema: 1, bootId, changed };
    saveRuntimeFile(notePath(runtimeDirectory), note);
  }

  /** Processes that still have another value, by pod. */
  async function set(
    wanted: readonly Wanted[],
  ): Promise<ReadonlyMap<string, { readonly count: number; readonly why: string }>> {
    const why = needs.systemd.isUp() ? await setByChoom(wanted) : setDirectly(wanted);
    const failed = new Map<string, { readonly count: number; readonly why: string }>();
    for (const { pod, ref, value, processes } of wanted) {
      const count = processes.filter(({ pid, ticks }) => {
        const now = readOomScoreAdj(pid);
        return startTicks(pid) === ticks && ticks !== null && now.known && now.value !== value;
      }).length;
      if (count > 0) failed.set(pod, { count, why: why.get(ref.inode) ?? 'the value did not change' });
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

  /** Not allowed in the agent's own sandbox: done by transient units, one per value. */
  async function setByChoom(wanted: readonly Wanted[]): Promise<ReadonlyMap<number, string>> {
    const why = new Map<number, string>();
    for (const value of new Set(wanted.map((one) => one.value))) {
      const these = wanted.filter((one) => one.value === value);
      const stdin = these.flatMap(({ processes }) => processes.map(({ pid }) => `${pid}\n`)).join('');
      const end = await needs.run({
        argv: ['xargs', '-n', '1', 'choom', '-n', String(value), '-p'],
        timeoutMs: CHOOM_MS,
        stdin,
      });
      if (end.kind === 'exited' && end.code === 0) continue;
      const said =
        end.kind === 'exited'
          ? `choom: exit status ${end.code}`
          : end.kind === 'failed'
            ? end.detail
            : 'choom timed out';
      for (const { ref } of these) why.set(ref.inode, `${value} was refused: ${said}`);
    }
    return why;
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
