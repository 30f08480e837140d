import type { PodUid } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';

/** D17: `fullShare` of the last `forMs`, while less than `belowShare` of the capacity is available. */
export type StallSettings = { readonly fullShare: number; readonly forMs: number; readonly belowShare: number };
/** For a pod whose own pressure can be read. Both counters only grow during the life of its cgroup. */
export type PodStall = {
  /** A different life: the counters began at 0. */
  readonly life: number;
  /** Time in which all of its tasks were stalled on memory. */
  readonly stalledMs: number;
  /** How often it reached a memory limit of its own. */
  readonly limitHits: number;
};
/** The readings at one point in time. */
export type StallFacts = {
  readonly atMs: MonoMs;
  /** Time in which all tasks of the node were stalled on memory; only grows. */
  readonly stalledMs: number;
  /** Null: not needed then, or no pod's own pressure can be read here. */
  readonly pods: ReadonlyMap<PodUid, PodStall> | null;
};
type StallPoint = StallFacts & {
  /** The node's stall since the previous point without that of pods in their own limits; a lower bound. */
  readonly countedMs: number;
  /** Pods in a limit of their own, and when each was last seen to reach it. */
  readonly hitMs: ReadonlyMap<PodUid, MonoMs>;
  /** How long these pods have stalled since the pods were last read. */
  readonly ownMs: ReadonlyMap<PodUid, number>;
};
/** Oldest first; the last is the newest that is kept, not the present. */
export type StallHistory = readonly StallPoint[];
type Stall = {
  /** Within the window; a lower bound. */
  readonly stalledMs: number;
  /** Pods in a limit of their own, whose stall is mostly due to it. */
  readonly byOwnLimit: ReadonlySet<PodUid>;
};
type Present = Pick<StallFacts, 'atMs' | 'stalledMs'>;

/** The number of points in a window; it begins between two of them. */
const POINTS = 20;
const LEAST_STEP_MS = 50;
/**
 * How long a pod counts as in its limit after it has reached it: the kernel counts that, and makes a task over memory.high
 * sleep for up to 2 s then (MEMCG_MAX_HIGH_DELAY_JIFFIES). At memory.max it takes 32 pages at a time, and a disk as
 * long to fill them.
 */
const IN_LIMIT_MS = 2_000;
const NOBODY: ReadonlyMap<PodUid, number> = new Map();
const NONE = { stalledMs: 0, limitHits: 0 };

/** Points closer together would add no information. */
export const stepMsOf = (windowMs: number): number => Math.max(LEAST_STEP_MS, windowMs / POINTS);

/** Whether a point is due. */
export function isStepOver(history: StallHistory, atMs: MonoMs, windowMs: number): boolean {
  const last = history.at(-1);
  return last === undefined || atMs - last.atMs >= stepMsOf(windowMs);
}

/** Keeps one point from before the window, if there is one. A counter that fell is a new one: the history restarts. */
export function stallAfter(history: StallHistory, facts: StallFacts, windowMs: number): StallHistory {
  const last = history.at(-1);
  const asked = history.findLast(({ pods }) => pods !== null);
  // What the pods had stalled before their first reading is unknown.
  const isFirstAsked = facts.pods !== null && asked === undefined;
  if (last === undefined || isFirstAsked || last.stalledMs > facts.stalledMs) {
    return [{ ...facts, countedMs: 0, hitMs: everHit(facts), ownMs: NOBODY }];
  }
  const grownMs = facts.stalledMs - last.stalledMs;
  const start = history.findLastIndex(({ atMs }) => atMs <= facts.atMs - windowMs);
  return [...history.slice(Math.max(0, start)), { ...facts, ...countedBy(asked, facts, grownMs) }];
}

/**
 * D17: how long all tasks of the node were stalled in the last `windowMs`, without the stall of pods in their own limits. If
 * the window begins between two points, as much as possible of the stall between them is assumed to lie before it.
 */
export function stallIn(history: StallHistory, now: Present, windowMs: number): Stall {
  const last = history.at(-1);
  // The stall of such a pod since then has not been read.
  const isCounted = last !== undefined && last.ownMs.size === 0;
  const stalledMs = stalledIn(history, now, windowMs, ({ countedMs }) => countedMs, isCounted);
  return { stalledMs, byOwnLimit: byOwnLimit(history, now.atMs - windowMs) };
}

/**
 * Adds a point for the present. `podsFor` gets how long the whole node was stalled, by any cause, and returns what is known
 * of the pods.
 */
