import { isHeld } from './before-an-off.ts';
import type { NextGuardLook } from './decision.ts';
import { contradict, dueStatus, rehearsed } from './devices.ts';
import { membersToAsk } from './freed.ts';
import { authorityShut, epochShut, type Look } from './gates.ts';
import { withoutNode } from './node-deleted.ts';
import { OFF_PHASES } from './phases-off.ts';
import { ON_PHASES } from './phases-on.ts';
import { type Progress, withFencing, withMove } from './progress.ts';
import type { FencingRecord, NodeRef, Phase } from './record.ts';
import { type Fencing, nodeOrSuccessor } from './state.ts';
import { go, lifeSign, retriesMs, stay, type Turn, type Turned } from './turn.ts';

/** guard.md 7.3, one row for each phase. */
const RULES: { readonly [P in Phase]: (turn: Turn) => Turned } = { ...OFF_PHASES, ...ON_PHASES };

export type Wanted = Pick<NextGuardLook, 'looks' | 'pods' | 'witness' | 'status' | 'attachments' | 'members'> & {
  /** When the next fencing is due by itself; Infinity: none is. */
  readonly dueMs: number;
};

/** At most one arrow for each open fencing. Without authority, or in dry run, none. */
export function stepTurns(before: Progress, look: Look): { readonly progress: Progress; readonly wanted: Wanted } {
  let progress = before;
  let dueMs = Number.POSITIVE_INFINITY;
  const looks: NodeRef[] = [];
  const pods: string[] = [];
  const witness: string[] = [];
  const status: NextGuardLook['status'][number][] = [];
  const members: NextGuardLook['members'][number][] = [];
  const { atMs } = look.observation;
  // Before the nodes were listed once, every one of them would seem to be deleted.
  const isKnown = look.observation.nodes.known;
  const mayAct = isKnown && authorityShut(look) === null && !look.config.dryRun && epochShut(look) === null;
  for (const fencing of mayAct ? before.state.fencings.values() : []) {
    if (fencing.pending !== null) continue;
    const retryMs = retriesMs(fencing);
    if (retryMs !== null && atMs < retryMs) {
      dueMs = Math.min(dueMs, retryMs);
      continue;
    }
    // Each sees what was decided before it: together they keep the limits, too.
    const turned = turnOf(fencing, { ...look, state: progress.state });
    progress = withTurned(progress, look, fencing, turned);
    const { asks } = turned;
    const { node } = fencing.record;
    if (asks.look) looks.push(node);
    if (asks.stuck && isDue(look, node.uid, 'pods', PODS_AGAIN_MS)) pods.push(node.uid);
    if (asks.witness && isDue(look, node.uid, 'witness', ASK_AGAIN_MS)) witness.push(node.uid);
    // What a device said before the last `off` proves nothing after it.
    const when = { againMs: asks.againMs, sinceMs: fencing.offReturnedMs };
    status.push(...dueStatus(node, asks.status, look.state.devices, atMs, 'fencing', when));
    const followed = membersToAsk(fencing, look.observation);
    if (followed.length > 0) members.push({ node: node.uid, pods: followed });
    dueMs = Math.min(dueMs, turned.dueMs ?? Number.POSITIVE_INFINITY);
  }
  return { progress, wanted: { looks, pods, witness, status, attachments: pods.length > 0, members, dueMs } };
}

/** Pods of one node are listed at most this often (guard.md 5). */
const PODS_AGAIN_MS = 5_000;
/** What was asked of a node is asked again after this. */
export const ASK_AGAIN_MS = 10_000;

/** Whether what is known of the node was read that long ago. */
function isDue(
  { observation }: Pick<Look, 'observation'>,
  uid: string,
  what: 'witness' | 'pods',
  againMs: number,
): boolean {
  return observation.atMs - askedMs(observation, uid, what) >= againMs;
}

export function askedMs({ asked }: Look['observation'], uid: string, what: 'witness' | 'pods'): number {
  const reading = asked.get(uid)?.[what];
  return reading?.known === true ? reading.value.asOfMs : Number.NEGATIVE_INFINITY;
}

/** What a fencing does at this look. */
export function turnOf(fencing: Fencing, look: Look): Turned {
  const turn = turnWithNode(fencing, look);
  const turned = turn === null ? withoutNode(fencing, look) : RULES[turn.record.phase](turn);
  const { move } = turned;
  const waits = move?.act?.kind === 'on' && isUnderForeignTaint(fencing, { ...fencing.record, ...move.change }, look);
  if (!waits) return turned;
  const { phase, onSent } = fencing.record;
  // Who leads after this one is to know that it was never sent.
  if (phase === 'on-sent' && onSent.length === 0 && fencing.acted?.kind === 'not-begun') return go('on-sent');
  // It stands in no other one's way meanwhile.
  return stay({ isOverdue: true });
}

/**
 * Before every `on`: Kubernetes deletes by force what starts under it, and whoever set it takes it back (G11). A living machine is
 * not off. Of a Node that was made anew, no life is known to be that of the machine.
 */
export function isUnderForeignTaint(fencing: Fencing, { node, isAlive }: FencingRecord, look: Look): boolean {
  if ((nodeOrSuccessor(node, look.state.nodes)?.facts.foreignOutOfService ?? null) === null) return false;
  const turn = turnWithNode(fencing, look);
  return turn === null || (!isAlive && lifeSign(turn) === null);
}

/** An `off` may be its next step, and none would be sent. */
export function isOffHeld(fencing: Fencing, look: Look): boolean {
  const turn = turnWithNode(fencing, look);
  return turn !== null && BEFORE_OFF.has(turn.record.phase) && isHeld(turn);
}
const BEFORE_OFF: ReadonlySet<Phase> = new Set(['decided', 'isolating', 'off-sent', 'proving']);

/** Null: its node is gone. */
function turnWithNode(fencing: Fencing, look: Look): Turn | null {
  const { record } = fencing;
  const memory = look.state.nodes.get(record.node.uid);
  return memory === undefined ? null : { ...look, fencing, record, memory };
}

function withTurned(before: Progress, look: Look, fencing: Fencing, turned: Turned): Progress {
  const { move, contradicts, isOverdue } = turned;
  const { record } = fencing;
  // Said once, not at every look.
  const isNews = move !== null || isOverdue !== fencing.isOverdue;
  let progress = isNews ? { ...before, reasons: [...before.reasons, ...turned.reasons] } : before;
  if (contradicts !== null) {
    const { state } = progress;
    const { methods, by } = contradicts;
    const reasons = methods.map((method) => ({ code: 'device-contradicted', node: record.node, method, by }) as const);
    const devices = contradict(state.devices, record.node.uid, methods, by);
    progress = { ...progress, state: { ...state, devices }, reasons: [...progress.reasons, ...reasons] };
  }
  if (turned.rehearsed.length > 0) {
    const { state } = progress;
    const devices = rehearsed(state.devices, record.node.uid, turned.rehearsed, look.observation.wallMs);
    progress = { ...progress, state: { ...state, devices } };
  }
  if (move !== null) return withMove(progress, look, fencing, move);
  return isOverdue === fencing.isOverdue ? progress : withFencing(progress, record.id, { ...fencing, isOverdue });
}
