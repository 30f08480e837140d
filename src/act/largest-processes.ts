import type { ProcessView } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isMember } from '../host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { processesOf } from '../host/cgroup/cgroupfs.ts';
import { uptimeMs } from '../host/clock.ts';
import { MS_PER_TICK, startTicks } from '../host/process/workload.ts';
import { processName, rssBytes } from '../host/procfs.ts';
import type { CgroupRef, Clock } from '../ports.ts';

type LargestNeeds = {
  readonly mounts: CgroupMounts;
  readonly refs: readonly CgroupRef[];
  readonly clock: Clock;
  readonly count: number;
  readonly budgetMs: number;
};

/** By resident memory, largest first. `timed-out` once the budget is spent: evidence never delays a kill. */
export function largestProcesses({
  mounts,
  refs,
  clock,
  count,
  budgetMs,
}: LargestNeeds): Reading<readonly ProcessView[]> {
  const endsMs = clock.monoMs() + budgetMs;
  const uptime = uptimeMs();
  const sinceBootMs = uptime.known ? uptime.value : Number.POSITIVE_INFINITY;
  const inside = refs.map((ref) => processesOf(mounts, ref));
  // One of several containers may have ended.
  const unread = inside.find((of) => !of.known && (of.why !== 'absent' || inside.length === 1));
  if (unread?.known === false) return unread;
  const pids = inside.flatMap((of) => (of.known ? of.value : []));
  const sized: { readonly pid: number; readonly rssBytes: number }[] = [];
  for (const pid of pids) {
    if (clock.monoMs() > endsMs) {
      const detail = `reading all of them (${pids.length}) took longer than ${budgetMs} ms`;
      return unknown('timed-out', refs.map(({ path }) => path).join(', '), detail);
    }
    const rss = rssBytes(pid);
    // A process that cannot be read has ended meanwhile.
    if (rss.known) sized.push({ pid, rssBytes: rss.value });
  }
  const largest = sized.toSorted((a, b) => b.rssBytes - a.rssBytes || a.pid - b.pid).slice(0, count);
  return known(
    largest.flatMap((process) => {
      const [name, ticks] = [processName(process.pid), startTicks(process.pid)];
      // Another process may have got its id since it was listed.
      const isListed = ticks !== null && (ticks + 1) * MS_PER_TICK <= sinceBootMs;
      if (!isListed && !refs.some((ref) => isIn(mounts, ref, process.pid))) return [];
      return [{ ...process, name: name.known ? name.value : '', ...(ticks === null ? {} : { startTicks: ticks }) }];
    }),
  );
}

function isIn(mounts: CgroupMounts, ref: CgroupRef, pid: number): boolean {
  const member = isMember(mounts, ref, pid);
  return member.known && member.value;
}

/** What started after the decision is no evidence for it. */
export function olderThan(
  decidedMs: MonoMs,
  largest: Reading<readonly ProcessView[]>,
): Reading<readonly ProcessView[]> {
  if (!largest.known) return largest;
  const isOlder = ({ startTicks }: ProcessView): boolean =>
    startTicks !== undefined && startTicks * MS_PER_TICK <= decidedMs;
  return known(largest.value.filter(isOlder));
}
