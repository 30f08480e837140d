import type { MonoMs } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { GateName, GateRow, LevelLack } from './decision.ts';
import { levelOffAlready, useOf } from './devices.ts';
import { atGate, firstShut } from './gates.ts';
import { ageOf, withObject } from './health.ts';
import { isTooSlow, lackNow, levelAfter, levelToUse } from './levels.ts';
import { hasNoMethod, isOutdated, OUTDATED } from './outdated.ts';
import { isProvenBefore, PROOF_LOST, proven } from './phase-proven.ts';
import { proofOf } from './proof.ts';
import { controlPlaneHold } from './rate.ts';
import type { FencingRecord, Phase } from './record.ts';
import { leftOnIdle } from './rehearsal.ts';
import { isAdopted } from './self.ts';
import { holdOn } from './storm.ts';
import {
  answeredByMs,
  ask,
  askGates,
  asksSinceMs,
  go,
  isSwitchedOnSince,
  isUnchanged,
  levelOf,
  lifeSign,
  livesOn,
  lookSince,
  nodeDeleted,
  onAct,
  onChange,
  predecessorEndsMs,
  ROUND_MS,
  roundsOff,
  roundsWithinMs,
  saidSince,
  saysOn,
  stay,
  type Turn,
  type Turned,
} from './turn.ts';
import { FRESH_MS } from './worth.ts';

/** `off` commands to one level before the next one (guard.md 8.2), and if another process sent one of them. */
const ATTEMPTS = 2;
const ATTEMPTS_TAKEN_OVER = 3;
const MINUTE_MS = 60_000;
/** How long a failed fencing waits before each further try (guard.md 7.3). */
const RETRY_AFTER_MS = [MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS];
/** A fencing that was not begun stays visible for this long. */
const ABORTED_MS = MINUTE_MS;
/** What a person's order passes over (guard.md 3). */
export const ORDER_SKIPS: { readonly [V in NonNullable<FencingRecord['order']>['verb']]: readonly GateName[] } = {
  fence: ['dead', 'worth', 'storm'],
  rehearse: ['planned', 'dead', 'witness', 'worth', 'storm'],
  'confirm-off': [],
};

type OffPhase = Extract<
  Phase,
  'decided' | 'isolating' | 'off-sent' | 'proving' | 'proven' | 'failed' | 'stuck' | 'aborted'
>;

/** From the decision to the proof: the rows of guard.md 7.3. */
export const OFF_PHASES: { readonly [P in OffPhase]: (turn: Turn) => Turned } = {
  decided,
  isolating,
  'off-sent': offSent,
  proving,
  proven,
  failed,
  stuck,
  aborted,
};

/** The last look: nothing is switched off unless it shows that nothing has changed. */
function decided(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (isTooLate(turn)) return givenUp(turn, 'too-late');
  const old = ofOldDevices(turn);
  if (old !== null) return old;
  const isNew = !fencing.isTakenOver && observation.atMs - fencing.sinceMs <= FRESH_MS;
  const closed = gateOf(turn, isNew ? PASSED_AT_DECISION : []);
  // Somebody else decided, or long ago: what has changed since is looked at from the start, and waits for a better moment.
  if (closed !== null) return PASSING.includes(closed.gate) ? askGates(turn) : ended(turn, closed.because);
  return afterLook(turn, (fresh) => {
    const { plan } = record;
    const { state, config } = turn;
    const offBy = (rounds: 1 | 2): number | null =>
      levelOffAlready(record.node.uid, plan, state.devices, observation.atMs, useOf(config, false), rounds);
    if (record.purpose === 'fence') {
      const already = offBy(2);
      if (already !== null) return go('proving', { level: already });
      // An off would have no effect, and would make the machine one that is ours to switch on.
      if (offBy(1) !== null) return ask({ status: plan.levels.flat() });
    }
    if (record.why === 'off-already') return ended(turn, 'not-off-any-more');
    const level = levelToUse(turn);
    if (level === null) {
      const lack = lackNow(turn);
      return lack === 'not-asked' ? askGates(turn) : ended(turn, lack);
    }
    return plan.isolation.length === 0 ? sendOff(fresh, level, 1) : off(fresh, 'isolating', { level }, plan.isolation);
  });
}
/** At the decision these were open a moment ago; the last look and the devices speak now. */
const PASSED_AT_DECISION: readonly GateName[] = ['dead', 'witness', 'worth', 'device', 'storm', 'rate'];
/** These may open again by themselves, while nothing was sent. */
const PASSING: readonly GateName[] = ['self', 'storm', 'rate', 'witness', 'worth', 'device'];

