import { Command, Option } from 'commander';
import { loadConfig } from '../config/load.ts';
import { createClock } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { joinDecisions } from '../record/entry.ts';
import { observedStops } from '../record/observed-stops.ts';
import { readRecord } from '../record/record-file.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { askLook, type Failure, fail, OTHER_VERSION, ofAnswers } from './asked.ts';
import { placesOf } from './places.ts';
import { clean, jsonText, painter, standardPaper } from './print.ts';
import { rehearseReport } from './rehearse-report.ts';
import { type PhaseForm, rehearseText } from './rehearse-text.ts';
import { stopTimeouts } from './stop-timeouts.ts';

type Options = { readonly config?: string; readonly output: 'text' | 'json' };

const CANNOT_FINISH = 1;
const CANNOT_ASK = 3;
/** Where the configuration cannot be read by who asks. */
const DEFAULT_MANIFESTS = '/etc/nodewarden/pods.d';
const HELP = `
Examples:
  nodewarden rehearse shutdown                                       the phases, and who cannot finish in its time
  nodewarden rehearse shutdown -o json | jq -r '.cannotFinish[]'     only their names

How long a pod needs is known from its earlier stops in the record. Without one, what TimeoutStopSec of its unit (where it
is not systemd's default) or its terminationGracePeriodSeconds says is shown, and is no reason to end with 1.
Exit status: 0 when nobody is known not to finish, also when shutdown is off; 1 when somebody is known not to finish, 2 for a mistake in
the command line, or 3 when the daemon does not run or cannot be asked.`;

export function rehearseCommand(): Command {
  const shutdown = new Command('shutdown')
    .description(
      'the phases for the pods that run now, who cannot finish in its time, and what to set; changes nothing',
    )
    .option('-c, --config <file>', 'configuration that names the socket, the manifests and the record')
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['text', 'json']).default('text'))
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { socket } = placesOf(options.config ?? null);
      process.exitCode = (await ofAnswers(socket, () => run(options, socket, createClock()))) ?? CANNOT_ASK;
    });
  return new Command('rehearse')
    .description('plays what has not happened yet with what runs now; changes nothing')
    .addHelpText('after', HELP)
    .addCommand(shutdown);
}

async function run({ config: file, output }: Options, socket: string, clock: Clock): Promise<number> {
  const { stateDirectory } = placesOf(file ?? null);
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') return cannotAsk(asked, socket);
  const status = asked.answer;
  if (!isReport(status)) return cannotAsk(OTHER_VERSION, socket);
  const look = await askLook(socket, clock);
  if ('kind' in look) return cannotAsk(look, socket);
  const { node, observation, config } = look;
  const { pods } = observation;
  if (!pods.known)
    return cannotAsk({ kind: 'failed', detail: `the pods are not known: ${pods.where}: ${pods.detail}` }, socket);
  const record = readRecord(stateDirectory);
  for (const why of record.unreadable) process.stderr.write(`not read: ${clean(why)}\n`);
  const { effective } = loadConfig(file ?? null);
  const report = rehearseReport({
    node,
    atWallMs: observation.wallMs,
    config,
    pods: pods.value,
    status: status.shutdown,
    findings: status.findings,
    observed: observedStops(joinDecisions(record.entries)),
    timeouts: await stopTimeouts(effective?.podManifests ?? DEFAULT_MANIFESTS, clock),
  });
  const form: PhaseForm = effective?.shutdown.byPodPriority.length === 0 ? 'durations' : 'list';
  const paper = standardPaper();
  if (output === 'json') paper.write(jsonText(report));
  else paper.write(rehearseText(report, form, painter(paper.hasColour)));
  return report.cannotFinish.length > 0 ? CANNOT_FINISH : 0;
}

/** 1 would say that somebody cannot finish. */
function cannotAsk(asked: Failure, socket: string): number {
  fail(asked, socket);
  return CANNOT_ASK;
}
