import type { MonoMs } from '../reading.ts';
import { afterLook, again, ended, gateOf, givenUp, isTooLate, off, ofOldDevices, sendOff } from './before-an-off.ts';
import type { GateName, LevelLack } from './decision.ts';
import { freshSince, lackOfLevel, levelOffAlready, useOf } from './devices.ts';
import { hasLease } from './health.ts';
import { isOutdated, isTooSlow, lackNow, levelAfter, levelToUse, OUTDATED } from './levels.ts';
import { isProvenBefore, PROOF_LOST, proven, untellFirst } from './phase-proven.ts';
import { proofOf } from './proof.ts';
import type { Phase } from './record.ts';
import { backToThem, isTheirs, withHeard } from './switched-on.ts';
import {
  answeredByMs,
  ask,
  askGates,
  asksSinceMs,
  go,
  ledForMs,
  levelOf,
  lifeSign,
  livesOn,
  nodeDeleted,
  predecessorEndsMs,
  ROUND_MS,
  refutersOf,
  roundsOff,
  roundsWithinMs,
  saidSince,
  saysOn,
  saysOnSince,
  stay,
  staysOff,
  type Turn,
  type Turned,
} from './turn.ts';
import { FRESH_MS } from './worth.ts';

/** `off` commands to one level before the next one (guard.md 8.2), and if another process sent one of them. */
const ATTEMPTS = 2;
const ATTEMPTS_TAKEN_OVER = 3;
const MINUTE_MS = 60_000;
/** How long a failed fencing waits before each further try (guard.md 7.3). */
export const RETRY_AFTER_MS = [MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS];
/** A fencing that was not begun stays visible for this long. */
const ABORTED_MS = MINUTE_MS;
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
  const { fencing, observation, config, state } = turn;
  const turned = lastLook(turn);
  if (turned.move !== null || isNew(turn)) return turned;
  // Nothing was sent since: it stands in no other one's way, and ends if what it waits for lasts. Then it is decided anew.
  const dueMs = ledForMs(state, fencing.sinceMs, config.plannedWaitMs);
  if (observation.atMs < dueMs) return { ...turned, dueMs, isOverdue: true };
  return ended(turn, gateOf(turn, [])?.because ?? 'not-known-in-time');
}

const isNew = ({ fencing, observation }: Turn): boolean =>
  !fencing.isTakenOver && observation.atMs - fencing.sinceMs <= FRESH_MS;

