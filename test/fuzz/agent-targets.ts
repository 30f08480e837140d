import type { AgentEnd } from '../../src/core/guard/agent-run.ts';
import { agentInput, powerIn, redactOutput } from '../../src/guard/agent-io.ts';
import { must, read } from './oracle.ts';
import { example, type Target } from './target.ts';

const printed = (stdout: string, code: number): AgentEnd => ({
  kind: 'exited',
  code,
  stdout,
  stderr: stdout,
  isCut: false,
  left: [],
});

/** What an agent printed, behind its exit status and a line end. */
const answer: Target = {
  name: 'agent-answer',
  syntax: 'text',
  examples: () => [
    example('Status: ON\n', '0\n'),
    example('Status: OFF\n', '2\n'),
    example('2026-11-26 10:32:36,707 ERROR: Unable to connect/login to fencing device\n\n', '1\n'),
    example("ERROR: Please use '-h' for usage\n", '1\n'),
  ],
  open: () => (input) => {
    const text = input.toString('utf8');
    const end = text.indexOf('\n');
    const code = Number(text.slice(0, end));
    const stdout = text.slice(end + 1);
    const power = powerIn(printed(stdout, code), 'bmc ip=10.0.9.10');
    read([power], 'a power state');
    if (!power.known) return false;
    const [word, other, status] = power.value === 'on' ? ['ON', 'OFF', 0] : ['OFF', 'ON', 2];
    const says = (one: string): boolean => new RegExp(`(^|[\\s:])${one}($|[\\s:])`).test(stdout);
    must(code === status && says(word) && !says(other), 'a power that was not said', () => JSON.stringify(text));
    return true;
  },
};

const SECRET = 'a"\'b\\';

/** A value that goes in, and output that holds the secret and ends anywhere. */
const values: Target = {
  name: 'agent-values',
  syntax: 'text',
  examples: () => [example('10.0.9.10'), example(' "x" '), example('a=b#c'), example(`x${SECRET}y`)],
  open: () => (input) => {
    const value = input.toString('utf8');
    const shown = redactOutput({ stdout: `${value}${SECRET}${value}`, stderr: '', isCut: false }, [SECRET]).stdout;
    must(!shown.includes(SECRET), 'a secret that is shown', () => JSON.stringify(value));
    const text = agentInput('off', { ip: value }, new Set(['ip']));
    read([text], 'the input of an agent');
    if (!text.known) return false;
    const lines = text.value.split('\n');
    must(lines.length === 3 && lines[1] === 'action=off', 'another action', () => JSON.stringify(text.value));
    return true;
  },
};

export const AGENT_TARGETS: readonly Target[] = [answer, values];
