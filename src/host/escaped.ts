import type { HeldOutside } from '../core/observation.ts';
import type { Escaped } from '../core/outcome.ts';
import type { ProcessId } from '../core/pod/pod.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { EscapedFrom } from '../core/state/state.ts';
import type { CgroupRef } from '../ports.ts';
import { cgroupPathOf, isMember, isThreadIn } from './cgroup-members.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { anonBytes, isPopulated, unreaped } from './cgroupfs.ts';
import { cgroupPathsOf, descentOf, isExiting, rssBytes, type Thread, threadsOf } from './procfs.ts';

/** Less than this may stay charged to a cgroup without processes: kernels before 5.13 count per processor, and not exactly. */
export const CHARGED_LEAST_BYTES = 16 * 1024 * 1024;
/** Any of them that is not ending shows that the process lives. */
const FEW_THREADS = 64;
const MOST_THREADS = 4_096;
/** On version 1, where a thread whose process has ended is said to be. */
const ROOT = '/';

/** Where a process is in relation to a cgroup. `ended`: also if it is ending, or another one has its pid. */
export type Whereabouts = 'ended' | 'inside' | { readonly path: Reading<string> };

/** `path`: as of its first live thread, in the hierarchy of the cgroup. Unknown: also that it is outside at all. */
export function whereaboutsOf(mounts: CgroupMounts, ref: CgroupRef, id: ProcessId): Whereabouts {
  if (!isSameProcess(id)) return 'ended';
  const member = isMember(mounts, ref, id.pid);
  if (member.known && member.value) return 'inside';
  const live = firstLive(id.pid);
  if (live === null) return 'ended';
  const isInside = mounts.version === 1 ? isThreadIn(mounts, ref, id.pid, live) : known(false);
  if (isInside.known && isInside.value) return 'inside';
  const path = isInside.known ? cgroupPathOf(mounts, live) : isInside;
  // A process that is ending shows another cgroup than its own, so this comes after that.
  return firstLive(id.pid) === null || !isSameProcess(id) ? 'ended' : { path };
}

/** The main thread; if that is ending, the next one that is not. Null: all are. */
function firstLive(pid: number): number | Thread | null {
  const main = isExiting(pid);
  if (!main.known) return null;
  if (!main.value) return pid;
  const tid = threadsOf(pid, FEW_THREADS).find((one) => {
    const exiting = isExiting(`${pid}/task/${one}`);
    return exiting.known && !exiting.value;
  });
  return tid === undefined ? null : `${pid}/task/${tid}`;
}

/**
 * Every cgroup that one of its threads is in, in any hierarchy: whoever has one of them has a part in the process. Unknown if
 * one cannot be read.
 */
export function placesOf(pid: number): Reading<ReadonlySet<string>> {
  const places = new Set<string>();
  const tids = threadsOf(pid, MOST_THREADS);
  if (tids.length === MOST_THREADS) return unknown('unreadable', `/proc/${pid}/task`, 'too many threads');
  for (const tid of tids) {
    const paths = cgroupPathsOf(`${pid}/task/${tid}`);
    if (!paths.known && paths.why !== 'absent') return paths;
    if (paths.known) for (const path of paths.value.values()) places.add(Buffer.from(path, 'latin1').toString());
  }
  places.delete(ROOT);
  return known(places);
}

function isSameProcess({ pid, startTicks }: ProcessId): boolean {
  const now = descentOf(pid);
  return now.known && now.value.startedTicks === startTicks;
}

/** Anonymous memory that is charged to a cgroup without processes: others hold it. 0: nothing worth mentioning, or unknown. */
export function chargedBytes(mounts: CgroupMounts, ref: CgroupRef): number {
  const populated = isPopulated(mounts, ref);
  const anon = populated.known && !populated.value ? anonBytes(mounts, ref) : unknown('not-asked', ref.path, 'in use');
  return anon.known && anon.value >= CHARGED_LEAST_BYTES ? anon.value : 0;
}

/** `isUnreaped`: all that it may hold are process IDs, by its dead. */
export function heldOutside(
  mounts: CgroupMounts,
  { cgroup, processes, isUnreaped }: Escaped & Pick<EscapedFrom, 'isUnreaped'>,
): Omit<HeldOutside, 'of'> {
  if (isUnreaped) return { memoryBytes: 0, processIds: unreaped(mounts, cgroup) };
  const outside = processes.filter((id) => typeof whereaboutsOf(mounts, cgroup, id) === 'object');
  let [bytes, processIds] = [0, 0];
  for (const { pid } of outside) {
    const rss = rssBytes(pid);
    if (rss.known) bytes += rss.value;
    processIds += threadsOf(pid, MOST_THREADS).length;
  }
  return { memoryBytes: Math.max(bytes, chargedBytes(mounts, cgroup)), processIds };
}
