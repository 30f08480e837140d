import type { AgentEnd } from '../core/guard/agent-run.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayNames } from './phrases.ts';

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
