import { stepAnswering, stepCarried } from './accepted-orders.ts';
import { stepAhead } from './ahead.ts';
import { whyNotOff } from './before-an-off.ts';
import { deadNodes, fenceOne, withHolds } from './candidates.ts';
import type { GuardConfig } from './config.ts';
import type { Act, GuardReason, GuardVerdict } from './decision.ts';
import { adoptDevices, stepDevices, withoutUnused, withRecorded } from './devices.ts';
import { stepFencings } from './fencings.ts';
import { authorityShut, type Look, lookOf } from './gates.ts';
import { stepNodes, withAnswered } from './health.ts';
import { commonUuids, livingAs } from './living-as.ts';
import { stepMarks } from './marks.ts';
import { nextLook } from './next-look.ts';
import type { GuardObservation } from './observation.ts';
import { pruneOrders, stepOrders } from './orders.ts';
import { hasUnknown, stepPastHolds } from './past-holds.ts';
import { stepPatrol } from './patrol.ts';
import { type Progress, withDecision } from './progress.ts';
import { recordsOf } from './rate.ts';
import type { FencingId } from './record.ts';
import { withDeparted, withExplained } from './rehearsal.ts';
import { hasJumped, isAdopted, stepSelf, withSign } from './self.ts';
import type { DryFenced, GuardState, NodeMemory } from './state.ts';
import { adoptHolds, isSameStorms, stepStorm } from './storm.ts';
import { isOrderedOn, lifeSign, saysOn, type Turn } from './turn.ts';
import { isUnderForeignTaint, stepTurns } from './turns.ts';

/** A leader whose own node is suspect does not run for this long (guard.md 7.1). */
const RESIGN_MS = 300_000;
/** How often devices are forgotten that left the configuration or the cluster. */
const FORGET_MS = 60_000;

/**
 * One look of the guard (guard.md 6): what it remembers, decides, and wants to know next. The same for the daemon, the
 * simulator and `explain`.
 */
export function decideGuard(before: GuardState, seen: GuardObservation, config: GuardConfig): GuardVerdict {
  const observation = hasJumped(before.self, seen) ? withoutAuthority(seen) : seen;
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
  const state = { ...resigned.state, patrol, ...pastHoldsOf(before, resigned.state, observation) };
  return { ...resigned, state, next };
}

/** guard.md 7.1: who slept does not know whether it still leads, nor how old is what it read. */
function withoutAuthority(observation: GuardObservation): GuardObservation {
  const { atMs, self } = observation;
  const { leadership } = self;
  if (!leadership.isLeader) return observation;
  return { ...observation, self: { ...self, leadership: { ...leadership, authorityUntilMs: atMs } } };
}

/** Only by who knows what was told before, and only when that changes: in a storm thousands are held. */
function pastHoldsOf(
  before: GuardState,
  state: GuardState,
  { wallMs, self }: GuardObservation,
): Pick<GuardState, 'pastHolds' | 'isHoldUnknown'> {
  const { held, holds, pastHolds: past, isHoldUnknown } = state;
  const isNews = isHoldUnknown || held !== before.held || !isSameStorms(holds, before.holds);
  if (!isAdopted(state, self) || state.self.readMs === null || !isNews) return { pastHolds: past, isHoldUnknown };
  const pastHolds = stepPastHolds(past, before, state, wallMs);
  return { pastHolds, isHoldUnknown: hasUnknown(pastHolds, state) };
}

const IDLE = ({ patrol }: GuardState) => ({ patrol, asks: [] });

