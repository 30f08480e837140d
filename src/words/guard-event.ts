import type { Frees, GateRow } from '../core/guard/decision.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayWhy } from './guard.ts';
import { sayGateRow } from './guard-gate.ts';
import { counted } from './phrases.ts';

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

export function sayDecided({ id, silentMs, order, purpose }: FencingRecord, { pods, attachments }: Frees): string {
  const frees = `${counted(pods.length, 'pod')} and ${counted(attachments.length, 'volume')} would be freed`;
  const silent = `silent for ${sayDuration(Math.round(silentMs / 1_000) * 1_000)}`;
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

export function sayFailed({ id, phase, why, isAlive }: FencingRecord): string {
  if (isAlive) return `it gives a sign of life after power off was sent (fencing ${id})`;
  const then = phase === 'stuck' ? 'a person must look' : 'it is tried again';
  return escapeUnsafe(`off is not proven${why === null ? '' : ` (${sayWhy(why)})`}; ${then} (fencing ${id})`);
}

export const sayFreed = (id: string): string => `its pods and volumes are free (fencing ${id})`;
export const sayBack = (id: string): string => `Ready with another boot; the fencing is over (fencing ${id})`;
export const sayLife = (id: string, sign: string): string =>
  escapeUnsafe(`it lives after it was proven off (${sign}): its taint is removed (fencing ${id})`);
