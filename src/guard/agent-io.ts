import type { AgentAction, AgentEnd, AgentOutput } from '../core/guard/agent-run.ts';
import type { PowerState } from '../core/guard/record.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { sayAgentEnd } from '../words/guard-effects.ts';

const CONTROL = /\p{Cc}/u;
/** What the agents' library trims off a value (Python's strip), or one pair of quotes at its ends. */
const TRIMMED = /^[\s"]|[\s"]$/;

/**
 * The standard input of an agent (guard.md 8.1): `name=value` lines, the action last. Names that the agent does not know are
 * refused here, because it would print such a line, with its value, to stderr and syslog. The detail names no value.
 */
export function agentInput(
  action: AgentAction,
  values: { readonly [name: string]: string },
  knownNames: ReadonlySet<string>,
): Reading<string> {
  const lines: string[] = [];
  for (const [name, value] of Object.entries(values)) {
    const refuse = (detail: string): Reading<string> => unknown('malformed', name, detail);
    if (name === 'action') return refuse('the action is not a parameter');
    if (!knownNames.has(name)) return refuse('the agent has no such parameter');
    if (CONTROL.test(name) || CONTROL.test(value)) return refuse('it contains a control character, such as a line end');
    lines.push(`${name}=${TRIMMED.test(value) ? `"${value}"` : value}`);
  }
  return known([...lines, `action=${action}`, ''].join('\n'));
}

/** What a `status` prints, by its exit status. Agents have 1 for every error. */
const SAID: { readonly [code: number]: { readonly word: string; readonly power: PowerState } } = {
  0: { word: 'ON', power: 'on' },
  2: { word: 'OFF', power: 'off' },
};
const WORDS: readonly string[] = Object.values(SAID).map(({ word }) => word);

/** What an ended `status` says of the power (guard.md 8.2): exit status and word must agree, and nothing be odd about the run. */
export function powerIn(end: AgentEnd, where: string): Reading<PowerState> {
  const ran = wholeRun(end, where);
  if (!ran.known) return ran;
  const said = SAID[ran.value.code];
  const words = new Set(ran.value.stdout.split(/[\s:]+/).filter((word) => WORDS.includes(word)));
  if (said !== undefined && words.size === 1 && words.has(said.word)) return known(said.power);
  return unknown('malformed', where, sayAgentEnd(end, [...words]));
}

/** Whether an ended `off` or `on` says that it was done. It proves nothing. */
export function doneIn(end: AgentEnd, where: string): Reading<true> {
  const ran = wholeRun(end, where);
  if (!ran.known) return ran;
  return ran.value.code === 0 ? known(true) : unknown('malformed', where, sayAgentEnd(end));
}

/** The document that an ended `metadata` printed. */
export function metadataIn(end: AgentEnd, where: string): Reading<string> {
  const ran = wholeRun(end, where);
  if (!ran.known) return ran;
  return ran.value.code === 0 ? known(ran.value.stdout) : unknown('malformed', where, sayAgentEnd(end));
}

function wholeRun(end: AgentEnd, where: string): Reading<AgentEnd & { kind: 'exited' }> {
  if (end.kind === 'not-started') return unknown('unreadable', where, sayAgentEnd(end));
  if (end.kind === 'timed-out') return unknown('timed-out', where, sayAgentEnd(end));
  if (end.kind === 'signalled' || end.isCut || end.left.length > 0)
    return unknown('malformed', where, sayAgentEnd(end));
  return known(end);
}

const REDACTED = '[secret]';

/** The output with each secret replaced, also as programs write it: quoted for a shell, escaped, in a URL, in base64. */
export function redactOutput({ stdout, stderr, isCut }: AgentOutput, secrets: readonly string[]): AgentOutput {
  return { stdout: redact(stdout, isCut, secrets), stderr: redact(stderr, isCut, secrets), isCut };
}

function redact(text: string, isCut: boolean, secrets: readonly string[]): string {
  const forms = [...new Set(secrets.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
  const [longest] = forms;
  if (longest === undefined) return text;
  const redacted = text.replace(new RegExp(forms.map(literally).join('|'), 'g'), REDACTED);
  // Where the output was cut off, the beginning of one may stand.
  return isCut ? redacted.slice(0, Math.max(0, redacted.length - longest.length + 1)) : redacted;
}

function formsOf(secret: string): readonly string[] {
  const base64 = Buffer.from(secret).toString('base64');
  const xml = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [
    secret,
    secret.replaceAll("'", `'"'"'`),
    secret.replaceAll('\\', '\\\\').replaceAll("'", "\\'"),
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    base64,
    xml,
    xml.replaceAll('"', '&quot;'),
  ];
}

const literally = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
