import { type PodUid, podName } from '../core/pod/pod.ts';
import { type MonoMs, type Reading, unknown, valueOrNull } from '../core/reading.ts';
import { SIGNAL_FACTS, SIGNALS } from '../core/signal.ts';
import type { State } from '../core/state/state.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createOomCounters } from '../host/cgroup/cgroup-oom.ts';
import { createProcfs } from '../host/procfs.ts';
import type { BoundPod, CgroupRef, Clock } from '../ports.ts';

/** The pods that may have been hit, by the configuration in force. */
type Pods = () => Reading<readonly BoundPod[]>;
/**
 * Kernel OOM kills; `pods`: the victims' pods, as namespace/name; `unattributed`: how many of `count` belong to no known pod.
 * `unwatchedSinceMs`: as in the record.
 */
export type OomKills = {
  readonly count: number;
  readonly pods: readonly string[];
  readonly unattributed: number;
  readonly unwatchedSinceMs?: MonoMs;
};
type Whose = Pick<OomKills, 'pods' | 'unattributed'>;
/** The machine's counter at a time, and those of the pods when it last changed. */
export type OomCount = {
  readonly atMs: MonoMs;
  readonly kills: number;
  readonly pods: { readonly [uid: PodUid]: PodCount };
};
/** `path`: where its cgroup was; absent: kept by an earlier version. */
export type PodCount = { readonly inode: number; readonly path?: string; readonly kills: number };
export type OomWatch = {
  /** Before the first reading, which then tells the kills since an earlier run's last one. */
  readonly resume: (from: OomCount) => void;
  /** As of the last reading; null: there was none. Call it while no reading is in progress. */
  readonly counted: () => OomCount | null;
  /**
   * After each look, with the state it led to: kills since the last reading, if a reading is due. Null = none. `podsLately`
   * says once a second whether there may be a new pod.
   */
  readonly look: (
    atMs: MonoMs,
    state: Pick<State, 'act' | 'firstMetMs'>,
    pods: Pods,
    podsLately?: Pods,
  ) => Promise<OomKills | null> | null;
  /** Kills since the last reading, read now: for the time before the observer closes. */
  readonly now: (pods: Pods) => Promise<OomKills | null> | null;
  readonly close: () => void;
};

/**
 * Reading the machine's counter takes 28 µs (the kernel formats all of /proc/vmstat each time; hot, on an AMD EPYC), more
 * than the rest of a look. There is no cheaper one: version 1 counts only in the victim's own cgroup, and the root of
 * version 2 has no memory.events. So each look reads it only while the kernel is likely to kill.
 */
const CALM_PACE_MS = 1_000;
/** A pod whose counter takes longer is skipped. */
const ANSWER_MS = 1_000;
const MOST_UNANSWERED = 2;
const HELD_UP = unknown('timed-out', 'memory.oom_control', `no answer within ${ANSWER_MS} ms`);
const MEMORY = SIGNALS.filter((signal) => SIGNAL_FACTS[signal].resource === 'memory');

/**
 * Reads the machine's counter, and the pods' own counters only if it changed, or once for a new pod. One watch per run, across
 * reloads.
 */