/** Best effort: the fabric is no proof, and its failure no reason to stop. */
function isolating(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  const { isolation } = record.plan;
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (fencing.isTakenOver) {
    const endsMs = predecessorEndsMs(turn);
    if (observation.atMs < endsMs) return stay({ dueMs: endsMs });
    const said = saidSince(turn, isolation, endsMs);
    const givesUpMs = answeredByMs(turn, endsMs);
    if (said === null && observation.atMs < givesUpMs) return ask({ status: isolation }, givesUpMs);
    const missing = said === null ? isolation : said.filter(({ says }) => says === 'on').map(({ method }) => method);
    if (missing.length > 0) return again(turn, 'isolating', missing);
  } else if (fencing.acted?.kind === 'not-begun') return again(turn, 'isolating', isolation);
  return afterLook(turn, (fresh) => sendOff(fresh, record.level, 1));
}

function offSent(turn: Turn): Turned {
  const { record, fencing } = turn;
  if (fencing.isTakenOver) return offSentByAnother(turn);
  if (fencing.acted?.kind === 'ran') return go('proving');
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  return again(turn, 'off-sent', levelOf(record));
}

/** guard.md 7.3: the device is asked first. */
function offSentByAnother(turn: Turn): Turned {
  const { record, observation } = turn;
  const endsMs = predecessorEndsMs(turn);
  if (observation.atMs < endsMs) return stay({ dueMs: endsMs });
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  const level = levelOf(record);
  const said = saidSince(turn, level, endsMs);
  if (said?.every(({ says }) => says === 'off')) return go('proving');
  const givesUpMs = answeredByMs(turn, endsMs);
  if (said === null && observation.atMs < givesUpMs) return ask({ status: level }, givesUpMs);
  if (record.attempt < ATTEMPTS_TAKEN_OVER)
    return afterLook(turn, (fresh) => sendOff(fresh, record.level, record.attempt + 1));
  return nextLevel(turn);
}

/** Two rounds of status, then a consistent look: all of guard.md 8.3. */
function proving(turn: Turn): Turned {
  const { record, fencing } = turn;
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (record.proof?.by === 'person' && saysOn(turn)) return ended(turn, 'device-says-on');
  // Off already, as devices said that may be those of another machine.
  if (record.proof === null && record.offSent.length === 0 && isOutdated(turn)) return givenUp(turn, OUTDATED);
  const sinceMs = fencing.isTakenOver ? fencing.sinceMs : (fencing.offReturnedMs ?? fencing.sinceMs);
  const proof = proofOf(turn, sinceMs, sinceMs);
  switch (proof.kind) {
    case 'proven':
      return go('proven', proof.change, record.purpose === 'rehearse' ? null : proof.act);
    case 'baseline':
      return go('proving', { renewed: proof.renewed });
    case 'wait':
      return ask(proof.asks, proof.dueMs);
    case 'life':
      return ended(turn, 'life');
    case 'gone':
      return nodeDeleted(record);
    case 'rounds':
      return notProven(turn, sinceMs, isTooSlow(turn, record.level));
    case 'too-slow':
      return notProven(turn, sinceMs, true);
  }
}