export function stallStep(
  history: StallHistory,
  now: Present,
  windowMs: number,
  podsFor: (stalledMs: number) => StallFacts['pods'],
): { readonly history: StallHistory; readonly stall: Stall } {
  const allOf = (_: StallPoint, grownMs: number): number => grownMs;
  const pods = podsFor(stalledIn(history, now, windowMs, allOf, true));
  const next = stallAfter(history, { ...now, pods }, windowMs);
  return { history: next, stall: stallIn(next, now, windowMs) };
}

function stalledIn(
  history: StallHistory,
  now: Present,
  windowMs: number,
  ofPoint: (point: StallPoint, grownMs: number) => number,
  isTailCounted: boolean,
): number {
  const startMs = now.atMs - windowMs;
  let stalledMs = 0;
  const add = (fromMs: MonoMs, ms: number): void => {
    stalledMs += Math.max(0, ms - Math.max(0, startMs - fromMs));
  };
  for (const [i, point] of history.entries()) {
    const before = history[i - 1];
    if (before !== undefined && point.atMs > startMs) {
      add(before.atMs, ofPoint(point, point.stalledMs - before.stalledMs));
    }
  }
  const last = history.at(-1);
  if (last !== undefined && isTailCounted) add(last.atMs, Math.max(0, now.stalledMs - last.stalledMs));
  return stalledMs;
}

/** When they last reached their limit is unknown: it may have been just now. */
const everHit = ({ atMs, pods }: StallFacts): StallPoint['hitMs'] =>
  new Map([...(pods ?? [])].filter(([, { limitHits }]) => limitHits > 0).map(([uid]) => [uid, atMs]));

/**
 * `grownMs`: the node's stall since the last point. If a pod in its own limit has ended or restarted since, its share is
 * unknown, and nothing counts.
 */
function countedBy(
  asked: StallPoint | undefined,
  { atMs, pods }: StallFacts,
  grownMs: number,
): Pick<StallPoint, 'countedMs' | 'hitMs' | 'ownMs'> {
  if (asked?.pods == null || pods === null) return { countedMs: grownMs, hitMs: NOBODY, ownMs: NOBODY };
  const [hitMs, ownMs] = [new Map<PodUid, MonoMs>(), new Map<PodUid, number>()];
  let theirsMs = 0;
  for (const [uid, stall] of pods) {
    const before = asked.pods.get(uid);
    const grown = growthOf(before, stall);
    const lastMs = before?.life === stall.life ? asked.hitMs.get(uid) : undefined;
    const hit = grown.limitHits > 0 ? atMs : lastMs;
    if (hit === undefined || hit + IN_LIMIT_MS <= asked.atMs) continue;
    hitMs.set(uid, hit);
    if (grown.stalledMs === 0) continue;
    ownMs.set(uid, grown.stalledMs);
    theirsMs += grown.stalledMs;
  }
  const isLost = [...asked.hitMs.keys()].some((uid) => pods.get(uid)?.life !== asked.pods?.get(uid)?.life);
  return { countedMs: isLost ? 0 : Math.max(0, grownMs - theirsMs), hitMs, ownMs };
}

/** Everything, if it started meanwhile. */
function growthOf(before: PodStall | undefined, now: PodStall): Pick<PodStall, 'stalledMs' | 'limitHits'> {
  const from = before?.life === now.life ? before : NONE;
  return {
    stalledMs: Math.max(0, now.stalledMs - from.stalledMs),
    limitHits: Math.max(0, now.limitHits - from.limitHits),
  };
}

function byOwnLimit(history: StallHistory, startMs: MonoMs): ReadonlySet<PodUid> {
  const asked = history.flatMap(({ atMs, pods, hitMs, ownMs }) =>
    pods === null ? [] : [{ atMs, pods, hitMs, ownMs }],
  );
  const isForTheMostPart = (uid: PodUid): boolean => {
    let [own, all] = [0, 0];
    for (const [i, { atMs, pods, ownMs }] of asked.entries()) {
      const now = pods.get(uid);
      const before = asked[i - 1];
      if (now === undefined || before === undefined || atMs <= startMs) continue;
      own += ownMs.get(uid) ?? 0;
      all += growthOf(before.pods.get(uid), now).stalledMs;
    }
    return own > 0 && 2 * own >= all;
  };
  return new Set([...(asked.at(-1)?.hitMs.keys() ?? [])].filter(isForTheMostPart));
}