export function createOomWatch(mounts: CgroupMounts, clock: Clock): OomWatch {
  const procfs = createProcfs();
  const counters = createOomCounters(mounts);
  let last: { readonly kills: number; readonly atMs: MonoMs } | null = null;
  let counted: ReadonlyMap<PodUid, PodCount> = new Map();
  let unwatchedSinceMs: MonoMs | null = null;
  let readMs = Number.NEGATIVE_INFINITY;
  let searchedMs = Number.NEGATIVE_INFINITY;
  let wasTight = false;
  const unanswered = new Set<number>();
  /** By the pod, the inode of a new cgroup whose counter could not be read. It is read at the next kill. */
  let unread: ReadonlyMap<PodUid, number> = new Map();
  let scanning: Promise<unknown> = Promise.resolve();

  const isNew = ({ declared: { uid }, cgroup }: BoundPod): boolean =>
    cgroup.known && ![counted.get(uid)?.inode, unread.get(uid)].includes(cgroup.value.inode);

  /** A pod's counter. While one has not answered, it is not queried again, so that few threads of the pool wait. */
  async function killsIn(ref: CgroupRef): Promise<Reading<number>> {
    if (unanswered.size >= MOST_UNANSWERED || unanswered.has(ref.inode)) return HELD_UP;
    unanswered.add(ref.inode);
    const asked = counters.read(ref).finally(() => unanswered.delete(ref.inode));
    return await new Promise((resolve) => {
      const cancel = clock.after(ANSWER_MS, () => resolve(HELD_UP));
      void asked.then((kills) => {
        cancel();
        resolve(kills);
      });
    });
  }

  /** The pods' counters now, and which pods were hit since `counted`. `isFirst`: the machine had counted no kill before. */
  async function scan(count: number, isFirst: boolean, bound: readonly BoundPod[]): Promise<Whose> {
    const now = new Map<PodUid, PodCount>();
    const hit: { readonly name: string; readonly kills: number }[] = [];
    for (const { declared, cgroup } of bound) {
      const before = counted.get(declared.uid);
      const kills = cgroup.known ? await killsIn(cgroup.value) : cgroup;
      // Forgotten: what it counts now is part of this reading, but it would be seen at the next one.
      if (!cgroup.known || !kills.known) continue;
      now.set(declared.uid, { ...cgroup.value, kills: kills.value });
      const base = killsBefore(before, cgroup.value) ?? (isFirst ? 0 : null);
      if (base !== null && kills.value > base) hit.push({ name: podName(declared), kills: kills.value - base });
    }
    counted = now;
    counters.sweep();
    // A cgroup that is gone by now cannot be attributed.
    const attributed = hit.reduce((sum, { kills }) => sum + kills, 0);
    return { pods: hit.map(({ name }) => name), unattributed: Math.max(0, count - attributed) };
  }
  /** Those of pods that were bound, or got another cgroup, since the last scan: what they count from now on is theirs. */
  async function scanNew(bound: readonly BoundPod[]): Promise<void> {
    const now = new Map<PodUid, PodCount>();
    const failed = new Map<PodUid, number>();
    for (const pod of bound) {
      const { declared, cgroup } = pod;
      const before = counted.get(declared.uid);
      if (before !== undefined) now.set(declared.uid, before);
      if (!cgroup.known) continue;
      const { inode } = cgroup.value;
      const kills = isNew(pod) ? await killsIn(cgroup.value) : null;
      if (kills === null) counters.keep(cgroup.value);
      if (kills?.known) now.set(declared.uid, { ...cgroup.value, kills: kills.value });
      else if (kills !== null || unread.get(declared.uid) === inode) failed.set(declared.uid, inode);
    }
    counted = now;
    unread = failed;
    counters.sweep();
  }
  /** One at a time: each scan continues from the counts of the previous one. */
  const inTurn = <T>(of: () => Promise<T>): Promise<T> => {
    const ended = scanning.then(of);
    scanning = ended;
    return ended;
  };
  const hasNew = (pods: Pods): boolean => (valueOrNull(pods()) ?? []).some(isNew);
  const now = (pods: Pods, mayBeNew = hasNew(pods)): Promise<OomKills | null> | null => {
    const kills = procfs.oomKills();
    if (!kills.known) return null;
    const count = last === null ? null : kills.value - last.kills;
    const isFirst = last?.kills === 0;
    const unwatched = unwatchedSinceMs === null ? {} : { unwatchedSinceMs };
    last = { kills: kills.value, atMs: clock.monoMs() };
    unwatchedSinceMs = null;
    if (count !== null && count <= 0 && !mayBeNew) return null;
    const bound = valueOrNull(pods()) ?? [];
    if (count === null) return inTurn(() => scan(0, false, bound)).then(() => null);
    if (count <= 0) return inTurn(() => scanNew(bound)).then(() => null);
    return inTurn(() => scan(count, isFirst, bound)).then((whose) => ({ count, ...whose, ...unwatched }));
  };
  return {
    resume: ({ atMs, kills, pods }) => {
      last = { kills, atMs };
      counted = new Map(Object.entries(pods));
      unwatchedSinceMs = atMs;
    },
    counted: () => (last === null ? null : { ...last, pods: Object.fromEntries(counted) }),
    look: (atMs, state, pods, podsLately = pods) => {
      const isTight = state.act.kind === 'evicting' || Object.keys(state.firstMetMs).some(isOfMemory);
      // Once more after the shortage: a kernel OOM kill may have ended it.
      const isDue = isTight || wasTight || atMs - readMs >= CALM_PACE_MS;
      wasTight = isTight;
      if (!isDue) return null;
      readMs = atMs;
      // The looks of a shortage are 2 ms apart, and the kill waits for them.
      const isSearching = atMs - searchedMs >= CALM_PACE_MS;
      if (isSearching) searchedMs = atMs;
      return now(pods, isSearching && hasNew(podsLately));
    },
    now: (pods) => now(pods),
    close: () => {
      counters.close();
      procfs.close();
    },
  };
}

/** What the cgroup had counted at the last reading. Null: that is not known, and its kills may be old. */
function killsBefore(before: PodCount | undefined, { inode, path }: CgroupRef): number | null {
  if (before?.inode === inode) return before.kills;
  // A new one at the same path began at 0. The one at another path may have existed.
  return before?.path === path ? 0 : null;
}

const isOfMemory = (threshold: string): boolean => MEMORY.some((signal) => threshold.startsWith(`${signal}/`));