/** Two attempts for each level, then the next one (guard.md 8.2). */
function notProven(turn: Turn, sinceMs: MonoMs, isSlow: boolean): Turned {
  const { record, observation, config } = turn;
  const level = levelOf(record);
  const isOn = saidSince(turn, level, sinceMs + ROUND_MS)?.some(({ says }) => says === 'on') === true;
  const givesUpMs = Math.max(sinceMs, asksSinceMs(turn)) + roundsWithinMs(config);
  if (!isOn && observation.atMs < givesUpMs) return ask({ status: level }, givesUpMs);
  if (isTheirs(turn, level, sinceMs)) return backToThem(record);
  const lacks = isOn ? 'says-on' : isSlow ? TOO_SLOW : 'silent';
  const next = afterProving(turn, lacks);
  if (next.move === null) return next;
  return { ...next, reasons: [{ code: 'not-proven', node: record.node, fencing: record.id, lacks }] };
}

/** G4: the off had its effect, and somebody has switched the machine on since. `sinceMs`: when it returned; null: not known. */
const isTheirs = (turn: Turn, methods: readonly MethodKey[], sinceMs: MonoMs | null): boolean =>
  turn.record.offSent.length > 0 && sinceMs !== null && isSwitchedOnSince(turn, methods, sinceMs);

const backToThem = (record: FencingRecord): Turned =>
  go('on-sent', { why: 'switched-on', ...onChange(record) }, onAct(record));

/** What answers too late proves no second `off` either. */
function afterProving(turn: Turn, lacks: string): Turned {
  const { record } = turn;
  if (isProvenBefore(record)) return go('failed', { why: PROOF_LOST });
  const isSlow = lacks === TOO_SLOW;
  const why = isSlow ? TOO_SLOW : 'not-proven';
  if (record.offSent.length === 0) return ended(turn, isSlow ? why : 'not-off-any-more');
  if (record.purpose === 'rehearse') return givenUp(turn, why);
  if (record.attempt < ATTEMPTS && !isSlow)
    return afterLook(turn, (fresh) => sendOff(fresh, record.level, record.attempt + 1));
  return nextLevel(turn, why);
}
const TOO_SLOW: LevelLack = 'too-slow';

/** Begun again after 1, 2 and 5 minutes, with all gates; then a person is asked. */
function failed(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  const isLost = isProvenBefore(record) && record.onSent.length === 0;
  // The taint is gone before anything else happens (G2).
  if (isLost && fencing.acted?.kind !== 'patched') return go('failed', {}, { kind: 'untell' });
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (isLost) return failedAfterProof(turn);
  // A rehearsal that did not work is no reason to cut again.
  if (record.purpose === 'rehearse') return givenUp(turn, record.why ?? 'not-proven');
  if (isTooLate(turn, Math.max(...RETRY_AFTER_MS))) return givenUp(turn, 'too-late');
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  const afterMs = RETRY_AFTER_MS[record.retries];
  if (afterMs === undefined || record.onSent.length > 0) return go('stuck');
  const dueMs = fencing.sinceMs + afterMs;
  if (observation.atMs < dueMs) return stay({ dueMs });
  if (gateOf(turn, []) !== null) return askGates(turn);
  return go('decided', { retries: record.retries + 1, attempt: 0, why: null });
}

/** It waits for its devices to prove it off once more: that needs no gate, and no `off`. */
function failedAfterProof(turn: Turn): Turned {
  const { record, fencing } = turn;
  if (saysOn(turn)) return record.offSent.length > 0 ? backToThem(record) : ended(turn, 'not-off-any-more');
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  const isOff = roundsOff(turn, fencing.sinceMs) !== null && !isTooSlow(turn, record.level);
  return isOff ? go('proving', { why: null }) : ask({ status: levelOf(record) });
}

function stuck(turn: Turn): Turned {
  if (lifeSign(turn) !== null || livesOn(turn)) return ended(turn, 'life');
  return isOutdated(turn) && turn.record.staysOff === null ? givenUp(turn, OUTDATED) : stay();
}

/** No `off` goes to a device that is configured otherwise by now, or not at all: it may be that of another machine. */
function ofOldDevices(turn: Turn): Turned | null {
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  return hasNoMethod(turn) ? ended(turn, OUTDATED) : null;
}

/** Nothing was sent: it stays for a moment, so that it is seen. */
function aborted({ fencing, observation: { atMs } }: Turn): Turned {
  const dueMs = fencing.sinceMs + ABORTED_MS;
  return atMs < dueMs ? stay({ dueMs }) : go('closed', {}, { kind: 'clear' });
}

