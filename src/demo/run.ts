import { createClock } from '../host/clock.ts';
import { clearLeftovers, openDemoNode } from './node.ts';
import { tellReally } from './real.ts';
import type { Terminal } from './screen.ts';
import { tellVirtually } from './virtual.ts';

type DemoOptions = {
  /** After the story, stay until `stop`. */
  readonly keep: boolean;
  /** Virtual time even where the real demo could run. */
  readonly simulated: boolean;
  readonly terminal: Terminal;
};

/**
 * Shows an eviction end to end on real processes in real cgroups or, if that is not possible, in virtual time, and says so
 * first. True only if the story holds and nothing is left behind. The last line names `real` or `simulated`.
 */
export async function runDemo(options: DemoOptions, stop: AbortSignal): Promise<boolean> {
  const { terminal } = options;
  const clock = createClock();
  const say = (line: string): void => terminal.write(`${line}\n`);
  for (const sentence of await clearLeftovers(clock)) say(sentence);
  const node = options.simulated ? null : await openDemoNode(clock);
  if (node?.known) return await tellReally({ ...options, clock, node: node.value }, stop);
  const why = node === null ? 'as requested' : node.detail;
  say(terminal.paint('bold', `Simulated, in virtual time: ${why}.`));
  if (node !== null) say('The real demo needs root and writable memory and pids cgroups (version 1 or 2).');
  say("The numbers are made up; the decisions are the agent's own, by the same rules.");
  const ending = await tellVirtually({ terminal, clock }, stop);
  for (const line of ending.lines) say(line);
  return ending.isProven;
}
