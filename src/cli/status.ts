import { Command, Option } from 'commander';
import { createClock } from '../host/clock.ts';
import { createHostFacts } from '../host/hardware.ts';
import type { Clock } from '../ports.ts';
import { askDaemon, watchDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { fail, OTHER_VERSION, ofAnswer } from './daemon-answer.ts';
import { placesOf } from './paths.ts';
import { clean, jsonText, type Paper, painter, standardPaper } from './print.ts';
import { hostText, statusText } from './status-text.ts';

type Options = {
  readonly config?: string;
  readonly output: 'text' | 'json';
  readonly watch?: true;
  readonly verbose?: true;
};

export function statusCommand(): Command {
  return new Command('status')
    .description('Show signals against thresholds, conditions and recent decisions of the agent')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('-w, --watch', 'Refresh every second until interrupted')
    .option('-v, --verbose', 'Include facts about the host')
    .addOption(new Option('-o, --output <format>', 'Output format').choices(['text', 'json']).default('text'))
    .addHelpText(
      'after',
      '\nExample:\n  nodewarden status --watch\n\nExit status: 0, or 3 when the daemon is not running.',
    )
    .action(async (options: Options) => {
      const clock = createClock();
      const socket = placesOf(options.config ?? null).socket;
      process.exitCode = options.watch
        ? await watch(socket, options, standardPaper(), clock)
        : await once(socket, options, standardPaper(), clock);
    });
}

async function once(socket: string, options: Options, paper: Paper, clock: Clock): Promise<number> {
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') return fail(asked, socket);
  const report = asked.answer;
  if (!isReport(report)) return fail(OTHER_VERSION, socket);
  const host = options.verbose ? await createHostFacts(clock)() : null;
  if (options.output === 'json') {
    const facts = host === null ? {} : { host: host.known ? host.value : host };
    paper.write(jsonText({ ...report, ...facts }));
    return 0;
  }
  const text = ofAnswer(socket, () => statusText(report, painter(paper.hasColour)));
  if (text === null) return 1;
  paper.write(text);
  if (host !== null) paper.write(host.known ? `\n${hostText(host.value)}` : `\nhost        ${host.detail}\n`);
  return 0;
}

/** A report each second. A terminal is drawn over, anything else gets one after the other. */
function watch(socket: string, options: Options, paper: Paper, clock: Clock): Promise<number> {
  const paint = painter(paper.hasColour);
  let linesUp = 0;
  return new Promise((resolve) => {
    const stop = watchDaemon(socket, { ask: 'watch' }, clock, (asked) => {
      const report = asked.kind === 'answer' ? asked.answer : null;
      if (!isReport(report)) {
        stop();
        resolve(fail(asked.kind === 'answer' ? OTHER_VERSION : asked, socket));
        return;
      }
      if (options.output === 'json') {
        paper.write(`${clean(JSON.stringify(report))}\n`);
        return;
      }
      const text = ofAnswer(socket, () => statusText(report, paint));
      if (text === null) {
        stop();
        resolve(1);
        return;
      }
      paper.write(paper.isTerminal && linesUp > 0 ? `\x1b[${linesUp}A\x1b[J${text}` : text);
      linesUp = text.split('\n').length - 1;
    });
    process.once('SIGINT', () => {
      stop();
      resolve(0);
    });
  });
}
