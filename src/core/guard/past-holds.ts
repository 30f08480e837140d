import type { HoldScope, PastHold } from './record.ts';
import { type GuardState, nameOfNode } from './state.ts';
import { keyOf as stormKeyOf } from './storm.ts';

/** So many are remembered; what lasts goes last. */
const MOST = 100;
const MOST_NAMES = 20;
/** What holds every node says nothing of one, and a storm is told as one. */
const NOT_OF_A_NODE: readonly string[] = ['self', 'storm'];

type Held = Pick<GuardState, 'held' | 'holds' | 'nodes'>;

/** What held nodes back, from when to when, for people (guard.md 9.4); by the wall clock of the leader. */
export function stepPastHolds(past: readonly PastHold[], now: Held, wallMs: number): readonly PastHold[] {
  const held = new Map(heldNow(now).map((hold) => [keyOf(hold), hold]));
  const open = new Set(past.flatMap((hold) => (hold.untilWallMs === null ? [keyOf(hold)] : [])));
  const begun = [...held].flatMap(([key, hold]) => (open.has(key) ? [] : [{ ...hold, fromWallMs: wallMs }]));
  const isOver = (hold: PastHold): boolean => hold.untilWallMs === null && !held.has(keyOf(hold));
  const room = Math.max(0, MOST - past.filter((hold) => hold.untilWallMs === null && !isOver(hold)).length);
  if ((begun.length === 0 || room === 0) && !past.some(isOver)) return past;
  const ended = past.map((hold) => (isOver(hold) ? { ...hold, untilWallMs: wallMs } : hold));
  return trimmed([...ended, ...begun.slice(0, room).map((hold) => ({ ...hold, untilWallMs: null }))]);
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
    const [gate = '', because = ''] = said.split(' ');
    if (gate === '' || NOT_OF_A_NODE.includes(gate)) return [];
    return [{ what: because, scope: { kind: 'nodes', nodes: [nameOf(uid)] } }];
  });
  return [...ofNodes, ...holds.map(({ kind, scope }) => ({ what: kind, scope: named(scope, nameOf) }))];
}

const named = (scope: HoldScope, nameOf: (uid: string) => string): Scope =>
  scope.kind === 'nodes' ? { kind: 'nodes', nodes: scope.nodes.slice(0, MOST_NAMES).map(nameOf) } : scope;

/** A burst keeps its identity while its nodes change. */
const keyOf = ({ what, scope }: Holding): string =>
  scope.kind === 'nodes' && what !== 'burst' ? `${what} ${scope.nodes.join()}` : stormKeyOf({ kind: what, scope });
