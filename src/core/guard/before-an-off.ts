import type { MethodKey } from './config.ts';
import type { GateName, GateRow } from './decision.ts';
import { atGate, bootingShut, firstShut } from './gates.ts';
import { ageOf, withObject } from './health.ts';
import { hasNoMethod, isOutdated, OUTDATED } from './levels.ts';
import { isProvenBefore, PROOF_LOST } from './phase-proven.ts';
import { controlPlaneHold } from './rate.ts';
import type { FencingRecord, Phase } from './record.ts';
import { leftOnIdle } from './rehearsal.ts';
import { isAdopted } from './self.ts';
import { holdOn } from './storm.ts';
import { backToThem, isTheirs } from './switched-on.ts';
import {
  ask,
  askGates,
  changedIn,
  go,
  lifeSign,
  lookSince,
  nodeDeleted,
  onAct,
  onChange,
  type Turn,
  type Turned,
} from './turn.ts';

/** What stands before every `off`, and how a fencing ends that sends none. */

const MINUTE_MS = 60_000;

/** What a person's order passes over (guard.md 3). */
export const ORDER_SKIPS: { readonly [V in NonNullable<FencingRecord['order']>['verb']]: readonly GateName[] } = {
  fence: ['dead', 'worth', 'storm'],
  rehearse: ['planned', 'dead', 'witness', 'worth', 'storm'],
  'confirm-off': [],
};

/** Its node lives, or its moment is over. What was switched off is switched on, if not by this arrow then by the next. */
export function ended({ record }: Turn, why: string): Turned {
  const isAlive = why === 'life';
  const change = { why, isAlive, ...withoutWord(record) };
  if (record.offSent.length === 0) return go('aborted', change);
  const isRecovered = isAlive && ['isolating', 'failed', 'stuck'].includes(record.phase);
  return isRecovered ? go('on-sent', { ...change, ...onChange(record) }, onAct(record)) : go('failed', change);
}

/**
 * G1: a person spoke of the machine as it was then. Once that is refuted, or an `off` follows, it is no proof any more. Where
 * devices had lost their proof before, that its `off` had its effect stays known (G4).
 */
function withoutWord({ proof, level, steps }: FencingRecord): Partial<FencingRecord> {
  if (proof?.by !== 'person') return {};
  return { proof: steps.some(({ phase }) => phase === 'proven') ? { by: 'devices', level } : null };
}

/** The same phase once more: authority ended before its command was begun, or another process left some of it undone. */
export const again = (turn: Turn, phase: OffSending, methods: readonly MethodKey[]): Turned =>
  afterLook(turn, (fresh) => off(fresh, phase, {}, methods));

export const sendOff = (turn: Turn, level: number, attempt: number): Turned =>
  off(turn, 'off-sent', { level, attempt }, turn.record.plan.levels[level] ?? []);

type OffSending = Extract<Phase, 'isolating' | 'off-sent'>;

/**
 * Every `off` is made here, of a node as a fresh look shows it, whatever was decided before: G4, after an `on` there is none;
 * G5, G9, see `isHeld`; and what was announced or asked for since stops it.
 */
export function off(turn: Turn, to: OffSending, change: Partial<FencingRecord>, methods: readonly MethodKey[]): Turned {
  const { record } = turn;
  if (record.onSent.length > 0) return go('stuck', { why: 'on-sent' });
  // It had its effect: whoever has switched it on since is not cut (G4).
  if (isProvenBefore(record)) return ended(turn, PROOF_LOST);
  if (isTheirs(turn, record.offSent, turn.fencing.offReturnedMs)) return backToThem(record);
  if (isTooLate(turn)) return givenUp(turn, 'too-late');
  const old = ofOldDevices(turn);
  if (old !== null) return old;
  const left = record.purpose === 'rehearse' ? leftOnIdle(turn.memory, turn) : null;
  if (left === 'not-cordoned' || left === 'not-drained') return givenUp(turn, left);
  if (left === 'unknown' || isHeld(turn)) return askGates(turn);
  const booting = skippedBy(record).includes('dead') ? null : bootingShut(turn);
  if (booting !== null) return endedAsMayRun(turn, booting.because);
  const closed = gateOf(turn, NOT_OF_ITS_NODE);
  if (closed?.because === 'witness-unknown' || isWitnessOld(turn)) return askGates(turn);
  if (closed?.gate === 'witness') return endedAsMayRun(turn, closed.because);
  if (closed !== null) return ended(turn, closed.because);
  // A heartbeat that was not heard of before: its silence is not as long as it seemed.
  const isSign = turn.memory.signMs !== null && turn.memory.signMs > turn.fencing.sinceMs;
  if (record.renewed !== null && isSign) return ended(turn, 'not-silent-enough');
  return go(to, { ...change, ...withoutWord(record), offSent: withSent(record, methods) }, { kind: 'off', methods });
}

