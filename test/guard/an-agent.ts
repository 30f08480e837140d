import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { GuardMethod } from '../../src/config/guard/method.ts';
import type { Reading } from '../../src/core/reading.ts';
import { type AgentNeeds, type Agents, createAgents } from '../../src/guard/agents.ts';
import { clock, until } from '../host/test-cgroup.ts';
import { aTree } from '../host/tree.ts';

/** Reads its whole input, as agents do, and knows its metadata; what follows is its `status`, `off` and `on`. */
export const PREAMBLE = `#!/bin/bash
cd "$(dirname "$0")" || exit 1
input=$(cat; echo .); input=\${input%.}
value() { sed -n "s/^$1=//p" <<<"$input"; }
action=$(value action)
if [ "$action" = metadata ]; then
  echo >>metadata-asked
  echo '<resource-agent><parameters>'
  for name in plug ip password username; do echo "<parameter name='$name'/>"; done
  echo '</parameters></resource-agent>'
  exit 0
fi
`;

export type Bench = {
  readonly agents: Agents;
  readonly directory: string;
  readonly method: (agent: string, rest?: Partial<GuardMethod>) => GuardMethod;
  readonly read: (file: string) => string;
  /** Waits for a file that an agent writes. */
  readonly appears: (file: string) => Promise<string>;
};

/** Agents made of shell scripts, beside the secrets `password` and others given. */
export function aBench(
  scripts: { readonly [agent: string]: string },
  rest: Partial<AgentNeeds> & {
    readonly deadlineMs?: number;
    readonly secrets?: { readonly [name: string]: string };
  } = {},
): Bench {
  const { deadlineMs = 30_000, secrets = {}, ...needs } = rest;
  const directory = aTree({});
  for (const [name, script] of Object.entries(scripts)) anExecutable(join(directory, name), PREAMBLE + script);
  const secretDirectory = join(directory, 'secrets');
  mkdirSync(secretDirectory, { mode: 0o700 });
  for (const [name, text] of Object.entries(secrets)) writeFileSync(join(secretDirectory, name), text, { mode: 0o600 });
  const agents = createAgents({
    clock,
    settings: () => ({ deadlineMs, secretDirectory }),
    agentDirectory: directory,
    ...needs,
  });
  return {
    agents,
    directory,
    method: (agent, method) => ({ key: `test of=${agent}`, agent, parameters: {}, secrets: {}, ...method }),
    read: (file) => readFileSync(join(directory, file), 'utf8'),
    appears: async (file) => {
      const content = (): string => {
        try {
          return readFileSync(join(directory, file), 'utf8');
        } catch {
          return '';
        }
      };
      await until(() => content() !== '');
      return content();
    },
  };
}

export function anExecutable(path: string, text: string): void {
  writeFileSync(path, text);
  chmodSync(path, 0o755);
}

/** A zombie, whose parent is then pid 1, runs no more. */
export function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

/** Why a reading is unknown; throws if it is known. */
export function detailOf(reading: Reading<unknown>): string {
  if (reading.known) throw new Error(`known: ${JSON.stringify(reading.value)}`);
  return reading.detail;
}
