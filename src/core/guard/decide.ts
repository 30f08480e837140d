import { type DeadNode, deadNodes, fenceOne, withHolds } from './candidates.ts';
import { type GuardConfig, planOf } from './config.ts';
import type { GuardReason, GuardVerdict, NextGuardLook, StatusAsk } from './decision.ts';
import { adoptDevices, dueStatus, refOf, stepDevices } from './devices.ts';
import { stepFencings } from './fencings.ts';
import { authorityShut, type Look, lookOf } from './gates.ts';
import { stepNodes } from './health.ts';
import { stepMarks } from './marks.ts';
import type { GuardObservation } from './observation.ts';
import { pruneOrders, stepOrders } from './orders.ts';
import { stepPastHolds } from './past-holds.ts';
import { stepPatrol } from './patrol.ts';
import { type Progress, withDecision } from './progress.ts';
import type { Phase } from './record.ts';
import { isAdopted, stepSelf, withSign } from './self.ts';
import type { GuardState } from './state.ts';
import { adoptHolds, isSameStorms, stepStorm } from './storm.ts';
import { ASK_AGAIN_MS, askedMs, stepTurns, type Wanted } from './turns.ts';

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
/** A leader whose own node is suspect does not run for this long (guard.md 7.1). */
const RESIGN_MS = 300_000;

/**
 * One look of the guard (guard.md 6): what it remembers, decides, and wants to know next. The same for the daemon, the
 * simulator and `explain`.
 */
export function decideGuard(before: GuardState, observation: GuardObservation, config: GuardConfig): GuardVerdict {
  const taken = takeIn(before, observation, config);
  const look = lookOf(taken.state, observation, config);
  const ordered = stepOrders(taken, look);
  const turned = stepTurns(ordered.progress, look);
  const marked = stepMarks(turned.progress, look);
  const now = lookOf(marked.state, observation, config);
  const dead = deadNodes(now);
  const fenced = withHolds(fenceOne(marked, now, dead), now, dead);
  const resigned = withResignation(fenced, now);
  const { patrol, asks } =
    authorityShut(look) === null ? stepPatrol(resigned.state, observation, config) : IDLE(resigned.state);
  const next = nextLook(now, dead, turned.wanted, ordered.awaited, asks);
  const state = { ...resigned.state, patrol, pastHolds: pastHoldsOf(before, resigned.state, observation) };
  return { ...resigned, state, next };
}

/** Only by who knows what was told before, and only when that changes: in a storm thousands are held. */
function pastHoldsOf(
  before: GuardState,
  state: GuardState,
  { wallMs, self }: GuardObservation,
): GuardState['pastHolds'] {
  const { held, holds, pastHolds } = state;
  const isSame = isAdopted(before, self) && held === before.held && isSameStorms(holds, before.holds);
  return isAdopted(state, self) && !isSame ? stepPastHolds(pastHolds, state, wallMs) : pastHolds;
}

const IDLE = ({ patrol }: GuardState) => ({ patrol, asks: [] });

/** Everything that this look brings, before anything is decided. */
function takeIn(before: GuardState, observation: GuardObservation, config: GuardConfig): Progress {
  const { atMs, wallMs } = observation;
  const own = stepSelf(before.self, observation, config);
  const settled = atMs >= own.self.settlesMs;
  const seen = stepNodes(before.nodes, observation, config, { isSettled: settled, startsAnew: own.startsAnew });
  const signed = seen.hasSign ? withSign(own.self, atMs, config) : { ...own, startsAnew: false };
  const { nodes } = signed.startsAnew
    ? stepNodes(before.nodes, observation, config, { isSettled: false, startsAnew: true })
    : seen;
  const adopted = adoptKept({ ...before, self: signed.self, nodes }, observation);
  const devices = stepDevices(adopted.devices, observation.answers, nodes, wallMs);
  const fencings = stepFencings(adopted, observation);
  const time = { atMs, asOfMs: observation.nodes.known ? observation.nodes.value.asOfMs : atMs, isSettled: settled };
  const storm = stepStorm({ ...adopted, fencings: fencings.fencings }, time, config);
  const state: GuardState = {
    ...adopted,
    devices: devices.devices,
    fencings: fencings.fencings,
    holds: storm.holds,
    // Unread orders are not gone: one that was answered would be carried out again.
    orders: observation.records.known ? pruneOrders(adopted.orders, observation.orders) : adopted.orders,
    dryFenced: stillSilent(adopted.dryFenced, nodes),
    unreadable: unreadableOf(adopted, observation),
  };
  const reasons = [...settles(before, state), ...devices.reasons, ...fencings.reasons, ...storm.reasons];
  return { state, decisions: [], reasons: [...reasons, ...newlyUnreadable(before, observation)] };
}

