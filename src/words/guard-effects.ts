import type { AgentEnd } from '../core/guard/agent-run.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayBecause } from './guard-gate.ts';
import { saidOf, sayNames } from './phrases.ts';

/** What the guard writes for people into the cluster. */

/** The message of the condition NodewardenFenced. */
export const sayFenced = (id: string): string => `proven off by nodewarden guard, and out of service (fencing ${id})`;

/** What went wrong beside a fencing, for the log; `node` null: it is about none. */
export function sayEffect(what: EffectFault, node: string | null, detail: string): string {
  return `${node === null ? '' : `${node}: `}${FAULTS[what]}: ${detail}`;
}
type EffectFault = 'not-stored' | 'not-kept' | 'not-pruned' | 'condition-unsaid' | 'event-unsaid' | 'bug';
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
  'clock-jump': 'the clock of the guard has jumped',
  'not-listed': 'its Node is not listed any more',
  'record-gone': 'its record was removed',
  paused: 'a person has paused the guard',
  held: 'it is held',
  'devices-changed': 'its devices are configured otherwise by now',
  'not-cordoned': 'it was uncordoned',
  'not-drained': 'pods have come to it',
  'foreign-taint': 'somebody else has set it out of service',
};

/** Of its last line, and of all. */
const LINE_CHARACTERS = 200;
const MAX_CHARACTERS = 500;

/** Why a run of an agent says nothing, with what it said itself; `words`: which of ON and OFF a status printed. */
export function sayAgentEnd(end: AgentEnd, words: readonly string[] = []): string {
  return escapeUnsafe(whatHappened(end, words)).slice(0, MAX_CHARACTERS);
}

function whatHappened(end: AgentEnd, words: readonly string[]): string {
  if (end.kind === 'not-started') return `it was not started: ${end.detail}`;
  const last = lastLine(end.stderr) ?? (words.length > 0 ? null : lastLine(end.stdout));
  return last === null ? whatWasOdd(end, words) : `${whatWasOdd(end, words)}; it said: ${last}`;
}

function whatWasOdd(end: Exclude<AgentEnd, { kind: 'not-started' }>, words: readonly string[]): string {
  if (end.kind === 'timed-out') return 'it did not end within its deadline, and was killed';
  if (end.kind === 'signalled') return `it was ended by ${end.signal}`;
  if (end.left.length > 0) return `it ended, but left running, which was killed if found: ${sayNames(end.left)}`;
  if (end.isCut) return 'it printed far more than an answer';
  if (words.length > 0) return `its exit status ${end.code} does not fit what it printed, ${words.join(' and ')}`;
  return `exit status ${end.code}`;
}

/** Before what the agents' library logs, and after most of its errors. */
const STAMP = /^[-\d]{10} [:,\d]{12} [A-Z]+: /;
const NO_HELP = "Please use '-h' for usage";

function lastLine(text: string): string | null {
  const lines = text.split('\n').map((line) => line.trim().replace(STAMP, ''));
  const line = lines.filter((one) => one !== '' && one !== NO_HELP).at(-1);
  return line === undefined ? null : line.slice(0, LINE_CHARACTERS);
}
