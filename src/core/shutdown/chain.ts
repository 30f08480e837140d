import { givenSeconds } from '../pod/grace.ts';
import type { PodUid, PodView } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';

/**
 * A pod's position among those of its phase that the service manager stops one after another. In seconds of grace, as each
 * pod requests; along a chain they share the time of the phase.
 */
export type StopChain = {
  /** Its direct predecessors: it is signalled when they have ended. */
  readonly after: readonly PodUid[];
  /** The longest path to it, without it. */
  readonly beforeSeconds: number;
  /** The longest path from it to the last pod that waits for it, including itself. */
  readonly restSeconds: number;
};
type Link = {
  readonly uid: PodUid;
  readonly graceSeconds: number;
  readonly stopsAfter?: readonly PodUid[] | undefined;
};

/** A pod is signalled at least this long before it is killed, whatever it waits for. */
export const LAST_WORD_MS = 2_000;

/** D16: it has at least the priority of the pods that depend on it. */
export function priorityOf({ priority, inherited }: Pick<PodView, 'priority' | 'inherited'>): number {
  return Math.max(priority, inherited?.priority ?? priority);
}

/** D16's facts in a decision about the pod. */
export type Ties = Pick<PodView, 'inherited' | 'takesAlong'>;
export function tiesOf({ inherited, takesAlong }: Ties): Ties {
  return {
    ...(inherited === undefined ? {} : { inherited }),
    ...(takesAlong === undefined ? {} : { takesAlong }),
  };
}

/** The pods of a phase that wait for others of it, or that others wait for. All others are signalled at once. */
export function chainsOf(links: readonly Link[]): ReadonlyMap<PodUid, StopChain> {
  const graceOf = new Map(links.map(({ uid, graceSeconds }) => [uid, givenSeconds(graceSeconds)]));
  const before = new Map<PodUid, readonly PodUid[]>();
  const behind = new Map<PodUid, PodUid[]>();
  for (const { uid, stopsAfter = [] } of links) {
    const after = stopsAfter.filter((other) => other !== uid && graceOf.has(other));
    if (after.length === 0) continue;
    before.set(uid, after);
    for (const other of after) behind.set(other, [...(behind.get(other) ?? []), uid]);
  }
  const up = longestWays(before, graceOf);
  const down = longestWays(behind, graceOf);
  const chains = new Map<PodUid, StopChain>();
  for (const uid of new Set([...before.keys(), ...behind.keys()])) {
    const own = graceOf.get(uid) ?? 0;
    const restSeconds = down(uid);
    chains.set(uid, { after: before.get(uid) ?? [], beforeSeconds: up(uid) - own, restSeconds });
  }
  return chains;
}

/** The sum of the grace periods on the longest path from a pod, itself included. A cycle ends where it closes, as in systemd. */
function longestWays(
  next: ReadonlyMap<PodUid, readonly PodUid[]>,
  graceOf: ReadonlyMap<PodUid, number>,
): (uid: PodUid) => number {
  const known = new Map<PodUid, number>();
  const onTheWay = new Set<PodUid>();
  const wayOf = (uid: PodUid): number => {
    const before = known.get(uid);
    if (before !== undefined) return before;
    onTheWay.add(uid);
    const ways = (next.get(uid) ?? []).filter((other) => !onTheWay.has(other)).map(wayOf);
    onTheWay.delete(uid);
    const way = (graceOf.get(uid) ?? 0) + Math.max(0, ...ways);
    known.set(uid, way);
    return way;
  };
  return wayOf;
}

/** A stop whose grace period begins when the pod is signalled. */
export type Turn = {
  readonly after: readonly PodUid[];
  /** Counted from the decision. */
  readonly periodMs: number;
  /** When its phase is over. */
  readonly endsMs: MonoMs;
  readonly graceMs: number;
  readonly beforeMs: number;
  readonly restMs: number;
  /** Its phase has no time: nothing waits for it. */
  readonly isUnawaited?: true;
};
/** How long it may wait for its turn then. */
const UNAWAITED_MS = 30_000;

export function turnOf(
  graceSeconds: number,
  chain: StopChain | undefined,
  { atMs, endsMs }: { readonly atMs: MonoMs; readonly endsMs: MonoMs },
): Turn {
  const graceMs = givenSeconds(graceSeconds) * 1_000;
  return {
    after: chain?.after ?? [],
    periodMs: endsMs - atMs,
    endsMs,
    graceMs,
    beforeMs: (chain?.beforeSeconds ?? 0) * 1_000,
    restMs: chain === undefined ? graceMs : chain.restSeconds * 1_000,
  };
}

/** For a stop by the agent itself: without a grace period a pod gets the minimum, even in a phase without time. */
export function turnOfStop({
  graceSeconds,
  chain,
  atMs,
  endsMs,
}: {
  readonly graceSeconds: number;
  readonly chain?: StopChain;
  readonly atMs: MonoMs;
  readonly endsMs?: MonoMs;
}): Turn {
  const leastMs = atMs + givenSeconds(graceSeconds) * 1_000;
  const turn = turnOf(graceSeconds, chain, { atMs, endsMs: Math.max(endsMs ?? atMs, leastMs) });
  return endsMs === undefined || endsMs > atMs ? turn : { ...turn, isUnawaited: true };
}

/**
 * What a pod that is signalled now gets: all that it requests, or its share if pods after it need time too. Signalled too
 * late, through no fault of its own, it gets what it would have had at the latest time: its phase ends without it.
 */
export function graceFrom(turn: Turn, toldMs: MonoMs): number {
  if (turn.isUnawaited) return turn.graceMs;
  return Math.min(turn.graceMs, shareMs(turn, Math.min(toldMs, tellByMs(turn))));
}

/** Its part of what is left of the phase, which the pods after it need too. */
export function shareMs({ graceMs, restMs, endsMs }: Turn, nowMs: MonoMs): number {
  return (Math.max(0, endsMs - nowMs) * graceMs) / restMs;
}

/** The latest time to signal it, whatever it still waits for, so that it is not killed without warning. */
export function tellByMs({ periodMs, endsMs, beforeMs, restMs, isUnawaited }: Turn): MonoMs {
  if (isUnawaited) return endsMs + UNAWAITED_MS;
  const shareMs = restMs * Math.min(1, periodMs / Math.max(1, beforeMs + restMs));
  return endsMs - Math.max(Math.min(shareMs / 2, LAST_WORD_MS), shareMs / 4);
}