/** A machine that runs needs its storage. */
const endedAsMayRun = (turn: Turn, why: string): Turned =>
  turn.record.phase === 'isolating' ? givenBack(turn.record, why) : ended(turn, why);

/** Why an `off` that was decided must not be sent any more; null: it may. */
export function whyNotOff(turn: Turn, methods: readonly MethodKey[]): string | null {
  if (lifeSign(turn) !== null) return 'life';
  const { move } = off(turn, 'off-sent', {}, methods);
  if (move?.act?.kind === 'off') return null;
  return move?.change.why ?? (turn.state.paused === null ? 'held' : 'paused');
}

/** Neither read from the Node nor asked of its machine: looked at elsewhere. */
const NOT_OF_ITS_NODE: readonly GateName[] = ['self', 'dead', 'worth', 'device', 'storm', 'rate'];

/** Before each `off` the kubelet is asked again: a machine that hung may be back, and not reach the API. */
function isWitnessOld({ record, fencing, observation, config }: Turn): boolean {
  if (config.kubeletAnswers === 'ignore' || record.purpose === 'rehearse') return false;
  const witness = observation.asked.get(record.node.uid)?.witness;
  const freshMs = Math.max(fencing.sinceMs, observation.atMs - WITNESS_FRESH_MS);
  return witness?.known === true && witness.value.asOfMs < freshMs;
}
/** It is asked every 10 s, and answers within 3 s. */
const WITNESS_FRESH_MS = 15_000;

/**
 * A person had a living node switched off: nothing that it shows speaks against that any more. So it is done at once, by the
 * process that was asked, or not at all. `waitMs`: what it waits for by itself.
 */
export function isTooLate({ record, fencing, observation, config }: Turn, waitMs = 0): boolean {
  if (record.renewed !== null) return false;
  const untilMs = fencing.sinceMs + waitMs + 2 * config.deadlineMs + MINUTE_MS;
  return fencing.isTakenOver || observation.atMs > untilMs;
}

/** Nothing more is sent but the way back; of a machine that is to stay off, not even that: a person is asked. */
export function givenUp({ record }: Turn, why: string): Turned {
  return record.staysOff !== null && record.offSent.length > 0 ? go('stuck', { why }) : givenBack(record, why);
}

const givenBack = (record: FencingRecord, why: string): Turned =>
  record.offSent.length === 0 ? go('aborted', { why }) : go('on-sent', { why, ...onChange(record) }, onAct(record));

/** Since the decision, or since the last command, a person paused, a storm began, or another control-plane node fell silent. */
export function isHeld({ memory, record, observation, state }: Turn): boolean {
  // Whether an earlier leader was told to pause is known once what it kept was read.
  if (state.paused !== null || !isAdopted(state, observation.self)) return true;
  const isStorm = !skippedBy(record).includes('storm') && holdOn(memory, state, observation.atMs) !== null;
  return isStorm || (memory.facts.isControlPlane && controlPlaneHold(state, memory.object.uid) !== null);
}

const withSent = ({ offSent: sent }: FencingRecord, methods: readonly MethodKey[]): readonly MethodKey[] => [
  ...new Set([...sent, ...methods]),
];

/**
 * A consistent look that was sent in this phase: goes on only if nothing has changed, and with the node as it is there, for a
 * watch may be late.
 */
export function afterLook(turn: Turn, then: (fresh: Turn) => Turned): Turned {
  const { fencing, record, memory, observation } = turn;
  const freshMs = Math.max(fencing.sinceMs, observation.atMs - LOOK_FRESH_MS);
  const look = lookSince(turn, freshMs);
  if (look === null) return ask({ look: true });
  if (look.node === null) return nodeDeleted(record);
  const changed = changedIn(record, look);
  if (changed !== null) return ended(turn, changed);
  return then({ ...turn, memory: withObject(memory, look.node, observation.atMs) });
}
/** "Right before": a look that is older is taken again. */
const LOOK_FRESH_MS = 3_000;

/** The first closed gate but those passed over; a person's order passes over some by itself. */
export function gateOf(turn: Turn, passed: readonly GateName[]): GateRow | null {
  const { memory, record, observation, state } = turn;
  const ageMs = ageOf(memory, turn.asOfMs, observation.atMs >= state.self.settlesMs);
  const skipped = [...passed, ...skippedBy(record)];
  return firstShut(atGate(turn, memory, ageMs, record.id, record.purpose === 'rehearse'), skipped);
}

/** The gates that a person's order passes over. */
export const skippedBy = ({ order }: FencingRecord): readonly GateName[] =>
  order === null ? [] : ORDER_SKIPS[order.verb];

/** No `off` goes to a device that is configured otherwise by now, or not at all: it may be that of another machine. */
export function ofOldDevices(turn: Turn): Turned | null {
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  return hasNoMethod(turn) ? ended(turn, OUTDATED) : null;
}
