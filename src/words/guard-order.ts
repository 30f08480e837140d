import type { OrderAnswer } from '../core/guard/decision.ts';
import type { ReleaseScope } from '../core/guard/observation.ts';
import { sayOrderAnswer } from './guard-gate.ts';

/** How an order of a person ended, for that person. */

export function sayAnswered(answer: OrderAnswer, leader: string): string {
  const fencing = answer.isAccepted && answer.fencing !== null ? `, as fencing ${answer.fencing}` : '';
  return `${leader}: ${sayOrderAnswer(answer)}${fencing}`;
}

export const NO_LEADER =
  'no guard leads in this cluster: nothing was written; see nodewarden guard status on its machines';

export const sayDryRun = (leader: string): string =>
  `${leader} leads in dry run, and carries out no orders: nothing was written; it is armed by dryRun: false`;

export const sayNoSuchNode = (node: string): string => `refused: there is no Node ${node}: nothing was written`;

export const sayNoAnswer = (leader: string, isWithdrawn: boolean): string =>
  isWithdrawn
    ? `${leader} has not answered within 30 s; the order was taken back, and will not be carried out`
    : `${leader} has not answered within 30 s, and the order could not be taken back: it may still be carried out`;

export const sayNotGiven = (what: string, detail: string): string => `cannot ${what}: ${detail}`;

/** `all`, `label=value` or the name of a node. Null: none of them. */
export function readScope(text: string): ReleaseScope | null {
  if (text === 'all') return { kind: 'cluster' };
  const [, label, value] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (label !== undefined && value !== undefined) return { kind: 'domain', label, value };
  return text === '' ? null : { kind: 'node', name: text };
}
