import { Command } from 'commander';
import { isGuardReport } from '../guard/shown.ts';
import { createClock } from '../host/clock.ts';
import { askGuard, failGuard, GUARD_USER, guardSocketOf, OTHER_GUARD } from './guard-answer.ts';
import { guardStatusText } from './guard-status-text.ts';
import { type Format, formatOption, printAs, standardPaint } from './print.ts';
import { watchReports } from './watch-reports.ts';

type Options = { readonly config?: string; readonly output: Format; readonly watch?: true };

const NO_LEADER = 3;

export function guardStatusCommand(): Command {
  return new Command('status')
    .description('Show who leads, what is silent, what is held, and open fencings')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('-w, --watch', 'Refresh every second until interrupted')
    .addOption(formatOption())
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden guard status --watch\n\nExit status: 0, or 3 when no guard runs here or nobody leads.',
    )
    .action(async (options: Options) => {
      process.exitCode = await (options.watch ? watch : once)(options);
    });
}

async function once({ output, config }: Options): Promise<number> {
  const answer = await askGuard(config ?? null, { ask: 'status' }, isGuardReport);
  if (typeof answer === 'number') return answer;
  printAs(output, answer, (paint) => guardStatusText(answer, paint));
  return answer.leader.holder === null ? NO_LEADER : 0;
}

function watch({ output, ...options }: Options): Promise<number> {
  const config = options.config ?? null;
  const socket = guardSocketOf(config);
  const paint = standardPaint();
  return watchReports(socket, createClock(), {
    output,
    user: GUARD_USER,
    read: (asked) => {
      const answer = asked.kind === 'answer' ? asked.answer : null;
      return isGuardReport(answer) ? answer : failGuard(asked.kind === 'answer' ? OTHER_GUARD : asked, socket, config);
    },
    text: (report) => guardStatusText(report, paint),
  });
}