function lastLook(turn: Turn): Turned {
  const { record } = turn;
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (isTooLate(turn)) return givenUp(turn, 'too-late');
  const old = ofOldDevices(turn);
  if (old !== null) return old;
  const closed = gateOf(turn, isNew(turn) ? PASSED_AT_DECISION : []);
  // Somebody else decided, or long ago: what has changed since is looked at from the start, and waits for a better moment.
  if (closed !== null) return PASSING.includes(closed.gate) ? askGates(turn) : ended(turn, closed.because);
  return afterLook(turn, (fresh) => {
    const { plan } = record;
    const { state, config, observation, memory } = turn;
    const freshMs = freshSince(memory, observation.atMs);
    const offBy = (rounds: 1 | 2): number | null =>
      levelOffAlready(record.node.uid, plan, state.devices, freshMs, useOf(config, false), rounds);
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

function proving(turn: Turn): Turned {
  const { fencing, state, memory, observation, record } = turn;
  const turned = proved(turn);
  const isMarked = !memory.facts.isReady || record.purpose === 'rehearse';
  if (turned.move !== null || isMarked || observation.atMs < ledForMs(state, fencing.phaseSinceMs, MARKED_WITHIN_MS))
    return turned;
  // It stands in no other one's way meanwhile.
  const reasons = [{ code: 'still-ready', node: record.node, fencing: record.id } as const];
  return { ...turned, isOverdue: true, reasons };
}
/** A node controller marks a silent Node within a minute. */
const MARKED_WITHIN_MS = 2 * MINUTE_MS;

/** Two rounds of status, then a consistent look: all of guard.md 8.3. */
function proved(turn: Turn): Turned {
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
      return withHeard(turn, sinceMs, ask(proof.asks, proof.dueMs));
    case 'ready':
      return notMarked(turn, proof);
    case 'life':
      return ended(turn, 'life');
    case 'no-lease':
      if (!isProvenBefore(record)) return ended(turn, NO_LEASE);
      return { ...ask({ look: true, status: refutersOf(record) }), isOverdue: true };
    case 'gone':
      return nodeDeleted(record);
    case 'rounds':
      return notProven(turn, sinceMs, isTooSlow(turn, record.level));
    case 'too-slow':
      return notProven(turn, sinceMs, true);
  }
}

/** Kubernetes would free nothing of it: its machine is not left off for that longer than for a drain. */
function notMarked(turn: Turn, { asks, change }: Extract<ReturnType<typeof proofOf>, { kind: 'ready' }>): Turned {
  const { record, fencing, observation, config, state } = turn;
  if (staysOff(record) !== null) return ask(asks);
  const dueMs = ledForMs(state, fencing.phaseSinceMs, config.drainWaitMs);
  if (observation.atMs < dueMs) return ask(asks, dueMs);
  const reasons = [{ code: 'not-told', node: record.node, fencing: record.id, detail: STILL_READY } as const];
  return go('untainting', { ...change, why: 'not-told' }, { kind: 'untell' }, { reasons });
}
const STILL_READY = 'its Node is still Ready';

/** Two attempts for each level, then the next one (guard.md 8.2). */
function notProven(turn: Turn, sinceMs: MonoMs, isSlow: boolean): Turned {
  const { record, observation, config } = turn;
  const level = levelOf(record);
  const onSinceMs = sinceMs + ROUND_MS;
  const isLevelOn = saidSince(turn, level, onSinceMs)?.some(({ says }) => says === 'on') === true;
  const isOn = isLevelOn || (roundsOff(turn, sinceMs) !== null && saysOnSince(turn, onSinceMs));
  const givesUpMs = Math.max(sinceMs, asksSinceMs(turn)) + roundsWithinMs(config);
  if (!isOn && observation.atMs < givesUpMs)
    return withHeard(turn, sinceMs, ask({ status: refutersOf(record) }, givesUpMs));
  if (isTheirs(turn, level, sinceMs)) return backToThem(record);
  const lacks = isOn ? 'says-on' : isSlow ? TOO_SLOW : (notBelieved(turn) ?? 'silent');
  const next = afterProving(turn, lacks);
  if (next.move === null) return next;
  return { ...next, reasons: [{ code: 'not-proven', node: record.node, fencing: record.id, lacks }] };
}

/** Whatever its devices say, they prove nothing; null: they do. */
function notBelieved({ record, state, observation, memory }: Turn): LevelLack | null {
  const use = record.purpose === 'rehearse' ? 'rehearse' : 'fence';
  const lack = lackOfLevel(record.node.uid, levelOf(record), state.devices, freshSince(memory, observation.atMs), use);
  return lack !== null && PROVES_NOTHING.has(lack) ? lack : null;
}

/** What does not prove this `off` does not prove a second one either. */
function afterProving(turn: Turn, lacks: string): Turned {
  const { record } = turn;
  if (isProvenBefore(record)) return go('failed', { why: PROOF_LOST });
  const isInVain = PROVES_NOTHING.has(lacks);
  const why = isInVain ? lacks : 'not-proven';
  if (record.offSent.length === 0) return ended(turn, isInVain ? why : 'not-off-any-more');
  if (record.purpose === 'rehearse') return givenUp(turn, why);
  if (record.attempt < ATTEMPTS && !isInVain)
    return afterLook(turn, (fresh) => sendOff(fresh, record.level, record.attempt + 1));
  return nextLevel(turn, why);
}
const TOO_SLOW: LevelLack = 'too-slow';
const PROVES_NOTHING: ReadonlySet<string> = new Set<LevelLack>([TOO_SLOW, 'never-on', 'contradicted']);

/** Begun again after 1, 2 and 5 minutes, with all gates; then a person is asked. */
function failed(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  const isLost = isProvenBefore(record) && record.onSent.length === 0;
  const untold = isLost ? untellFirst(turn) : null;
  if (untold !== null) return untold;
  if (lifeSign(turn) !== null) return ended(turn, 'life');
  if (isLost) return failedAfterProof(turn);
  // A rehearsal that did not work is no reason to cut again.
  if (record.purpose === 'rehearse') return givenUp(turn, record.why ?? 'not-proven');
  if (isTooLate(turn, Math.max(...RETRY_AFTER_MS))) return givenUp(turn, 'too-late');
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  if (isWithoutLease(turn)) return givenUp(turn, NO_LEASE);
  const afterMs = RETRY_AFTER_MS[record.retries];
  if (afterMs === undefined || record.onSent.length > 0) return go('stuck');
  const dueMs = fencing.sinceMs + afterMs;
  if (observation.atMs < dueMs) return stay({ dueMs });
  if (gateOf(turn, []) !== null) return askGates(turn);
  return go('decided', { retries: record.retries + 1, attempt: 0, why: null, isAlive: false });
}

/** Its kubelet would make a lease anew, and cannot while its machine is off: so nothing is proven any more. */
const isWithoutLease = ({ record, fencing, memory, observation, config, state }: Turn): boolean =>
  record.why === NO_LEASE &&
  !hasLease(memory) &&
  observation.atMs >= ledForMs(state, fencing.phaseSinceMs, config.recovery.bootTimeMs);
const NO_LEASE = 'no-lease';

/** It waits for its devices to prove it off once more: that needs no gate, and no `off`. */
function failedAfterProof(turn: Turn): Turned {
  const { record, fencing } = turn;
  if (saysOn(turn)) return record.offSent.length > 0 ? backToThem(record) : ended(turn, 'not-off-any-more');
  if (isOutdated(turn)) return givenUp(turn, OUTDATED);
  const isOff = roundsOff(turn, fencing.sinceMs) !== null && !isTooSlow(turn, record.level);
  return isOff ? go('proving', { why: null }) : ask({ status: refutersOf(record) });
}

function stuck(turn: Turn): Turned {
  if (lifeSign(turn) !== null || livesOn(turn)) return ended(turn, 'life');
  return isOutdated(turn) && turn.record.staysOff === null ? givenUp(turn, OUTDATED) : stay();
}

/** Nothing was sent: it stays for a moment, so that it is seen. */
function aborted({ fencing, observation: { atMs } }: Turn): Turned {
  const dueMs = fencing.sinceMs + ABORTED_MS;
  return atMs < dueMs ? stay({ dueMs }) : go('closed', {}, { kind: 'clear' });
}

function nextLevel(turn: Turn, why = 'not-proven'): Turned {
  const next = levelAfter(turn);
  return next === null ? go('failed', { why }) : afterLook(turn, (fresh) => sendOff(fresh, next, 1));
}
