import type { OrderAnswer } from '../core/guard/decision.ts';
import type { ReleaseScope } from '../core/guard/observation.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import type { Rehearsed } from '../core/guard/rehearsal.ts';
import { sayOrderAnswer } from './guard-gate.ts';
import { saidOf } from './phrases.ts';

/** How an order of a person ended, for that person. */

export function sayAnswered(answer: OrderAnswer, leader: string, verb: string): string {
  const fencing = answer.isAccepted && answer.fencing !== null ? `, as fencing ${answer.fencing}` : '';
  const rest = answer.isAccepted && verb === 'pause' ? PAUSE_LEAVES : '';
  return `${leader}: ${sayOrderAnswer(answer)}${fencing}${rest}`;
}
const PAUSE_LEAVES =
  ': nothing is fenced anew, and no further off is sent; an off that was already sent takes effect, and a machine that is' +
  ' proven off is drained and switched on: see nodewarden guard status';

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

export const isRehearsed = ({ phase, why }: Pick<FencingRecord, 'phase' | 'why'>): boolean =>
  phase === 'closed' && why === ('rehearsed' satisfies Rehearsed);

/** What a rehearsal has shown, at its end. */
export function sayRehearsal(record: Pick<FencingRecord, 'node' | 'phase' | 'why' | 'level' | 'plan'>): string {
  const { node, phase, why, level, plan } = record;
  const devices = (plan.levels[level] ?? []).join(' and ');
  if (isRehearsed(record)) return `${node.name}: proven: ${devices} switched this machine, and no other one`;
  const shown = saidOf(LEFT, phase) ?? saidOf(NOT_SHOWN, why) ?? `it ended ${phase} (${why ?? 'no reason'})`;
  return `${node.name}: not proven by ${devices}: ${shown}`;
}
const LEFT: { readonly [phase: string]: string } = {
  'not-back': 'the machine is not back since it was switched on: look at it',
  'left-off': 'its Node was deleted, and its devices are left as they are: the machine may be off, look at it',
};
const NOT_SHOWN: { readonly [code: string]: string } = {
  'not-alone': 'another node fell silent or booted with it: a device cuts more than this machine',
  'not-known':
    'another node has given no sign of life since, and has no lease, was not heard of before either, or its Node was deleted, so that nobody can tell whether it was cut: look at it, then rehearse again',
  'beside-another':
    'another node was fenced or rehearsed at the same time, so that nobody can tell which device cut which: rehearse it again',
  'not-watched': 'the guard that leads now did not see all of it: rehearse it again',
  alive: 'the machine did not lose its power: see guard history for what its devices said',
  'life-after-proof': 'its devices said off, and the machine ran on: they are not believed any more',
  'not-proven': 'its devices did not say off',
  silent: 'a device did not answer',
  'too-slow': 'a device answers too late for a proof',
  'never-on': 'a device has never said on, so its off proves nothing',
  'not-cordoned': 'it was uncordoned before it was cut',
  'not-drained': 'pods came to it before it was cut',
  'node-deleted': 'its Node was deleted before it was cut',
  'too-late': 'the guard that took the order did not come to it: give it again',
  'no-lease': 'its lease was deleted, so that nobody could tell whether it lived',
  life: 'it booted, or renewed its lease, before it was cut',
};
const NOT_FOLLOWED: { readonly [why: string]: string } = {
  absent:
    'there is no record of the rehearsal: it was not stored, so that nothing of it is done, or somebody removed it',
  unread: 'what becomes of the rehearsal is not known: its record cannot be read',
  waits: 'the rehearsal has not gone on for half an hour',
};
export const sayNotFollowed = (why: string): string =>
  `${saidOf(NOT_FOLLOWED, why) ?? why}; see nodewarden guard history and nodewarden guard explain`;
