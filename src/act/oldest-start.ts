import type { MonoMs } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { processesOf } from '../host/cgroup/cgroupfs.ts';
import { MS_PER_TICK, startTicks } from '../host/process/workload.ts';
import type { CgroupRef } from '../ports.ts';

/** The maximum number of processes to read. */
const MAX_AGED = 1_000;

/** When the oldest process in the cgroup started; null: no process, or unknown. */
export function oldestStartMs(mounts: CgroupMounts, ref: CgroupRef): MonoMs | null {
  const pids = processesOf(mounts, ref);
  const ticks = (pids.known ? pids.value : []).slice(0, MAX_AGED).map(startTicks);
  const oldest = Math.min(...ticks.filter((tick) => tick !== null));
  return Number.isFinite(oldest) ? oldest * MS_PER_TICK : null;
}