/** Everything that this look brings, before anything is decided. */
export function takeIn(before: GuardState, observation: GuardObservation, config: GuardConfig): Progress {
  const { atMs, wallMs } = observation;
  const own = stepSelf(before.self, observation, config);
  const settled = atMs >= own.self.settlesMs;
  const seen = stepNodes(before.nodes, observation, config, { isSettled: settled, startsAnew: own.startsAnew });
  const signed = seen.hasSign ? withSign(own.self, atMs, before.nodes, config) : { ...own, startsAnew: false };
  const stepped = signed.startsAnew
    ? stepNodes(before.nodes, observation, config, { isSettled: false, startsAnew: true })
    : seen;
  const nodes = withAnswered(stepped.nodes, observation.asked);
  const kept = adoptKept({ ...before, self: signed.self, nodes }, observation);
  const adopted = stepCarried(stepAnswering(kept, observation.outcomes, atMs), observation.outcomes);
  const devices = stepDevices(adopted.devices, observation.answers, nodes, wallMs);
  const fencings = stepFencings(adopted, observation);
  const time = { atMs, asOfMs: observation.nodes.known ? observation.nodes.value.asOfMs : atMs, isSettled: settled };
  const named = livingAs(adopted, time.asOfMs);
  const storm = stepStorm({ ...adopted, livingAs: named, fencings: fencings.fencings }, time, config);
  // In a large cluster, that takes a while.
  const forgets = observation.nodes.known && atMs - adopted.forgotMs >= FORGET_MS;
  const known = withRecorded(devices.devices, fencings.fencings, atMs);
  const heard = { nodes, devices: known, fencings: fencings.fencings };
  const state: GuardState = {
    ...adopted,
    forgotMs: forgets ? atMs : adopted.forgotMs,
    nodes: withExplained(nodes, adopted.fencings, fencings.fencings, wallMs),
    commonUuids: forgets ? commonUuids(adopted.commonUuids, nodes) : adopted.commonUuids,
    livingAs: named,
    devices: forgets ? withoutUnused(heard, config) : known,
    fencings: withDeparted(fencings.fencings, before.nodes, nodes, atMs),
    holds: storm.holds,
    // Unread orders are not gone: one that was answered would be carried out again.
    orders: observation.records.known ? pruneOrders(adopted, observation.orders) : adopted.orders,
    // Once it is armed, what it would have done is neither a fencing nor a power-off.
    dryFenced: config.dryRun ? stillSilent(adopted.dryFenced, nodes) : NO_DRY,
    ahead: observation.records.known
      ? stepAhead(adopted.ahead, recordsOf(observation.records.value, fencings.fencings), observation)
      : adopted.ahead,
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
    devices: adoptDevices(state.devices, kept.value.devices, atMs),
    paused: kept.value.state.paused,
    holds: adoptHolds(state.holds, kept.value.state.holds, atMs),
    releases: [],
    pastHolds: kept.value.state.past,
    isHoldUnknown: true,
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

const NO_DRY: GuardState['dryFenced'] = new Map();

/** By a sign that this process saw: that its age began anew, as after an outage of the API server, is none. */
export const livesSince = ({ signMs }: NodeMemory, { atMs }: DryFenced): boolean => signMs !== null && signMs > atMs;

function stillSilent(dryFenced: GuardState['dryFenced'], nodes: GuardState['nodes']): GuardState['dryFenced'] {
  return new Map(
    [...dryFenced].filter(([uid, fenced]) => {
      const memory = nodes.get(uid);
      return memory !== undefined && !livesSince(memory, fenced);
    }),
  );
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

/**
 * The record of an act has been stored, which may have taken seconds: why the act must not begin any more, by what is known by
 * now; null: it may. `before`: the state after the last look.
 */
export function whyNotNow(
  before: GuardState,
  observation: GuardObservation,
  config: GuardConfig,
  { fencing: id, act }: { readonly fencing: FencingId; readonly act: Act },
): string | null {
  // They take back, which is never wrong.
  if (act.kind === 'untell' || act.kind === 'clear') return null;
  if (hasJumped(before.self, observation)) return 'clock-jump';
  const look = lookOf(takeIn(before, observation, config).state, observation, config);
  const fencing = look.state.fencings.get(id);
  if (fencing === undefined) return 'record-gone';
  const memory = look.state.nodes.get(fencing.record.node.uid);
  const meant = fencing.pending?.becomes ?? fencing.record;
  if (act.kind === 'on') {
    if (memory === undefined && !isOrderedOn(meant, look.state.nodes)) return 'not-listed';
    return isUnderForeignTaint(fencing, meant, look) ? 'foreign-taint' : null;
  }
  if (memory === undefined) return 'not-listed';
  const turn: Turn = { ...look, fencing, record: fencing.record, memory };
  if (act.kind === 'off') return whyNotOff(turn, act.methods);
  return lifeSign(turn) !== null || saysOn(turn) ? 'life' : null;
}
