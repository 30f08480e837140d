import type { MonoMs } from '../reading.ts';
import { STATUS_FRESH_MS } from './devices.ts';
import { proofOf } from './proof.ts';
import type { FencingRecord } from './record.ts';
import { type DeviceMemory, deviceKey } from './state.ts';
import {
  ask,
  asksSinceMs,
  DEADLINE_RESERVE_MS,
  go,
  levelOf,
  lifeSign,
  nodeDeleted,
  nodeOf,
  onAct,
  onChange,
  roundsWithinMs,
  saysOn,
  stay,
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
  const { record, fencing, observation, config } = turn;
  if (record.purpose === 'rehearse') return go('on-sent', onChange(record), onAct(record));
  if (fencing.acted?.kind === 'patched') return livesAfterProof(turn) ?? go('tainted');
  // It may have been taken all the same: what it may have written is removed first.
  if (lifeSign(turn) !== null || saysOn(turn)) return go('untainting', { isAlive: true }, { kind: 'untell' });
  const roundsSinceMs = fencing.isTakenOver
    ? fencing.sinceMs
    : (fencing.offReturnedMs ?? fencing.sinceMs - STATUS_FRESH_MS);
  const proof = proofOf(turn, roundsSinceMs, fencing.sinceMs);
  switch (proof.kind) {
    case 'proven':
      return go('proven', proof.change, proof.act);
    case 'life':
      return go('untainting', { isAlive: true }, { kind: 'untell' });
    case 'gone':
      return nodeDeleted(record);
    case 'wait':
      return ask(proof.asks, proof.dueMs);
    case 'rounds':
    case 'too-slow':
      if (observation.atMs >= Math.min(offKnownUntilMs(turn), watchedSinceMs(turn) + roundsWithinMs(config)))
        return proofLost(turn);
      return ask({ status: levelOf(record) });
    case 'baseline':
      return stay();
  }
}

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

/** Until when the last off of the devices that proved it is believed; Infinity: a person did. */
export function offKnownUntilMs(turn: Turn): number {
  if (!isProvenBefore(turn.record)) return Number.POSITIVE_INFINITY;
  const heard = watchedDevices(turn).map(
    (device) => device?.recent.findLast(({ says }) => says === 'off')?.begunMs ?? 0,
  );
  // One watch, and an answer that takes as long as it may.
  return Math.max(watchedSinceMs(turn), Math.min(...heard)) + WATCH_MS + turn.config.deadlineMs + DEADLINE_RESERVE_MS;
}

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
