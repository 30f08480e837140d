import type { PodUid } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';

/** D17: `fullShare` of the last `forMs`, while less than `belowShare` of the capacity is available. */
export type StallSettings = { readonly fullShare: number; readonly forMs: number; readonly belowShare: number };
/** Of a pod with pressure of its own. Both only grow as long as it lives. */
export type PodStall = {
  /** Time in which all of its tasks were stalled on memory. */
  readonly stalledMs: number;
  /** How often it reached a memory limit of its own. */
  readonly limitHits: number;
};
export type StallPoint = {
  readonly atMs: MonoMs;
  /** Time in which all tasks of the node were stalled on memory; only grows. */
  readonly stalledMs: number;
  /** Null: nobody had to ask then, or no pod has pressure of its own here. */
  readonly pods: ReadonlyMap<PodUid, PodStall> | null;
};
/** Oldest first; the last is the newest that is kept, not the present. */
export type StallHistory = readonly StallPoint[];
export type Stall = {
  /** In the window, at least. */
  readonly stalledMs: number;
  /** Those whose stall is that of their own limit: theirs is not counted. */
  readonly byOwnLimit: ReadonlySet<PodUid>;
};
type Present = Pick<StallPoint, 'atMs' | 'stalledMs'>;

/** So many points in a window: it begins between two of them. */
const POINTS = 20;
const LEAST_STEP_MS = 50;
const NOBODY: ReadonlySet<PodUid> = new Set();
const NONE: PodStall = { stalledMs: 0, limitHits: 0 };

/** Is a point due? Those closer together say no more. */
export function isStepOver(history: StallHistory, atMs: MonoMs, windowMs: number): boolean {
  const last = history.at(-1);
  return last === undefined || atMs - last.atMs >= Math.max(LEAST_STEP_MS, windowMs / POINTS);
}

/** With one point from before the window, if there is one. A counter that fell is another one: it begins again. */
export function stallAfter(history: StallHistory, point: StallPoint, windowMs: number): StallHistory {
  const last = history.at(-1);
  // What the pods had before they were first asked nobody knows.
  const isFirstAsked = point.pods !== null && history.every(({ pods }) => pods === null);
  if (isFirstAsked || (last !== undefined && last.stalledMs > point.stalledMs)) return [point];
  const start = history.findLastIndex(({ atMs }) => atMs <= point.atMs - windowMs);
  return [...history.slice(Math.max(0, start)), point];
}

/**
 * D17: how long all tasks of the node were stalled in the last `windowMs`, without what pods stalled in limits of their
 * own. Where the window begins between two points as much as possible of the time between them is taken to lie before it.
 */
export function stallIn(history: StallHistory, now: Present, windowMs: number): Stall {
  const window = windowOf(history, now.atMs, windowMs);
  const byOwnLimit = stalledByOwnLimit(window, history);
  return { stalledMs: counted(window, history, now, byOwnLimit), byOwnLimit };
}

/**
 * With a point of the present: `podsFor` hears how long all of the node was stalled, whoever's that is, and says what is
 * known of the pods.
 */
export function stallStep(
  history: StallHistory,
  now: Present,
  windowMs: number,
  podsFor: (stalledMs: number) => StallPoint['pods'],
): { readonly history: StallHistory; readonly stall: Stall } {
  const window = windowOf(history, now.atMs, windowMs);
  const allMs = counted(window, history, now, NOBODY);
  const next = stallAfter(history, { ...now, pods: podsFor(allMs) }, windowMs);
  // Begun anew.
  if (next.length === 1) return { history: next, stall: { stalledMs: 0, byOwnLimit: NOBODY } };
  const byOwnLimit = stalledByOwnLimit(window, next);
  const stalledMs = byOwnLimit.size === 0 ? allMs : counted(window, next, now, byOwnLimit);
  return { history: next, stall: { stalledMs, byOwnLimit } };
}

type Window = {
  /** The last point before it, and the first one in it. */
  readonly before: StallPoint | undefined;
  readonly inside: StallPoint | undefined;
  readonly startMs: MonoMs;
};

function windowOf(history: StallHistory, atMs: MonoMs, windowMs: number): Window {
  const startMs = atMs - windowMs;
  const firstInside = history.findIndex(({ atMs }) => atMs >= startMs);
  const inside = firstInside < 0 ? undefined : history[firstInside];
  const before = firstInside < 0 ? history.at(-1) : history[firstInside - 1];
  return { before, inside, startMs };
}

function counted(
  { before, inside, startMs }: Window,
  history: StallHistory,
  now: Present,
  byOwnLimit: ReadonlySet<PodUid>,
): number {
  const since = (from: StallPoint | undefined): number =>
    from === undefined ? 0 : countedFrom(from, history, now, byOwnLimit);
  const outsideMs = before === undefined ? 0 : startMs - before.atMs;
  return Math.max(0, since(inside), since(before) - outsideMs);
}

function countedFrom(from: StallPoint, history: StallHistory, now: Present, byOwnLimit: ReadonlySet<PodUid>): number {
  const last = history.at(-1);
  // What such a pod stalled since nobody has read.
  const end = byOwnLimit.size === 0 || last === undefined ? now : last;
  let theirsMs = 0;
  for (const uid of byOwnLimit) theirsMs += growthOf(uid, from, history).stalledMs;
  return end.stalledMs - from.stalledMs - theirsMs;
}

function stalledByOwnLimit({ before, inside }: Window, history: StallHistory): ReadonlySet<PodUid> {
  const oldest = before ?? inside;
  const pods = history.at(-1)?.pods;
  if (oldest === undefined || pods === undefined || pods === null) return NOBODY;
  const stalled = [...pods.keys()].filter((uid) => {
    const growth = growthOf(uid, oldest, history);
    return growth.stalledMs > 0 && growth.limitHits > 0;
  });
  return new Set(stalled);
}

/** Where it is not known at two points, and where it began again, it has grown by nothing. */
function growthOf(uid: PodUid, from: StallPoint, history: StallHistory): PodStall {
  const last = history.at(-1)?.pods?.get(uid) ?? NONE;
  const first = history.find(({ atMs, pods }) => atMs >= from.atMs && pods?.has(uid))?.pods?.get(uid) ?? last;
  return {
    stalledMs: Math.max(0, last.stalledMs - first.stalledMs),
    limitHits: Math.max(0, last.limitHits - first.limitHits),
  };
}
