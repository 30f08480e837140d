import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { processesOf } from '../host/cgroup/cgroupfs.ts';
import { MS_PER_TICK, startTicks } from '../host/process/workload.ts';
import { rssBytes } from '../host/procfs.ts';
import type { CgroupRef } from '../ports.ts';

/** Since when (time since boot) no process to be ended can have started another one; null: not observed yet. */
export type Spent = {
  sinceBootMs: number | null;
  /** No process was in it. False: all had been sent SIGKILL and can no longer fork. */
  wasEmpty: boolean;
};
type Ended = {
  readonly mounts: CgroupMounts;
  readonly ref: CgroupRef;
  readonly givesBack: 'memory' | 'pids';
  readonly killed: ReadonlySet<number>;
  readonly spent: Readonly<Spent>;
};

/**
 * Anything larger is not a cleanup, or not one that other pods should die for. Until the cgroup was seen empty, nothing
 * larger is spared: many processes, or ones that take memory, belong to the victim. If process IDs have to be freed, all
 * processes do.
 */
export const CLEAN_UP = { processes: 32, bytes: 16 * 1024 * 1024 };
/** The maximum number of processes to check one by one. */
const MOST = 1_000;

/** D3: processes started after those to be ended. Null: one of these is left, or this is unknown. */
export function successorsIn(ended: Ended): readonly number[] | null {
  const { mounts, ref, spent } = ended;
  if (spent.sinceBootMs === null) return null;
  const pids = processesOf(mounts, ref);
  if (!pids.known || pids.value.length > (spent.wasEmpty ? MOST : CLEAN_UP.processes)) return null;
  return pids.value.every((pid) => isSuccessor(ended, pid)) ? pids.value : null;
}

/** Which of the processes that one sweep meets are not sent SIGKILL. */
export function spares(ended: Ended): (pid: number) => boolean {
  const spared = new Set<number>();
  return (pid) => {
    if (!isSuccessor(ended, pid)) return false;
    spared.add(pid);
    return ended.spent.wasEmpty || spared.size <= CLEAN_UP.processes;
  };
}

/** A process that has ended meanwhile counts as a successor; one that our pid namespace does not show (0) does not. */
function isSuccessor({ spent, killed, givesBack }: Ended, pid: number): boolean {
  if (spent.sinceBootMs === null || pid === 0 || killed.has(pid)) return false;
  if (!spent.wasEmpty && (givesBack === 'pids' || rssOf([pid]) > CLEAN_UP.bytes)) return false;
  const ticks = startTicks(pid);
  return ticks === null || ticks >= Math.floor(spent.sinceBootMs / MS_PER_TICK);
}

export function rssOf(pids: readonly number[]): number {
  const rss = pids.map((pid) => rssBytes(pid));
  return rss.reduce((sum, bytes) => sum + (bytes.known ? bytes.value : 0), 0);
}
