import type { Frees, GateRow } from '../core/guard/decision.ts';
import { RETRY_AFTER_MS } from '../core/guard/phases-off.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayWhy } from './guard.ts';
import { sayGateRow } from './guard-gate.ts';
import { saySilentFor } from './guard-history.ts';
import { counted, sayToSecond } from './phrases.ts';

/** The events on Nodes (guard.md 11), for people; `reason` is their type. */
export type GuardEventReason =
  | 'FencingDecided'
  | 'FencingHeld'
  | 'StormHeld'
  | 'PowerOffProven'
  | 'FencingFailed'
  | 'NodeFreed'
  | 'NodeBack'
  | 'LifeAfterProof';

export const EVENT_TYPES: { readonly [R in GuardEventReason]: 'Normal' | 'Warning' } = {
  FencingDecided: 'Warning',
  FencingHeld: 'Warning',
  StormHeld: 'Warning',
  PowerOffProven: 'Normal',
  FencingFailed: 'Warning',
  NodeFreed: 'Normal',
  NodeBack: 'Normal',
  LifeAfterProof: 'Warning',
};

export function sayDecided(record: FencingRecord, wouldFree: Frees | null): string {
  const { id, silentMs, order, purpose } = record;
  const frees =
    wouldFree === null
      ? 'what would be freed is not known'
      : `${counted(wouldFree.pods.length, 'pod')} and ${counted(wouldFree.attachments.length, 'volume')} would be freed`;
  const silent = saySilentFor(record, sayToSecond(silentMs));
  const by = order === null ? '' : `, ordered by ${order.by}: ${order.because}`;
  return escapeUnsafe(
    purpose === 'rehearse'
      ? `a rehearsal begins${by} (fencing ${id})`
      : `a fencing begins: ${silent}; ${frees}${by} (fencing ${id})`,
  );
}

export const sayHeld = (row: GateRow): string =>
  escapeUnsafe(`not fenced, held by gate ${row.gate}: ${sayGateRow(row)}`);

export function sayProven({ id, proof }: FencingRecord): string {
  const by = proof?.by === 'person' ? `off, as ${proof.name} says; no device proved it` : 'its devices prove it off';
  return escapeUnsafe(`${by} (fencing ${id})`);
}

export function sayFailed(record: FencingRecord): string {
  const { id, phase, why, isAlive, purpose, retries, onSent } = record;
  if (isAlive) return `it gives a sign of life after power off was sent (fencing ${id})`;
  const ends = purpose === 'rehearse' ? 'it is not tried again' : 'a person must look';
  const isTriedAgain = purpose === 'fence' && retries < RETRY_AFTER_MS.length && onSent.length === 0;
  const then = phase === 'failed' && isTriedAgain ? 'it is tried again' : ends;
  return escapeUnsafe(`off is not proven${why === null ? '' : ` (${sayWhy(why)})`}; ${then} (fencing ${id})`);
}

export const sayFreed = (id: string): string => `its pods and volumes are free (fencing ${id})`;
export const sayBack = (id: string): string => `Ready with another boot; the fencing is over (fencing ${id})`;
/** With the same boot, it was not seen to live while it carried the taint. */
export function sayLife(id: string, sign: string): string {
  const taint = sign === 'same-boot' ? '' : ': its taint is being removed';
  return escapeUnsafe(`it lives after it was proven off (${sign})${taint} (fencing ${id})`);
}
