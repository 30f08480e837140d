import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { processesOf } from '../host/cgroupfs.ts';
import { rssBytes } from '../host/procfs.ts';
import { MS_PER_TICK, startTicks } from '../host/workload.ts';
import type { CgroupRef } from '../ports.ts';

/** Since when, in time since boot, no process that is to be ended can have started another; null: not seen yet. */
export type Spent = {
  sinceBootMs: number | null;
  /** No process was in it. False: all had been sent SIGKILL, and fork no more. */
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
 * What takes more is no clean-up, or not one that others should die for. Before the cgroup was seen empty nothing else
 * is spared: what is put there in numbers or takes memory belongs to what is to be ended, and so does everything
 * where pids have to come back.
 */
export const CLEAN_UP = { processes: 32, bytes: 16 * 1024 * 1024 };
/** More than this are not checked one by one. */
const MOST = 1_000;

/** D3: processes started in place of those that were to be ended. Null: one of these is left, or that is not known. */
export function successorsIn(ended: Ended): readonly number[] | null {
  const { mounts, ref, spent } = ended;
  if (spent.sinceBootMs === null) return null;
  const pids = processesOf(mounts, ref);
  if (!pids.known || pids.value.length > (spent.wasEmpty ? MOST : CLEAN_UP.processes)) return null;
  return pids.value.every((pid) => isSuccessor(ended, pid)) ? pids.value : null;
}

/** Who is not sent SIGKILL, of all that one sweep meets. */
export function spares(ended: Ended): (pid: number) => boolean {
  const spared = new Set<number>();
  return (pid) => {
    if (!isSuccessor(ended, pid)) return false;
    spared.add(pid);
    return ended.spent.wasEmpty || spared.size <= CLEAN_UP.processes;
  };
}

/** One that has gone meanwhile is no remainder; of one that our pid namespace does not show (0) nothing is known. */
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
