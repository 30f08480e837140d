import { Command } from 'commander';
import { createClock } from '../host/clock.ts';
import { createHostFacts } from '../host/hardware.ts';
import type { Clock } from '../ports.ts';
import { askDaemon, watchDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { fail, OTHER_VERSION, ofAnswer, ofAnswers } from './daemon-answer.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { clean, type Format, formatOption, jsonText, standardPaint } from './print.ts';
import { hostText, statusText } from './status-text.ts';

type Options = {
  readonly config?: string;
  readonly output: Format | 'prometheus';
  readonly watch?: true;
  readonly verbose?: true;
};

export function statusCommand(): Command {
  return new Command('status')
    .description('Show signals against thresholds, conditions and recent decisions of the agent')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('-w, --watch', 'Refresh every second until interrupted')
    .option('-v, --verbose', 'Include facts about the host')
    .addOption(formatOption('prometheus'))
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden status --watch\n\nExit status: 0, or 3 when the daemon is not running.',
    )
    .action(async (options: Options, command: Command) => {
      if (options.watch && options.output === 'prometheus')
        command.error("error: '-o prometheus' is one sample: leave out '--watch'");
      const clock = createClock();
      const socket = daemonPathsOf(options.config ?? null).socket;
      process.exitCode = await (options.watch ? watch : once)(socket, options, clock);
    });
}

async function once(socket: string, options: Options, clock: Clock): Promise<number> {
  const of = { socket, config: options.config };
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') return fail(asked, of);
  const report = asked.answer;
  if (!isReport(report)) return fail(OTHER_VERSION, of);
  if (options.output === 'prometheus') {
    // Its library loads an HTTP client, which no other command needs.
    const { metricsText } = await import('../serve/metrics.ts');
    const said = await ofAnswers(of, () => metricsText(report));
    process.stdout.write(said ?? '');
    return said === null ? 1 : 0;
  }
  const host = options.verbose ? await createHostFacts(clock)() : null;
  if (options.output === 'json') {
    const facts = host === null ? {} : { host: host.known ? host.value : host };
    process.stdout.write(jsonText({ ...report, ...facts }));
    return 0;
  }
  const text = ofAnswer(of, () => statusText(report, standardPaint()));
  if (text === null) return 1;
  const said = host === null ? '' : host.known ? `\n${hostText(host.value)}` : `\nhost        ${host.detail}\n`;
  process.stdout.write(`${text}${said}`);
  return 0;
}

/** A report every second. A terminal is redrawn; other outputs get the reports one after another. */
function watch(socket: string, options: Options, clock: Clock): Promise<number> {
  const of = { socket, config: options.config };
  const paint = standardPaint();
  let linesUp = 0;
  return new Promise((resolve) => {
    const end = (status: number): void => {
      stop();
      resolve(status);
    };
    const stop = watchDaemon(socket, { ask: 'watch' }, clock, (asked) => {
      const report = asked.kind === 'answer' ? asked.answer : null;
      if (!isReport(report)) return end(fail(asked.kind === 'answer' ? OTHER_VERSION : asked, of));
      if (options.output === 'json') {
        process.stdout.write(`${clean(JSON.stringify(report))}\n`);
        return;
      }
      const text = ofAnswer(of, () => statusText(report, paint));
      if (text === null) return end(1);
      process.stdout.write(process.stdout.isTTY === true && linesUp > 0 ? `\x1b[${linesUp}A\x1b[J${text}` : text);
      linesUp = text.split('\n').length - 1;
    });
    process.once('SIGINT', () => end(0));
  });
}
