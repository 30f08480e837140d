import type { PodUid } from '../core/pod.ts';
import { type Reading, valueOrNull } from '../core/reading.ts';
import { type CgroupMounts, oomKillsOf } from '../host/cgroupfs.ts';
import { createProcfs } from '../host/procfs.ts';
import type { BoundPod } from '../ports.ts';

export type OomWatchNeeds = {
  readonly mounts: CgroupMounts;
  readonly pods: () => Reading<readonly BoundPod[]>;
};
export type OomWatch = {
  /** Kills by the kernel since the last call; `pods`: whose, as namespace/name; empty = nobody's that we know. Null = none. */
  readonly look: () => { readonly count: number; readonly pods: readonly string[] } | null;
  readonly close: () => void;
};

type Counted = { readonly inode: number; readonly kills: number };

/** One counter of the machine at each look; the pods' own counters only when that one has moved. */
export function createOomWatch({ mounts, pods }: OomWatchNeeds): OomWatch {
  const procfs = createProcfs();
  let last: number | null = null;
  let counted: ReadonlyMap<PodUid, Counted> = new Map();

  /** The pods' counters now, and who was killed since `counted`. */
  const scan = (count: number): readonly string[] => {
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
  return {
    look: () => {
      const kills = procfs.oomKills();
      if (!kills.known) return null;
      const count = last === null ? null : kills.value - last;
      last = kills.value;
      if (count === null) scan(0);
      if (count === null || count <= 0) return null;
      return { count, pods: scan(count) };
    },
    close: procfs.close,
  };
}
