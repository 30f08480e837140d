import type { DeadNode } from './candidates.ts';
import { planOf } from './config.ts';
import type { NextGuardLook, StatusAsk } from './decision.ts';
import { dueStatus, refOf } from './devices.ts';
import { authorityShut, type Look } from './gates.ts';
import { isDead } from './health.ts';
import type { Phase } from './record.ts';
import type { NodeMemory } from './state.ts';
import { ASK_AGAIN_MS, askedMs, type Wanted } from './turns.ts';

/** A storm brings news of thousands of nodes: they wait together for this long after the last decision. */
export const NEWS_APART_MS = 100;
/** A look does not wait longer for what it asked for; what comes later serves the next one. */
export const LOOK_WAIT_MS = 1_000;
/** Leases are listed this often, and less often in a large cluster (guard.md 5). */
const LOOK_MS = 5_000;
const LARGE_LOOK_MS = 10_000;
const LARGE = 500;
/** While something is under way. */
const BUSY_LOOK_MS = 1_000;
/** So many nodes are asked about at a look, those first of which least is known. */
const MAX_ASKED = 20;
/** More suspects than this are a storm: nobody is fenced soon, and the API server has enough to do. */
const MAX_HURRIED = MAX_ASKED;
/** All attachments are listed at most this often. */
const ATTACHMENTS_AGAIN_MS = 5_000;

/** When the guard looks again at the latest, and what it wants to know then. */
export function nextLook(
  look: Look,
  dead: readonly DeadNode[],
  wanted: Wanted,
  awaited: ReadonlySet<string>,
  patrol: readonly StatusAsk[],
): NextGuardLook {
  const { state, observation } = look;
  const { atMs } = observation;
  const suspects = authorityShut(look) === null ? suspectsOf(look, awaited) : [];
  const dueFor = (what: 'witness' | 'pods'): readonly string[] =>
    suspects
      .map((uid) => ({ uid, readMs: askedMs(observation, uid, what) }))
      .filter(({ readMs }) => atMs - readMs >= ASK_AGAIN_MS)
      .sort((a, b) => (a.readMs < b.readMs ? -1 : Number(a.readMs > b.readMs)))
      .slice(0, MAX_ASKED)
      .map(({ uid }) => uid);
  const pods = dueFor('pods');
  const { attachments } = observation;
  const isAttachmentsDue = !attachments.known || atMs - attachments.value.asOfMs >= ATTACHMENTS_AGAIN_MS;
  const isUnderWay = [...state.fencings.values()].some(({ record }) => !AT_REST.has(record.phase));
  const isHurried = suspects.length > 0 && suspects.length <= MAX_HURRIED;
  const status = [...wanted.status, ...statusOf(look, dead, awaited, isHurried ? suspects : []), ...patrol];
  const isBusy = isUnderWay || isHurried || observation.orders.length > 0 || state.carried.size > 0;
  const quietMs = state.nodes.size > LARGE ? LARGE_LOOK_MS : LOOK_MS;
  return {
    afterMs: Math.max(0, Math.min(isBusy ? BUSY_LOOK_MS : quietMs, wanted.dueMs - atMs)),
    witness: [...new Set([...wanted.witness, ...dueFor('witness')])],
    pods: [...new Set([...wanted.pods, ...pods])],
    attachments: isAttachmentsDue && (wanted.attachments || pods.length > 0),
    members: wanted.members,
    looks: wanted.looks,
    status,
  };
}

/** Where a fencing waits for its node or for a person, as long as it takes: only what is listed brings news of it. */
const AT_REST: ReadonlySet<Phase> = new Set(['stuck', 'left-off', 'not-back']);

/** Suspect, not in a fencing; and those that an order waits for. */
function suspectsOf({ state }: Look, awaited: ReadonlySet<string>): readonly string[] {
  const fenced = new Set([...state.fencings.values()].map(({ record }) => record.node.uid));
  const uids: string[] = [];
  for (const { object, isSuspect } of state.nodes.values()) {
    if ((isSuspect && !fenced.has(object.uid)) || awaited.has(object.uid)) uids.push(object.uid);
  }
  return uids;
}

/**
 * The devices of nodes that would be fenced but for what their devices say: also in a storm they may be off already. And of a few
 * `suspects`: power that is back before a node is dead was away all the same, and its machine may be booting.
 */
function statusOf(
  look: Look,
  dead: readonly DeadNode[],
  awaited: ReadonlySet<string>,
  suspects: readonly string[],
): readonly StatusAsk[] {
  const { state, observation, config } = look;
  const isNear = ({ closed }: DeadNode): boolean => closed === null || LAST_GATES.has(closed.gate);
  const near = dead.filter(isNear).map(({ at }) => at.memory);
  const ordered = [...awaited].flatMap((uid) => state.nodes.get(uid) ?? []);
  const due: StatusAsk[] = [];
  const add = (memory: NodeMemory, reason: StatusAsk['for'], when: Parameters<typeof dueStatus>[5]): void => {
    const methods = due.length >= MAX_ASKED ? [] : (planOf(config, memory.object.name)?.levels.flat() ?? []);
    due.push(...dueStatus(refOf(memory), methods, state.devices, observation.atMs, reason, when));
  };
  for (const memory of [...ordered, ...near]) add(memory, 'dead', { sinceMs: memory.livesMs });
  for (const uid of suspects) {
    const memory = state.nodes.get(uid);
    if (memory !== undefined && !isDead(memory, look.asOfMs)) add(memory, 'dead', { sinceMs: memory.signMs });
  }
  // Whether one was off or silent shows later that it may be booting, once nothing else holds its node.
  const far = authorityShut(look) === null ? dead.filter((one) => !isNear(one)) : [];
  for (const { at } of far) add(at.memory, 'patrol', { againMs: HELD_AGAIN_MS, sinceMs: at.memory.signMs });
  return due.slice(0, MAX_ASKED);
}
const LAST_GATES: ReadonlySet<string> = new Set(['dead', 'device', 'storm', 'rate']);
const HELD_AGAIN_MS = 600_000;
