import { ifKnown, known, type Reading, unknown } from '../../core/reading.ts';
import { livePathOf } from '../../host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../host/cgroup/cgroupfs.ts';
import { sleep } from '../../host/clock.ts';
import { readOomScoreAdj } from '../../host/process/oom-score.ts';
import { startTicks } from '../../host/process/workload.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { unitIn, unitOfCgroup } from '../../host/systemd/unit-path.ts';
import type { CgroupRef, Clock } from '../../ports.ts';

type Process = { readonly pid: number; readonly ticks: number | null };
/** Processes of a pod: of one unit in it, or all. */
export type ScoreGroup = { readonly ref: CgroupRef; readonly processes: readonly Process[] };
/** `own`: the value that its unit sets; null: none. */
type Place = { readonly ref: CgroupRef; readonly own: number | null };

/** OOMScoreAdjust= of services, as one pass over the pods asks for it. */
export type OwnScores = {
  /** Null: none of its own, or that of systemd itself (`usual`), from which an explicit one cannot be told. */
  readonly ofService: (unit: string) => Promise<Reading<number | null>>;
  /** The same of the service that has this cgroup: whoever may make cgroups may give one the name of a service. */
  readonly ofCgroup: (top: string) => Promise<Reading<number | null>>;
};

export function createOwnScores(systemd: Pick<Systemd, 'oomScoreAdjust' | 'unit'>, usual: number): OwnScores {
  const asked = new Map<string, Promise<Reading<number | null>>>();
  const ofService = async (unit: string): Promise<Reading<number | null>> =>
    ifKnown(await systemd.oomScoreAdjust(unit), (value) => known(value === usual ? null : value));
  const ask = async (top: string): Promise<Reading<number | null>> => {
    const unit = unitOfCgroup(top.slice(top.lastIndexOf('/') + 1));
    // The manager of a user answers for its units, and is not asked.
    if (!unit.endsWith('.service') || top.includes('/user@')) return known(null);
    const own = await ofService(unit);
    if (!own.known || own.value === null) return own;
    return ifKnown(await systemd.unit(unit), ({ controlGroup }) => known(controlGroup === top ? own.value : null));
  };
  return {
    ofService,
    ofCgroup: (top) => {
      const answer = asked.get(top) ?? ask(top);
      asked.set(top, answer);
      return answer;
    },
  };
}

type Judged = {
  /** To be set. */
  readonly others: readonly ScoreGroup[];
  /** How many keep what their unit sets, and the highest of these values, which the kernel compares first. */
  readonly kept: number;
  readonly highestKept: number;
  /** False: what some of them should have is not known. */
  readonly isWhole: boolean;
};

const SLICE_PROCESSES = 100;

/** Which processes of a pod have another value than `value`. `own`: null: no unit in it has a value of its own. */
export async function judgeScores(
  { mounts, clock }: { readonly mounts: CgroupMounts; readonly clock: Clock },
  { ref, pids, value, most }: { ref: CgroupRef; pids: readonly number[]; value: number; most: number },
  own: OwnScores | null,
): Promise<Judged> {
  const others = new Map<number, { readonly ref: CgroupRef; readonly processes: Process[] }>();
  let [left, kept, highestKept, isWhole] = [most, 0, Number.NEGATIVE_INFINITY, true];
  for (const [i, pid] of pids.entries()) {
    if (left <= 0) break;
    if (i > 0 && i % SLICE_PROCESSES === 0) await sleep(clock, 1);
    const now = readOomScoreAdj(pid);
    if (!now.known || now.value === value) continue;
    const ticks = startTicks(pid);
    const place = own === null ? known({ ref, own: null }) : await placeOf(mounts, ref, pid, own);
    if (!place.known) isWhole &&= place.why === 'absent';
    else if (place.value.own !== null) {
      kept += 1;
      highestKept = Math.max(highestKept, place.value.own);
    } else {
      const group = others.get(place.value.ref.inode) ?? { ref: place.value.ref, processes: [] };
      group.processes.push({ pid, ticks });
      others.set(group.ref.inode, group);
      left -= 1;
    }
  }
  return { others: [...others.values()], kept, highestKept, isWhole };
}

/** A slice, or a cgroup above units, has some whose processes are theirs. */
async function placeOf(mounts: CgroupMounts, ref: CgroupRef, pid: number, own: OwnScores): Promise<Reading<Place>> {
  const path = livePathOf(mounts, pid);
  if (!path.known) return path;
  const isBelow = (name: string): boolean => name.startsWith(`${ref.path}/`);
  if (path.value !== ref.path && !isBelow(path.value)) return unknown('absent', `${pid}`, 'it has left the pod');
  const top = unitIn(path.value);
  if (top === null) return known({ ref, own: null });
  const value = await own.ofCgroup(top);
  const place = isBelow(top) ? refOf(mounts, top) : known(ref);
  return ifKnown(value, (said) => ifKnown(place, (found) => known({ ref: found, own: said })));
}
