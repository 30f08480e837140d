import type { PodUid } from '../core/pod.ts';
import { type MonoMs, type Reading, valueOrNull } from '../core/reading.ts';
import type { State } from '../core/state.ts';
import { type CgroupMounts, oomKillsOf } from '../host/cgroupfs.ts';
import { createProcfs } from '../host/procfs.ts';
import type { BoundPod } from '../ports.ts';

/** Whose a kill may be, by the configuration in force. */
type Pods = () => Reading<readonly BoundPod[]>;
/** Kills by the kernel; `pods`: whose, as namespace/name; empty = nobody's that we know. */
export type OomKills = { readonly count: number; readonly pods: readonly string[] };
export type OomWatch = {
  /** After each look, with the state it led to: kills since the last reading, when one is due. Null = none. */
  readonly look: (atMs: MonoMs, state: Pick<State, 'act' | 'firstMetMs'>, pods: Pods) => OomKills | null;
  /** Kills since the last reading, read now: before nobody looks any more. */
  readonly now: (pods: Pods) => OomKills | null;
  readonly close: () => void;
};

type Counted = { readonly inode: number; readonly kills: number };

/**
 * To read the machine's counter takes 28 µs (the kernel writes all of /proc/vmstat anew, hot, on an AMD EPYC), more than
 * the rest of a look, and there is no cheaper one: version 1 counts in the victim's own cgroup only, and the root of
 * version 2 has no memory.events. Hence at each look only while the kernel is likely to kill.
 */
const CALM_PACE_MS = 1_000;
const MEMORY = /^(?:allocatableMemory|memory)\./;

/** One counter of the machine; the pods' own counters only when that one has moved. One for a run, whatever it configures. */
export function createOomWatch(mounts: CgroupMounts): OomWatch {
  const procfs = createProcfs();
  let last: number | null = null;
  let counted: ReadonlyMap<PodUid, Counted> = new Map();
  let readMs = Number.NEGATIVE_INFINITY;
  let wasTight = false;

  /** The pods' counters now, and who was killed since `counted`. */
  const scan = (count: number, pods: Pods): readonly string[] => {
    const bound = valueOrNull(pods()) ?? [];
    const now = new Map<PodUid, Counted>();
    const hit: { readonly name: string; readonly kills: number; readonly isNew: boolean }[] = [];
    for (const { declared, cgroup } of bound) {
      if (!cgroup.known) continue;
      const kills = oomKillsOf(mounts, cgroup.value);
      if (!kills.known) continue;
      const { inode } = cgroup.value;
      const before = counted.get(declared.uid);
      now.set(declared.uid, { inode, kills: kills.value });
      // Another inode is a new cgroup, which began at 0.
      const grown = kills.value - (before?.inode === inode ? before.kills : 0);
      const name = `${declared.namespace}/${declared.name}`;
      if (grown > 0) hit.push({ name, kills: grown, isNew: before === undefined });
    }
    counted = now;
    // A pod that was bound since the last scan may have been hit long before: it counts only where the sum fits.
    const fits = hit.reduce((sum, { kills }) => sum + kills, 0) <= count;
    return hit.filter(({ isNew }) => !isNew || fits).map(({ name }) => name);
  };
  const now = (pods: Pods): OomKills | null => {
    const kills = procfs.oomKills();
    if (!kills.known) return null;
    const count = last === null ? null : kills.value - last;
    last = kills.value;
    if (count === null) scan(0, pods);
    if (count === null || count <= 0) return null;
    return { count, pods: scan(count, pods) };
  };
  return {
    look: (atMs, state, pods) => {
      const isTight = state.act.kind === 'evicting' || Object.keys(state.firstMetMs).some((id) => MEMORY.test(id));
      // Once more after: a kill by the kernel may be what ended it.
      const isDue = isTight || wasTight || atMs - readMs >= CALM_PACE_MS;
      wasTight = isTight;
      if (!isDue) return null;
      readMs = atMs;
      return now(pods);
    },
    now,
    close: procfs.close,
  };
}