/** Its node lives, or its moment is over. What was switched off is switched on, if not by this arrow then by the next. */
function ended({ record }: Turn, why: string): Turned {
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
const again = (turn: Turn, phase: OffSending, methods: readonly MethodKey[]): Turned =>
  afterLook(turn, (fresh) => off(fresh, phase, {}, methods));

const sendOff = (turn: Turn, level: number, attempt: number): Turned =>
  off(turn, 'off-sent', { level, attempt }, turn.record.plan.levels[level] ?? []);

type OffSending = Extract<OffPhase, 'isolating' | 'off-sent'>;

/**
 * Every `off` is made here, of a node as a fresh look shows it, whatever was decided before: G4, after an `on` there is none;
 * G5, G9, see `isHeld`; and what was announced or asked for since stops it.
 */
function off(turn: Turn, to: OffSending, change: Partial<FencingRecord>, methods: readonly MethodKey[]): Turned {
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
  const closed = gateOf(turn, NOT_OF_ITS_NODE);
  if (closed?.because === 'witness-unknown' || isWitnessOld(turn)) return askGates(turn);
  // A machine that runs needs its storage.
  if (closed?.gate === 'witness' && record.phase === 'isolating') return givenBack(record, closed.because);
  if (closed !== null) return ended(turn, closed.because);
  // A heartbeat that was not heard of before: its silence is not as long as it seemed.
  const isSign = turn.memory.signMs !== null && turn.memory.signMs > turn.fencing.sinceMs;
  if (record.renewed !== null && isSign) return ended(turn, 'not-silent-enough');
  return go(to, { ...change, ...withoutWord(record), offSent: withSent(record, methods) }, { kind: 'off', methods });
}

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
function isTooLate({ record, fencing, observation, config }: Turn, waitMs = 0): boolean {
  if (record.renewed !== null) return false;
  const untilMs = fencing.sinceMs + waitMs + 2 * config.deadlineMs + MINUTE_MS;
  return fencing.isTakenOver || observation.atMs > untilMs;
}

/** Nothing more is sent but the way back; of a machine that is to stay off, not even that: a person is asked. */
function givenUp({ record }: Turn, why: string): Turned {
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

function nextLevel(turn: Turn, why = 'not-proven'): Turned {
  const next = levelAfter(turn);
  return next === null ? go('failed', { why }) : afterLook(turn, (fresh) => sendOff(fresh, next, 1));
}

const withSent = ({ offSent: sent }: FencingRecord, methods: readonly MethodKey[]): readonly MethodKey[] => [
  ...new Set([...sent, ...methods]),
];

/**
 * A consistent look that was sent in this phase: goes on only if nothing has changed, and with the node as it is there, for a
 * watch may be late.
 */
function afterLook(turn: Turn, then: (fresh: Turn) => Turned): Turned {
  const { fencing, record, memory, observation } = turn;
  const freshMs = Math.max(fencing.sinceMs, observation.atMs - LOOK_FRESH_MS);
  const look = lookSince(turn, freshMs);
  if (look === null) return ask({ look: true });
  if (look.node === null) return nodeDeleted(record);
  if (!isUnchanged(record, look)) return ended(turn, 'life');
  return then({ ...turn, memory: withObject(memory, look.node, observation.atMs) });
}
/** "Right before": a look that is older is taken again. */
const LOOK_FRESH_MS = 3_000;

/** The first closed gate but those passed over; a person's order passes over some by itself. */
function gateOf(turn: Turn, passed: readonly GateName[]): GateRow | null {
  const { memory, record, observation, state } = turn;
  const ageMs = ageOf(memory, turn.asOfMs, observation.atMs >= state.self.settlesMs);
  const skipped = [...passed, ...skippedBy(record)];
  return firstShut(atGate(turn, memory, ageMs, record.id, record.purpose === 'rehearse'), skipped);
}

const skippedBy = ({ order }: FencingRecord): readonly GateName[] => (order === null ? [] : ORDER_SKIPS[order.verb]);
