import { Command } from 'commander';
import { loadConfig } from '../config/load.ts';
import { createClock } from '../host/clock.ts';
import type { Clock } from '../ports.ts';
import { joinDecisions } from '../record/entry.ts';
import { observedStops } from '../record/reading/observed-stops.ts';
import { readRecord } from '../record/reading/record-file.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { type Addressee, askLook, type Failure, fail, OTHER_VERSION, ofAnswers } from './daemon-answer.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { withRights } from './denied.ts';
import { isRecordHung } from './hung-record.ts';
import { clean, type Format, formatOption, printAs } from './print.ts';
import { rehearseReport } from './rehearse-report.ts';
import { type PhaseForm, rehearseText } from './rehearse-text.ts';
import { NO_UNITS, stopTimeouts } from './stop-timeouts.ts';

type Options = { readonly config?: string; readonly output: Format };

const CANNOT_FINISH = 1;
const CANNOT_ASK = 3;
/** Used if the caller cannot read the configuration. */
const DEFAULT_MANIFESTS = '/etc/nodewarden/pods.d';
const HELP = `
Examples:
  nodewarden rehearse shutdown                                       the phases, and which pods cannot finish in time
  nodewarden rehearse shutdown -o json | jq -r '.cannotFinish[]'     only the names of those pods

It changes nothing. The time a pod needs is taken from its earlier stops in the record. Without one, TimeoutStopSec of
its unit (unless it is systemd's default) or its terminationGracePeriodSeconds is shown: what is only declared never
causes status 1. A TimeoutStopSec below the grace period that its manifest sets does: systemd then kills the pod before
its time is over.
Exit status: 0 when no pod is known to miss its time, also when shutdown is off; 1 when one is known to miss it; 2 for a
usage error; 3 when the agent is not running or cannot be queried.`;

export function rehearseCommand(): Command {
  const shutdown = new Command('shutdown')
    .description('Show the shutdown phases, which pods cannot finish in time, and what to set')
    .option('-c, --config <file>', 'Configuration file that names the socket, the manifests and the record')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { socket } = daemonPathsOf(options.config ?? null);
      const of = { socket, config: options.config };
      process.exitCode = (await ofAnswers(of, () => run(options, socket, createClock()))) ?? CANNOT_ASK;
    });
  return new Command('rehearse')
    .description('Simulate a shutdown with the pods that are running now')
    .addHelpText('after', HELP)
    .addCommand(shutdown);
}

async function run({ config: file, output }: Options, socket: string, clock: Clock): Promise<number> {
  const { stateDirectory } = daemonPathsOf(file ?? null);
  const of = { socket, config: file };
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  if (asked.kind !== 'answer') return cannotAsk(asked, of);
  const status = asked.answer;
  if (!isReport(status)) return cannotAsk(OTHER_VERSION, of);
  const look = await askLook(socket, clock);
  if ('kind' in look) return cannotAsk(look, of);
  const { node, observation, config } = look;
  const { pods } = observation;
  if (!pods.known)
    return cannotAsk({ kind: 'failed', detail: `the pods are unknown: ${pods.where}: ${pods.detail}` }, of);
  const record = (await isRecordHung(stateDirectory)) ? null : readRecord(stateDirectory);
  for (const why of record?.unreadable ?? []) process.stderr.write(`not read: ${clean(withRights(why, 'to-read'))}\n`);
  const { effective } = loadConfig(file ?? null);
  const report = rehearseReport({
    node,
    atWallMs: observation.wallMs,
    config,
    pods: pods.value,
    status: status.shutdown,
    findings: status.findings,
    observed: observedStops(joinDecisions(record?.entries ?? []), pods.value),
    // Only in mode standalone may pods be units.
    timeouts:
      effective?.mode === 'kubelet'
        ? NO_UNITS
        : await stopTimeouts(effective?.podManifests ?? DEFAULT_MANIFESTS, clock),
  });
  const form: PhaseForm = effective?.shutdown.byPodPriority.length === 0 ? 'durations' : 'list';
  printAs(output, report, (paint) => rehearseText(report, form, paint));
  return report.cannotFinish.length > 0 ? CANNOT_FINISH : 0;
}

/** Not 1, which means that a pod cannot finish. */
function cannotAsk(asked: Failure, of: Addressee): number {
  fail(asked, of);
  return CANNOT_ASK;
}
