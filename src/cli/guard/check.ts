import { Argument, Command } from 'commander';
import { DEFAULT_GUARD_FILE, loadGuard } from '../../config/guard/load.ts';
import { sayTenths } from '../../core/units/duration.ts';
import { sayProblem } from '../../document/problem.ts';
import { createAgents } from '../../guard/agents.ts';
import type { CheckedDevice, GuardCheck } from '../../guard/check.ts';
import { createClock } from '../../host/clock.ts';
import type { CheckFinding } from '../../words/guard-check.ts';
import { counted } from '../../words/phrases.ts';
import { clean, type Format, formatOption, type Paint, printAs, sayWhen, table } from '../print.ts';
import { withApi } from './api.ts';

type Options = { readonly config?: string; readonly output: Format };

const BLOCKING = 1;
const BAD_CONFIG = 2;
/** Agents are programs in Python, which start slowly on a busy machine. */
const FIRST_METADATA_MS = 20_000;
const HELP = `
Examples:
  nodewarden guard check
  nodewarden guard check w3 w4

It queries the API server, and asks each device for its status, with its secrets. It changes nothing.
Exit status: 0 when nothing is blocking, 1 when something is, 2 for an invalid configuration or a usage error.`;

export function guardCheckCommand(): Command {
  return new Command('check')
    .description('Check the configuration against the live cluster and its devices')
    .addArgument(new Argument('[node...]', 'Only the devices of these nodes'))
    .option('-c, --config <file>', `Configuration file (default: ${DEFAULT_GUARD_FILE})`)
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (only: readonly string[], { config, output }: Options) => {
      process.exitCode = await check(config ?? null, only, output);
    });
}

async function check(file: string | null, only: readonly string[], output: Format): Promise<number> {
  let settings = { deadlineMs: FIRST_METADATA_MS, secretDirectory: '/nonexistent' };
  const agents = createAgents({ clock: createClock(), settings: () => settings });
  const { effective, problems, warnings } = await loadGuard(file, agents.metadata);
  for (const problem of problems) process.stderr.write(`${clean(sayProblem(problem))}\n`);
  if (effective === null) return BAD_CONFIG;
  settings = { deadlineMs: effective.core.deadlineMs, secretDirectory: effective.secretDirectory };
  const { checkGuard } = await import('../../guard/check.ts');
  const checked = await withApi(effective.kubernetes.kubeconfig, ({ connection }) =>
    checkGuard({ api: connection, agents, effective, only }),
  );
  const findings = [
    ...checked.findings,
    ...warnings.map(
      (problem): CheckFinding => ({ kind: 'warning', code: 'config', text: sayProblem(problem), mend: null }),
    ),
  ];
  const report = { schema: 1, dryRun: effective.core.dryRun, hash: effective.hash, ...checked, findings };
  printAs(output, report, (paint) => checkText(report, paint));
  return findings.some(({ kind }) => kind === 'blocking') ? BLOCKING : 0;
}

const GROUPS = [
  { kind: 'blocking', heading: 'blocking', colour: 'red' },
  { kind: 'warning', heading: 'warnings', colour: 'yellow' },
] as const;

function checkText({ devices, isKeptKnown, findings }: GuardCheck, paint: Paint): string {
  const rows = devices.map((device) => rowOf(device, isKeptKnown));
  const asked = rows.length === 0 ? '' : table(['NODE', 'LEVEL', 'METHOD', 'SAYS', 'TOOK', 'REHEARSED'], rows);
  const groups = GROUPS.map(({ kind, heading, colour }) => {
    const some = findings.filter((finding) => finding.kind === kind);
    if (some.length === 0) return '';
    return `\n${paint(colour, heading)}\n${some.map((finding) => findingText(finding, paint)).join('')}`;
  });
  const count = findings.filter(({ kind }) => kind === 'blocking').length;
  const verdict =
    count === 0
      ? paint('green', 'nothing blocks the guard')
      : paint('red', `${counted(count, 'finding')} would block the guard`);
  return `${asked}${groups.join('')}\n${verdict}; ${counted(devices.length, 'device')} asked\n`;
}

function rowOf(
  { node, level, method, says, tookMs, rehearsedWallMs }: CheckedDevice,
  isKeptKnown: boolean,
): readonly string[] {
  const never = isKeptKnown ? 'never' : 'unknown';
  const rehearsed = rehearsedWallMs === null ? never : sayWhen(rehearsedWallMs);
  return [clean(node), level === null ? 'isolation' : String(level), clean(method), says, sayTenths(tookMs), rehearsed];
}

function findingText({ code, text, mend }: CheckFinding, paint: Paint): string {
  const todo = mend === null ? '' : `    ${paint('dim', clean(mend))}\n`;
  return `  ${paint('bold', code)}: ${clean(text)}\n${todo}`;
}
