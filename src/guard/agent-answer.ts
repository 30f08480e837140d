import type { AgentEnd } from '../core/guard/agent-run.ts';
import type { PowerState } from '../core/guard/record.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { sayAgentEnd } from '../words/guard-agent.ts';

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
