import type { ProcessView } from '../core/pod/pod.ts';
import { known, type Reading } from '../core/reading.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { processesOf } from '../host/cgroup/cgroupfs.ts';
import { processName, processState, rssBytes } from '../host/procfs.ts';
import type { CgroupRef } from '../ports.ts';
import type { NotSent, Sweep } from './sweep.ts';

const LEFT_SHOWN = 10;

const WHY_NOT: { readonly [how in NotSent]: string } = {
  'not-ours': 'may not be signalled',
  refused: 'the kernel refused the signal',
};

/** The processes that are left. */
export function leftIn({
  mounts,
  ref,
}: {
  readonly mounts: CgroupMounts;
  readonly ref: CgroupRef;
}): Reading<readonly number[]> {
  const pids = processesOf(mounts, ref);
  return pids.known ? known(pids.value.filter((pid) => processState(pid).known)) : pids;
}

export const viewsOf = (left: Reading<readonly number[]>): readonly ProcessView[] =>
  left.known ? left.value.slice(0, LEFT_SHOWN).flatMap(viewOf) : [];

function viewOf(pid: number): readonly ProcessView[] {
  const [rss, name] = [rssBytes(pid), processName(pid)];
  return rss.known ? [{ pid, name: name.known ? name.value : '', rssBytes: rss.value }] : [];
}

type Signals = {
  readonly sweep: Pick<Sweep, 'refused'>;
  /** Processes that were sent SIGKILL. */
  readonly killed: ReadonlySet<number>;
};

/** For each: pid, name, state, and why it was not signalled or has not ended. */
export function sayLeft({ sweep, killed }: Signals, left: Reading<readonly number[]>): string {
  if (!left.known) return `the remaining processes cannot be listed: ${left.detail}`;
  const refused = sweep.refused();
  const shown = left.value.slice(0, LEFT_SHOWN).map((pid) => {
    const [state, name] = [processState(pid), processName(pid)];
    const how = refused.get(pid);
    const sent = killed.has(pid) ? 'was sent SIGKILL but has not ended' : 'has just started';
    const why = how === undefined ? sent : WHY_NOT[how];
    return `process ${pid} (${name.known ? name.value : 'no name'}, state ${state.known ? state.value : 'unknown'}) ${why}`;
  });
  const more = left.value.length - shown.length;
  return [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('; ');
}
