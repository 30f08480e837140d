import { fencedUids } from './candidates.ts';
import { hasLease, wasHeard } from './health.ts';
import type { HoldScope, PastHold } from './record.ts';
import { type GuardState, nameOfNode } from './state.ts';
import { keyOf as stormKeyOf } from './storm.ts';

/** So many are remembered; what lasts goes last. */
const MOST = 100;
const MOST_NAMES = 20;
/** What holds every node says nothing of one, and a storm is told as one. */
const NOT_OF_A_NODE: readonly string[] = ['self', 'storm'];

type Held = Pick<GuardState, 'held' | 'holds' | 'nodes' | 'fencings' | 'dryFenced'>;

/** What held nodes back, from when to when, for people (guard.md 9.4); by the wall clock of the leader. */
export function stepPastHolds(past: readonly PastHold[], before: Held, now: Held, wallMs: number): readonly PastHold[] {
  const held = new Map(heldNow(now).map((hold) => [keyOf(hold), hold]));
  const isUnknown = unknownIn(now);
  const open = new Set(past.flatMap((hold) => (hold.untilWallMs === null ? [keyOf(hold)] : [])));
  const begun = [...held].flatMap(([key, hold]) => (open.has(key) ? [] : [{ ...hold, fromWallMs: wallMs }]));
  const isOver = (hold: PastHold): boolean => hold.untilWallMs === null && !held.has(keyOf(hold)) && !isUnknown(hold);
  const room = Math.max(0, MOST - past.filter((hold) => hold.untilWallMs === null && !isOver(hold)).length);
  if ((begun.length === 0 || room === 0) && !past.some(isOver)) return past;
  // Nobody saw when, of what was not known to hold a moment ago.
  const seen = new Set(heldNow(before).map(keyOf));
  const endOf = (hold: PastHold) => ({
    untilWallMs: wallMs,
    ...(seen.has(keyOf(hold)) ? {} : { isAtMost: true as const }),
  });
  const ended = past.map((hold) => (isOver(hold) ? { ...hold, ...endOf(hold) } : hold));
  return trimmed([...ended, ...begun.slice(0, room).map((hold) => ({ ...hold, untilWallMs: null }))]);
}

/** Of one that lasts, it is not known whether it holds still. */
export function hasUnknown(past: readonly PastHold[], now: Held): boolean {
  const open = past.filter(({ untilWallMs }) => untilWallMs === null);
  return open.length > 0 && open.some(unknownIn(now));
}

/**
 * Before a new leader has settled, while the guard is paused, or after an outage of the API, a node stands at no gate of its own:
 * what held it may hold it still, unless it lives, is gone, or is fenced.
 */
function unknownIn(now: Held): (hold: PastHold) => boolean {
  const { held, nodes } = now;
  const byName = new Map([...nodes.values()].map((memory) => [memory.object.name, memory]));
  const fenced = fencedUids(now);
  return ({ what, scope }) => {
    if (scope.kind !== 'nodes' || what === 'burst') return false;
    const memory = byName.get(scope.nodes[0] ?? '');
    if (memory === undefined) return false;
    const { uid } = memory.object;
    const said = held.get(uid);
    if (said !== undefined) return said?.gate === 'self';
    return !fenced.has(uid) && hasLease(memory) && (memory.isSuspect || !wasHeard(memory));
  };
}

function trimmed(holds: readonly PastHold[]): readonly PastHold[] {
  let surplus = holds.length - MOST;
  return holds.filter(({ untilWallMs }) => untilWallMs === null || surplus-- <= 0);
}

type Holding = Pick<PastHold, 'what' | 'scope'>;
type Scope = PastHold['scope'];

function heldNow({ held, holds, nodes }: Held): readonly Holding[] {
  const nameOf = (uid: string): string => nameOfNode(nodes, uid);
  const ofNodes = [...held].flatMap(([uid, said]): readonly Holding[] => {
    if (said === null || NOT_OF_A_NODE.includes(said.gate)) return [];
    return [{ what: said.because, scope: { kind: 'nodes', nodes: [nameOf(uid)] } }];
  });
  return [...ofNodes, ...holds.map(({ kind, scope }) => ({ what: kind, scope: named(scope, nameOf) }))];
}

const named = (scope: HoldScope, nameOf: (uid: string) => string): Scope =>
  scope.kind === 'nodes' ? { kind: 'nodes', nodes: scope.nodes.slice(0, MOST_NAMES).map(nameOf) } : scope;

/** A burst keeps its identity while its nodes change. */
const keyOf = ({ what, scope }: Holding): string =>
  scope.kind === 'nodes' && what !== 'burst' ? `${what} ${scope.nodes.join()}` : stormKeyOf({ kind: what, scope });
