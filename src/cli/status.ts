import { Command } from 'commander';
import { createClock } from '../host/clock.ts';
import { createHostFacts } from '../host/hardware.ts';
import type { Clock } from '../ports.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { fail, OTHER_VERSION, ofAnswer, ofAnswers } from './daemon-answer.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { type Format, formatOption, jsonText, standardPaint } from './print.ts';
import { hostText, statusText } from './status-text.ts';
import { watchReports } from './watch-reports.ts';

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
      '\nExample:\n  nodewarden status --watch\n\nExit status: 0, or 3 when the agent is not running.',
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

function watch(socket: string, options: Options, clock: Clock): Promise<number> {
  const of = { socket, config: options.config };
  const paint = standardPaint();
  return watchReports(socket, clock, {
    output: options.output === 'json' ? 'json' : 'text',
    read: (asked) => {
      const report = asked.kind === 'answer' ? asked.answer : null;
      return isReport(report) ? report : fail(asked.kind === 'answer' ? OTHER_VERSION : asked, of);
    },
    text: (report) => ofAnswer(of, () => statusText(report, paint)),
  });
}
