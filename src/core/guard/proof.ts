import type { MonoMs } from '../reading.ts';
import type { Act } from './decision.ts';
import { IN_TIME_MS, ROUND_VALID_MS } from './devices.ts';
import { renewalsMs } from './health.ts';
import type { FencingRecord } from './record.ts';
import { deviceKey } from './state.ts';
import {
  type Asks,
  answeredByMs,
  asksSinceMs,
  changedIn,
  lookSince,
  refutersOf,
  roundsOff,
  saysOnSince,
  type Turn,
  watchedOf,
} from './turn.ts';

/** What of guard.md 8.3 holds: `rounds` lack, or came `too-slow` to count, something else is awaited, or all of it. */
export type ProofStep =
  | { readonly kind: 'rounds' | 'too-slow' }
  | { readonly kind: 'wait'; readonly asks: Partial<Asks>; readonly dueMs: MonoMs | null }
  /** All but that no node controller has marked its Node. */
  | { readonly kind: 'ready'; readonly asks: Partial<Asks>; readonly change: Partial<FencingRecord> }
  | { readonly kind: 'life' }
  /** Nobody can tell whether it lives. */
  | { readonly kind: 'no-lease' }
  | { readonly kind: 'gone' }
  /** The lease's token is taken only now, because the node was alive at the decision. */
  | { readonly kind: 'baseline'; readonly renewed: string }
  | { readonly kind: 'proven'; readonly change: Partial<FencingRecord>; readonly act: Act };

/**
 * Proof of off for the level of the record. Rounds count if begun at `roundsSinceMs` or later, the consistent look if sent
 * at `lookSinceMs` or later and after them.
 */
export function proofOf(turn: Turn, roundsSinceMs: MonoMs, lookSinceMs: MonoMs): ProofStep {
  const { record, observation } = turn;
  const { atMs } = observation;
  if (record.proof?.by === 'person') {
    const dueMs = heardByMs(turn);
    if (atMs < dueMs) return { kind: 'wait', asks: { status: refutersOf(record) }, dueMs };
    return looked(turn, Math.max(lookSinceMs, atMs - ROUND_VALID_MS), null);
  }
  const status = refutersOf(record);
  const rounds = roundsOff(turn, roundsSinceMs);
  if (rounds === null || saysOnSince(turn, roundsSinceMs)) return { kind: 'rounds' };
  const validUntilMs = rounds.begunMs + ROUND_VALID_MS;
  const isTooSlow = rounds.endedMs - rounds.begunMs > IN_TIME_MS;
  if (atMs >= validUntilMs) return isTooSlow ? { kind: 'too-slow' } : { kind: 'wait', asks: { status }, dueMs: null };
  return looked(turn, Math.max(lookSinceMs, rounds.endedMs), validUntilMs);
}

/**
 * What devices said when a person spoke, another process heard, or this one before it led anew: they are asked once more, and
 * silence does not count.
 */
function heardByMs(turn: Turn): MonoMs {
  const { record, fencing, state } = turn;
  const sinceMs = asksSinceMs(turn);
  const isHeard = watchedOf(record).every((method) => {
    const begunMs = state.devices.get(deviceKey(record.node.uid, method))?.begunMs ?? null;
    return begunMs !== null && begunMs >= sinceMs;
  });
  const isHere = !fencing.isTakenOver && sinceMs === fencing.sinceMs;
  return isHere || isHeard ? sinceMs : answeredByMs(turn, sinceMs);
}

/** (d): the same lease and boot, and Ready no longer True: Kubernetes frees nothing before (k/k podgc, gcTerminating). */
function looked(turn: Turn, sinceMs: MonoMs, validUntilMs: MonoMs | null): ProofStep {
  const { record, fencing, observation } = turn;
  const asks: Partial<Asks> = { look: true, status: refutersOf(record) };
  const quietMs =
    wasAlive(turn) && record.renewed !== null ? fencing.sinceMs + renewalsMs(turn.memory.lease, 2) : sinceMs;
  const look = lookSince(turn, Math.max(sinceMs, quietMs));
  if (look === null) {
    const isEarly = observation.atMs < quietMs;
    return { kind: 'wait', asks: { ...asks, look: !isEarly }, dueMs: isEarly ? quietMs : null };
  }
  if (look.node === null) return { kind: 'gone' };
  const changed = changedIn(record, look);
  if (changed !== null) return { kind: changed };
  const renewed = look.lease?.renewed ?? null;
  if (record.renewed === null && renewed !== null) return { kind: 'baseline', renewed };
  const ready = look.node.conditions.find(({ type }) => type === 'Ready');
  const proof = record.proof?.by === 'person' ? record.proof : ({ by: 'devices', level: record.level } as const);
  if (ready?.status === 'True' && record.purpose === 'fence') return { kind: 'ready', asks, change: { proof } };
  const notAfterMs = validUntilMs ?? observation.atMs + ROUND_VALID_MS;
  return {
    kind: 'proven',
    change: { proof },
    act: { kind: 'tell', resourceVersion: look.resourceVersion, notAfterMs },
  };
}

/** A person had a living node switched off. */
const wasAlive = (turn: Turn): boolean =>
  turn.record.order !== null && turn.record.silentMs < renewalsMs(turn.memory.lease, 2);
