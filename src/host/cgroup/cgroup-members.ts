import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { createClock } from '../clock.ts';
import { namesIn } from '../directory-names.ts';
import { cgroupPathsOf, createProcfs, processState, type Thread, threadsOf } from '../procfs.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { isLeaf, listIn, type ProcessWalk } from './cgroup-walk.ts';

/** The maximum checked in one process whose main thread is elsewhere. */
const MOST_THREADS = 4_096;
/** The maximum in one look: about 10 ms. */
const LOOK_PROCESSES = 1_000;
/** The same while the kernel kills: listing a directory that it keeps locked takes minutes. */
const LOOK_PROCESSES_IN_KILLS = 10_000;
/** How long after a kernel OOM kill the kernel counts as killing. */
const KILLS_LAST_MS = 10_000;

/** Where the main thread of a process is in the hierarchy whose paths a CgroupRef has. */
export function cgroupPathOf(mounts: CgroupMounts, pid: number): Reading<string> {
  return decoded(pathIn(mounts, cgroupPathsOf(pid), pid));
}

function pathIn(mounts: CgroupMounts, paths: ReturnType<typeof cgroupPathsOf>, pid: number): Reading<string> {
  if (!paths.known) return paths;
  const path = paths.value.get(mounts.version === 1 ? 'memory' : '');
  return path === undefined ? unknown('absent', `/proc/${pid}/cgroup`, 'the hierarchy is not listed') : known(path);
}

/** The same for a process of which only other threads than the main one may live. Absent: it has ended. */
export function livePathOf(mounts: CgroupMounts, pid: number): Reading<string> {
  return decoded(placeOf(mounts, pid));
}

const decoded = (path: Reading<string>): Reading<string> =>
  path.known ? known(Buffer.from(path.value, 'latin1').toString()) : path;

/**
 * Whether any live thread of the process is in the cgroup or below it. On version 1 the file of a process whose main
 * thread has ended says `/`, though the others live on.
 */
export function isMember(mounts: CgroupMounts, ref: CgroupRef, pid: number): Reading<boolean> {
  const top = Buffer.from(ref.path).toString('latin1');
  const isInside = (thread: number | Thread): Reading<boolean> => {
    const path = pathIn(mounts, cgroupPathsOf(thread), pid);
    return path.known ? known(path.value === top || path.value.startsWith(`${top}/`)) : path;
  };
  const main = isInside(pid);
  if (!main.known || main.value) return main;
  for (const tid of threadsOf(pid, MOST_THREADS)) {
    const thread = tid === pid ? main : isInside(`${pid}/task/${tid}`);
    if (thread.known && thread.value) return thread;
  }
  return main;
}

type Placed = { readonly pid: number; readonly path: string };

/** Each process and its cgroup; null: it has ended, or this is unknown. Returns whether every live process was covered. */
function* placesInProc(mounts: CgroupMounts): Generator<Placed | null, boolean, void> {
  let isWhole = true;
  for (const name of namesIn('/proc')) {
    const pid = /^[1-9]\d*$/.test(name) ? Number(name) : null;
    if (pid === null) continue;
    const path = placeOf(mounts, pid);
    if (!path.known) isWhole &&= path.why === 'absent';
    yield path.known ? { pid, path: path.value } : null;
  }
  return isWhole;
}

/** Where its main thread is; if that has ended, where the next thread is. */
function placeOf(mounts: CgroupMounts, pid: number): Reading<string> {
  const path = pathIn(mounts, cgroupPathsOf(pid), pid);
  // For a process that has ended, version 1 shows the root, version 2 where it was.
  if (!path.known || (mounts.version === 1 && path.value !== '/')) return path;
  const state = processState(pid);
  if (!state.known || state.value !== 'Z') return state.known ? path : state;
  const other = threadsOf(pid, 2).find((tid) => tid !== pid);
  if (other === undefined) return unknown('absent', `/proc/${pid}`, 'it has ended');
  return pathIn(mounts, cgroupPathsOf(`${pid}/task/${other}`), pid);
}

/** The processes that the cgroup itself lists, and those that /proc shows below it: walkProcesses without a walk. */
export function* shownProcesses(mounts: CgroupMounts, ref: CgroupRef, directory: string): ProcessWalk {
  const again = (): Reading<readonly number[]> => listIn(directory, '');
  const own = again();
  if (!own.known) return own;
  if (own.value.length > 0) yield { pids: own.value, again, path: '' };
  if (isLeaf(directory)) return known(true);
  const top = Buffer.from(ref.path).toString('latin1');
  const search = placesInProc(mounts);
  try {
    for (let next = search.next(); ; next = search.next()) {
      if (next.done === true) return known(next.value);
      const place = next.value;
      const isHere = place !== null && (place.path === top || place.path.startsWith(`${top}/`));
      yield isHere ? { pids: [place.pid], again: () => known([]), path: null } : null;
    }
  } finally {
    // A caller that has found enough ends this early; otherwise the directory would stay open.
    search.return(false);
  }
}

type Found = {
  readonly mounts: CgroupMounts;
  readonly pids: ReadonlyMap<string, readonly number[]>;
  readonly isWhole: boolean;
};
/**
 * A look reads many pods without a pause. The findings are dropped before anything else runs, so none outlives its
 * look.
 */
let ofThisLook: Found | null = null;

/** The same within the cost limit of one look; if there is a process, the result is never both empty and complete. */
export function lookInProc(
  mounts: CgroupMounts,
  ref: CgroupRef,
): { readonly pids: ReadonlySet<number>; readonly isWhole: boolean } {
  if (ofThisLook?.mounts !== mounts) {
    ofThisLook = searchProc(mounts);
    queueMicrotask(() => {
      ofThisLook = null;
    });
  }
  const { pids, isWhole } = ofThisLook;
  return { pids: new Set(pids.get(Buffer.from(ref.path).toString('latin1'))), isWhole };
}

/** By cgroup, including those below it. */
function searchProc(mounts: CgroupMounts): Found {
  const pids = new Map<string, number[]>();
  let steps = 0;
  let most = LOOK_PROCESSES;
  const search = placesInProc(mounts);
  for (let next = search.next(); ; next = search.next()) {
    if (next.done === true) return { mounts, pids, isWhole: next.value };
    if (next.value !== null) note(pids, next.value);
    if (++steps === LOOK_PROCESSES && isKernelKilling()) most = LOOK_PROCESSES_IN_KILLS;
    if (steps >= most) {
      search.return(false);
      return { mounts, pids, isWhole: false };
    }
  }
}

const { oomKills } = createProcfs();
const { monoMs } = createClock();
let kills: { readonly count: number; readonly lastMs: number } | null = null;

/** Judged by the kills since the last call. */
function isKernelKilling(): boolean {
  const count = oomKills();
  const nowMs = monoMs();
  // The first call has nothing to compare with, and assumes kills.
  if (count.known && count.value !== kills?.count) kills = { count: count.value, lastMs: nowMs };
  return kills !== null && nowMs - kills.lastMs < KILLS_LAST_MS;
}

function note(pids: Map<string, number[]>, { pid, path }: Placed): void {
  for (let end = path.length; end > 0; end = path.lastIndexOf('/', end - 1)) {
    const at = path.slice(0, end);
    const there = pids.get(at);
    if (there === undefined) pids.set(at, [pid]);
    else there.push(pid);
  }
}
