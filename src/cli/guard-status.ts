import { Command } from 'commander';
import { isGuardReport } from '../guard/report.ts';
import { createClock } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { askDaemon, watchDaemon } from '../serve/ask.ts';
import { failGuard, guardSocketOf, OTHER_GUARD } from './guard-answer.ts';
import { guardStatusText } from './guard-status-text.ts';
import { clean, type Format, formatOption, printAs, standardPaint } from './print.ts';

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
      process.exitCode = await (options.watch ? watch : once)(options, createClock());
    });
}

async function once({ output, ...options }: Options, clock: Clock): Promise<number> {
  const config = options.config ?? null;
  const socket = guardSocketOf(config);
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') return failGuard(asked, socket, config);
  const { answer } = asked;
  if (!isGuardReport(answer)) return failGuard(OTHER_GUARD, socket, config);
  printAs(output, answer, (paint) => guardStatusText(answer, paint));
  return answer.leader.holder === null ? NO_LEADER : 0;
}

/** A report every second. A terminal is redrawn; other outputs get the reports one after another. */
function watch({ output, ...options }: Options, clock: Clock): Promise<number> {
  const config = options.config ?? null;
  const socket = guardSocketOf(config);
  const paint = standardPaint();
  let linesUp = 0;
  return new Promise((resolve) => {
    const end = (status: number): void => {
      stop();
      resolve(status);
    };
    const stop = watchDaemon(socket, { ask: 'watch' }, clock, (asked) => {
      if (asked.kind !== 'answer') return end(failGuard(asked, socket, config));
      const { answer } = asked;
      if (!isGuardReport(answer)) return end(failGuard(OTHER_GUARD, socket, config));
      if (output === 'json') {
        process.stdout.write(`${clean(JSON.stringify(answer))}\n`);
        return;
      }
      const text = guardStatusText(answer, paint);
      process.stdout.write(process.stdout.isTTY === true && linesUp > 0 ? `\x1b[${linesUp}A\x1b[J${text}` : text);
      linesUp = text.split('\n').length - 1;
    });
    process.once('SIGINT', () => end(0));
  });
}
