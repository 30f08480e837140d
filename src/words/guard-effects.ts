import { sayBecause } from './guard-gate.ts';
import { saidOf } from './phrases.ts';

/** What the guard writes for people into the cluster. */

/** The message of the condition NodewardenFenced. */
export const sayFenced = (id: string): string => `proven off by nodewarden guard, and out of service (fencing ${id})`;

/** What went wrong beside a fencing, for the log; `node` null: it is about none. */
export function sayEffect(what: EffectFault, node: string | null, detail: string): string {
  return `${node === null ? '' : `${node}: `}${FAULTS[what]}: ${detail}`;
}
export type EffectFault = 'not-stored' | 'not-kept' | 'not-pruned' | 'condition-unsaid' | 'event-unsaid' | 'bug';
const FAULTS: { readonly [F in EffectFault]: string } = {
  'not-stored': 'its record is not known to be stored, so nothing was done',
  'not-kept': 'what must outlive this leader could not be stored',
  'not-pruned': 'an old record could not be removed',
  'condition-unsaid': 'its condition NodewardenFenced could not be written',
  'event-unsaid': 'an event on it could not be written',
  bug: 'this is a bug of the guard, and nothing was done',
};

/** Why an act was not begun though its record was stored. `code`: as `whyNotNow` gives it. */
export const sayNotNow = (code: string): string => `meanwhile: ${saidOf(NOT_NOW, code) ?? sayBecause(code)}`;
const NOT_NOW: { readonly [code: string]: string } = {
  life: 'it has shown life',
  'not-silent-enough': 'it has shown life',
  'node-deleted': 'its Node was deleted',
  'record-gone': 'its record was removed',
  paused: 'a person has paused the guard',
  held: 'it is held',
  'devices-changed': 'its devices are configured otherwise by now',
  'not-cordoned': 'it was uncordoned',
  'not-drained': 'pods have come to it',
  'foreign-taint': 'somebody else has set it out of service',
};
