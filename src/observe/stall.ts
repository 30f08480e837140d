import {
  isStepOver,
  type PodStall,
  type StallHistory,
  type StallSettings,
  stallIn,
  stallStep,
  stepMsOf,
} from '../core/eviction/stall.ts';
import type { PodUid } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { openCgroupStall, podStall } from '../host/cgroup/cgroup-stall.ts';
import type { Procfs } from '../host/procfs.ts';
import type { Clock, PodSource } from '../ports.ts';

export type NodeStallNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly procfs: Procfs;
  readonly cgroupRoot: string;
  /** Null: off. */
  readonly evictionStall: StallSettings | null;
  readonly pods: PodSource['pods'];
  /** The cgroup whose memory is the node's. */
  readonly nodePath: (atMs: MonoMs) => Reading<string>;
  /** What could be freed, whatever memory.available counts. */
  readonly reclaimable: (atMs: MonoMs) => Reading<SignalSample>;
};
type NodeStall = {
  /** In ms: how much of the last `forMs` was free of stall. */
  readonly available: (atMs: MonoMs) => Reading<SignalSample>;
  /** The same, with what is known of the pods read now. */
  readonly again: (atMs: MonoMs) => Reading<SignalSample>;
  /** The pod stalls in its own memory limit. */
  readonly isByOwnLimit: (uid: PodUid) => boolean;
  readonly close: () => void;
};

const OFF = unknown('not-applicable', 'memory stall', 'evictionStall is not configured');
/** Below this share of the stall threshold, the pods' own stall is read once per window, else at every step. */
const MATTERS_SHARE = 0.1;
/** Each pod costs two files per step; pods beyond this number count as ones without a limit of their own. */
const MAX_PODS = 2_048;
const NOBODY: ReadonlySet<PodUid> = new Set();

/**
 * memory.stallFree: what the kernel counts as `full` memory pressure, from differences of its counter. While enough memory is
 * available, no stall counts: memory is not short, or no longer. A stall counts from the first point at which too little is
 * available: points are taken beside the looks, which may be seconds apart until then.
 */
export function createNodeStall(needs: NodeStallNeeds): NodeStall {
  const { clock, mounts, procfs, cgroupRoot, evictionStall } = needs;
  if (evictionStall === null)
    return { available: () => OFF, again: () => OFF, isByOwnLimit: () => false, close: () => undefined };
  const { fullShare, forMs, belowShare } = evictionStall;
  const own = cgroupRoot === '/' ? null : openCgroupStall(mounts, cgroupRoot);
  let followed: { readonly node: string; readonly history: StallHistory } | null = null;
  let byOwnLimit = NOBODY;

  const stalledMs = (node: string): Reading<number> => {
    const read = node === '/' || own === null ? procfs.memoryStallMs() : own.stalledMs();
    return read.known || read.why !== 'absent' ? read : { ...read, why: 'not-applicable' };
  };
  const podsNow = (): ReadonlyMap<PodUid, PodStall> | null => {
    const bound = mounts.version === 2 ? needs.pods() : null;
    if (bound?.known !== true) return null;
    const stalls = new Map<PodUid, PodStall>();
    for (const { declared, cgroup } of bound.value.slice(0, MAX_PODS)) {
      const stall = cgroup.known ? podStall(mounts, cgroup.value) : cgroup;
      if (stall.known) stalls.set(declared.uid, stall.value);
    }
    return stalls;
  };
  const sample = (atMs: MonoMs, when: 'at-steps' | 'now'): Reading<SignalSample> => {
    const node = needs.nodePath(atMs);
    if (!node.known) return node;
    const stalled = stalledMs(node.value);
    const memory = stalled.known ? needs.reclaimable(atMs) : stalled;
    if (!stalled.known || !memory.known) {
      followed = null;
      return stalled.known ? memory : stalled;
    }
    const sampleOf = (lostMs: number): Reading<SignalSample> =>
      known({ available: forMs - lostMs, capacity: forMs, sampledAtMs: atMs });
    const { available, capacity } = memory.value;
    if (available >= belowShare * capacity) {
      followed = null;
      byOwnLimit = NOBODY;
      return sampleOf(0);
    }
    const before = followed?.node === node.value ? followed.history : [];
    const present = { atMs, stalledMs: stalled.value };
    const podsFor = (allMs: number): ReadonlyMap<PodUid, PodStall> | null => {
      // Their growth since the last reading is known even if the next sample is late.
      const askedAtMs = before.findLast(({ pods }) => pods !== null)?.atMs ?? Number.NEGATIVE_INFINITY;
      const matters = allMs >= MATTERS_SHARE * fullShare * forMs;
      return matters || atMs - askedAtMs >= forMs ? podsNow() : null;
    };
    const isStep = when === 'now' || isStepOver(before, atMs, forMs);
    const { history, stall } = isStep
      ? stallStep(before, present, forMs, podsFor)
      : { history: before, stall: stallIn(before, present, forMs) };
    followed = { node: node.value, history };
    byOwnLimit = stall.byOwnLimit;
    return sampleOf(Math.min(forMs, stall.stalledMs));
  };
  let cancel: () => void = () => undefined;
  const followPoints = (): void => {
    cancel = clock.after(stepMsOf(forMs), () => {
      sample(clock.monoMs(), 'at-steps');
      followPoints();
    });
  };
  followPoints();
  return {
    available: (atMs) => sample(atMs, 'at-steps'),
    again: (atMs) => sample(atMs, 'now'),
    isByOwnLimit: (uid) => byOwnLimit.has(uid),
    close: () => {
      cancel();
      own?.close();
    },
  };
}
