import type { MonoMs } from '../reading.ts';
import { STATUS_FRESH_MS } from './devices.ts';
import { proofOf } from './proof.ts';
import type { FencingRecord } from './record.ts';
import { type DeviceMemory, deviceKey } from './state.ts';
import {
  ask,
  asksSinceMs,
  go,
  ledForMs,
  lifeSign,
  nodeDeleted,
  nodeOf,
  onAct,
  onChange,
  refutersOf,
  roundsWithinMs,
  saysOn,
  stay,
  staysOff,
  type Turn,
  type Turned,
  WATCH_MS,
  watchedOf,
} from './turn.ts';

/** Why a fencing is `failed` whose machine was proven off: nobody knows any more whether it is. */
export const PROOF_LOST = 'proof-lost';

/** By its devices: its `off` had its effect, and there is no other one (G4). */
export const isProvenBefore = ({ proof }: FencingRecord): boolean => proof?.by === 'devices';

/** The patch was sent with the arrow to here; here it is seen to have been taken. */
export function proven(turn: Turn): Turned {
  const { record, fencing, observation, config, state } = turn;
  if (record.purpose === 'rehearse') return go('on-sent', onChange(record), onAct(record));
  if (fencing.acted?.kind === 'patched') return livesAfterProof(turn) ?? go('tainted');
  // It may have been taken all the same: what it may have written is removed first.
  if (lifeSign(turn) !== null || saysOn(turn)) return go('untainting', { isAlive: true }, { kind: 'untell' });
  if (observation.atMs < ledForMs(state, fencing.phaseSinceMs, config.drainWaitMs)) return toldAgain(turn);
  const detail = fencing.acted !== null && 'detail' in fencing.acted ? fencing.acted.detail : 'no answer';
  const reasons = [{ code: 'not-told', node: record.node, fencing: record.id, detail }] as const;
  if (staysOff(record) === null) return go('untainting', { why: 'not-told' }, { kind: 'untell' }, { reasons });
  const turned = toldAgain(turn);
  return { ...turned, reasons: fencing.isOverdue ? turned.reasons : [...turned.reasons, ...reasons], isOverdue: true };
}

/** The patch once more, with a proof of now; more and more rarely, if the API refuses it. */
function toldAgain(turn: Turn): Turned {
  const { record, fencing, observation, config } = turn;
  const roundsSinceMs = fencing.isTakenOver
    ? fencing.sinceMs
    : (fencing.offReturnedMs ?? fencing.sinceMs - STATUS_FRESH_MS);
  const proof = proofOf(turn, roundsSinceMs, fencing.sinceMs);
  switch (proof.kind) {
    case 'proven':
      return observation.atMs < refusedUntilMs(turn, MOST_REFUSED_MS)
        ? ask({ status: refutersOf(record) })
        : go('proven', proof.change, proof.act);
    case 'life':
      return go('untainting', { isAlive: true }, { kind: 'untell' });
    case 'no-lease':
      return ask({ look: true, status: refutersOf(record) });
    case 'gone':
      return nodeDeleted(record);
    case 'wait':
      return ask(proof.asks, proof.dueMs);
    case 'ready':
      return ask(proof.asks);
    case 'rounds':
    case 'too-slow':
      if (observation.atMs >= Math.min(offKnownUntilMs(turn), watchedSinceMs(turn) + roundsWithinMs(config)))
        return proofLost(turn);
      return ask({ status: refutersOf(record) });
    case 'baseline':
      return stay();
  }
}

/** More and more rarely, but within `mostMs`. */
function refusedUntilMs({ fencing: { acted, sinceMs, phaseSinceMs } }: Turn, mostMs: number): number {
  if (acted?.kind !== 'failed' || acted.why !== 'error') return Number.NEGATIVE_INFINITY;
  return sinceMs + Math.min(mostMs, (sinceMs - phaseSinceMs) / 2);
}
const MOST_UNTOLD_MS = 10_000;
const MOST_REFUSED_MS = 60_000;

/** G2: any sign of life takes the taint away first; null: none is known. */
export function livesAfterProof(turn: Turn): Turned | null {
  const { record } = turn;
  const sign = lifeSign(turn) ?? (saysOn(turn) ? 'power' : null);
  if (sign === null) return null;
  const reasons = [{ code: 'life-after-proof', node: nodeOf(turn), fencing: record.id, sign } as const];
  return go('untainting', { isAlive: true }, { kind: 'untell' }, { reasons });
}

/** The taint stands while off stays proven (guard.md 9.2). What its devices do not say any more is not known. */
export function proofLost({ record }: Turn): Turned {
  const reasons = [{ code: 'not-proven', node: record.node, fencing: record.id, lacks: PROOF_LOST }] as const;
  return go('failed', { why: PROOF_LOST }, { kind: 'untell' }, { reasons });
}

/** The taint goes before anything else; null: it is gone. Refused, it is tried again soon all the same, as the machine may run (G2). */
export function untellFirst(turn: Turn): Turned | null {
  const { record, fencing, observation } = turn;
  if (fencing.acted?.kind === 'patched') return null;
  const dueMs = refusedUntilMs(turn, MOST_UNTOLD_MS);
  return observation.atMs < dueMs ? stay({ dueMs }) : go(record.phase, {}, { kind: 'untell' });
}

/** Until when the last off of the devices that proved it is believed; Infinity: a person did. */
export function offKnownUntilMs(turn: Turn): number {
  if (!isProvenBefore(turn.record)) return Number.POSITIVE_INFINITY;
  const heard = watchedDevices(turn).map(
    (device) => device?.recent.findLast(({ says }) => says === 'off')?.begunMs ?? 0,
  );
  // One watch, and an answer that takes as long as it may.
  return Math.max(watchedSinceMs(turn), Math.min(...heard)) + WATCH_MS + turn.config.deadlineMs + ANSWER_RESERVE_MS;
}
/** From when its status is wanted until it is begun, and from its end until it is known. */
const ANSWER_RESERVE_MS = 5_000;

/**
 * Since when this process could hear them in this phase. What it has not heard while it did not lead is no loss of the proof; but
 * with one that was silent before, an election gives no new time, else a guard that is elected again and again would keep the taint
 * of a machine that nobody hears.
 */
function watchedSinceMs(turn: Turn): MonoMs {
  const { sinceMs } = turn.fencing;
  const mayAskSinceMs = asksSinceMs(turn);
  const isBefore = (askedMs: MonoMs | null): boolean =>
    askedMs !== null && askedMs >= sinceMs && askedMs < mayAskSinceMs;
  const wasSilentBefore = watchedDevices(turn).some(
    (device) => device?.says === 'unknown' && [device.silentSinceMs, device.begunMs].some(isBefore),
  );
  return wasSilentBefore ? sinceMs : mayAskSinceMs;
}

const watchedDevices = ({ record, state }: Turn): readonly (DeviceMemory | undefined)[] =>
  watchedOf(record).map((method) => state.devices.get(deviceKey(record.node.uid, method)));
