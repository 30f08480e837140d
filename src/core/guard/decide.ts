import { stepAnswering } from './answering.ts';
import { deadNodes, fenceOne, withHolds } from './candidates.ts';
import { stepCarried } from './carried.ts';
import type { GuardConfig } from './config.ts';
import type { GuardReason, GuardVerdict } from './decision.ts';
import { adoptDevices, stepDevices, withoutUnused } from './devices.ts';
import { stepFencings } from './fencings.ts';
import { authorityShut, type Look, lookOf } from './gates.ts';
import { stepNodes } from './health.ts';
import { stepMarks } from './marks.ts';
import { nextLook } from './next-look.ts';
import type { GuardObservation } from './observation.ts';
import { pruneOrders, stepOrders } from './orders.ts';
import { stepPastHolds } from './past-holds.ts';
import { stepPatrol } from './patrol.ts';
import { type Progress, withDecision } from './progress.ts';
import { withExplained } from './rehearsal.ts';
import { isAdopted, stepSelf, withSign } from './self.ts';
import type { GuardState } from './state.ts';
import { adoptHolds, isSameStorms, stepStorm } from './storm.ts';
import { stepTurns } from './turns.ts';

/** A leader whose own node is suspect does not run for this long (guard.md 7.1). */
const RESIGN_MS = 300_000;
/** How often devices are forgotten that left the configuration or the cluster. */
const FORGET_MS = 60_000;

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
export function takeIn(before: GuardState, observation: GuardObservation, config: GuardConfig): Progress {
  const { atMs, wallMs } = observation;
  const own = stepSelf(before.self, observation, config);
  const settled = atMs >= own.self.settlesMs;
  const seen = stepNodes(before.nodes, observation, config, { isSettled: settled, startsAnew: own.startsAnew });
  const signed = seen.hasSign ? withSign(own.self, atMs, config) : { ...own, startsAnew: false };
  const { nodes } = signed.startsAnew
    ? stepNodes(before.nodes, observation, config, { isSettled: false, startsAnew: true })
    : seen;
  const kept = adoptKept({ ...before, self: signed.self, nodes }, observation);
  const adopted = stepCarried(stepAnswering(kept, observation.outcomes, atMs), observation.outcomes);
  const devices = stepDevices(adopted.devices, observation.answers, nodes, wallMs);
  const fencings = stepFencings(adopted, observation);
  const time = { atMs, asOfMs: observation.nodes.known ? observation.nodes.value.asOfMs : atMs, isSettled: settled };
  const storm = stepStorm({ ...adopted, fencings: fencings.fencings }, time, config);
  // In a large cluster, that takes a while.
  const forgets = observation.nodes.known && atMs - adopted.forgotMs >= FORGET_MS;
  const heard = { nodes, devices: devices.devices, fencings: fencings.fencings };
  const state: GuardState = {
    ...adopted,
    forgotMs: forgets ? atMs : adopted.forgotMs,
    nodes: withExplained(nodes, adopted.fencings, fencings.fencings, wallMs),
    devices: forgets ? withoutUnused(heard, config) : devices.devices,
    fencings: fencings.fencings,
    holds: storm.holds,
    // Unread orders are not gone: one that was answered would be carried out again.
    orders: observation.records.known ? pruneOrders(adopted, observation.orders) : adopted.orders,
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