/** What earlier leaders kept, once for each election (guard.md 7.1). */
function adoptKept(state: GuardState, { atMs, kept, self: { leadership } }: GuardObservation): GuardState {
  if (!leadership.isLeader || !kept.known || isAdopted(state, { leadership })) return state;
  return {
    ...state,
    self: { ...state.self, adoptedMs: leadership.sinceMs },
    devices: adoptDevices(state.devices, kept.value.devices),
    paused: kept.value.state.paused,
    holds: adoptHolds(state.holds, kept.value.state.holds, atMs),
    releases: [],
    pastHolds: kept.value.state.past,
  };
}

function settles(before: GuardState, { self: { settlesMs, settlesFor } }: GuardState): readonly GuardReason[] {
  return settlesMs === before.self.settlesMs ? [] : [{ code: 'settling', for: settlesFor, untilMs: settlesMs }];
}

/** None on standby, which tells nothing: the reason comes once it leads. */
function unreadableOf({ unreadable }: GuardState, { records, self }: GuardObservation): GuardState['unreadable'] {
  if (!self.leadership.isLeader) return [];
  return records.known ? records.value.flatMap(({ id, record }) => (record === null ? [id] : [])) : unreadable;
}

function newlyUnreadable({ unreadable }: GuardState, { records, self }: GuardObservation): readonly GuardReason[] {
  if (!records.known || !self.leadership.isLeader) return [];
  return records.value.flatMap((stored) =>
    stored.record === null && !unreadable.includes(stored.id)
      ? [{ code: 'unreadable-record', fencing: stored.id, problem: stored.problem } as const]
      : [],
  );
}

function stillSilent(dryFenced: GuardState['dryFenced'], nodes: GuardState['nodes']): GuardState['dryFenced'] {
  return new Map([...dryFenced].filter(([uid]) => nodes.get(uid)?.isSuspect === true));
}

function withResignation(progress: Progress, look: Look): Progress {
  const { leadership, node } = look.observation.self;
  if (!leadership.isLeader || node === null) return progress;
  for (const { object, isSuspect } of look.state.nodes.values()) {
    if (object.name === node)
      return isSuspect ? withDecision(progress, look, { kind: 'resign', forMs: RESIGN_MS }) : progress;
  }
  return progress;
}

function nextLook(
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
  const status = [...wanted.status, ...statusOf(look, dead, awaited), ...patrol];
  const { attachments } = observation;
  const isAttachmentsDue = !attachments.known || atMs - attachments.value.asOfMs >= ATTACHMENTS_AGAIN_MS;
  const isUnderWay = [...state.fencings.values()].some(({ record }) => !AT_REST.has(record.phase));
  const isHurried = suspects.length > 0 && suspects.length <= MAX_HURRIED;
  const isBusy = isUnderWay || isHurried || observation.orders.length > 0;
  const quietMs = state.nodes.size > LARGE ? LARGE_LOOK_MS : LOOK_MS;
  return {
    afterMs: Math.max(0, Math.min(isBusy ? BUSY_LOOK_MS : quietMs, wanted.dueMs - atMs)),
    witness: [...new Set([...wanted.witness, ...dueFor('witness')])],
    pods: [...new Set([...wanted.pods, ...pods])],
    attachments: isAttachmentsDue && (wanted.attachments || pods.length > 0),
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

/** The devices of nodes that would be fenced but for what their devices say: also in a storm they may be off already. */
function statusOf(look: Look, dead: readonly DeadNode[], awaited: ReadonlySet<string>): readonly StatusAsk[] {
  const { state, observation, config } = look;
  const asked = dead.filter(({ closed }) => closed === null || LAST_GATES.has(closed.gate)).map(({ at }) => at.memory);
  const ordered = [...awaited].flatMap((uid) => state.nodes.get(uid) ?? []);
  const due: StatusAsk[] = [];
  for (const memory of [...ordered, ...asked]) {
    if (due.length >= MAX_ASKED) break;
    const methods = planOf(config, memory.object.name)?.levels.flat() ?? [];
    due.push(...dueStatus(refOf(memory), methods, state.devices, observation.atMs, 'dead'));
  }
  return due.slice(0, MAX_ASKED);
}
const LAST_GATES: ReadonlySet<string> = new Set(['device', 'storm', 'rate']);
