import { Command, InvalidArgumentError } from 'commander';
import type { Effective } from '../config/effective.ts';
import { loadConfig } from '../config/load.ts';
import { sayCause } from '../core/reading.ts';
import { parseDuration } from '../core/units/duration.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { sayProblem } from '../document/problem.ts';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createClock, sleep } from '../host/clock.ts';
import { distrust, listDirectory, writeFirst } from '../host/files.ts';
import { openSystemBus } from '../host/systemd/bus.ts';
import { createSystemd } from '../host/systemd/systemd.ts';
import type { Clock } from '../ports.ts';
import { askDaemon } from '../serve/ask.ts';
import { isReport } from '../serve/status.ts';
import { type Adoption, adopt, type Proposal } from '../standalone/adopt/adopt.ts';
import { noManifestDirectory } from '../words/finding-standalone.ts';
import { ownCommand } from '../words/own-command.ts';
import { clean, type Format, formatOption, type Paint, printAs, table } from './print.ts';

type Options = {
  readonly config?: string;
  readonly output: Format;
  readonly for?: number;
  readonly write?: true;
};

const BAD_CONFIG = 2;
const BUS_MS = 5_000;
const POLL_MS = 50;
const ANSWER_MS = 2_000;
const MODE = 0o644;
/** As in sd_booted(3). */
const BOOTED = '/run/systemd/system';
const MANIFESTS = '/etc/nodewarden/pods.d';
const HELP = `
Examples:
  nodewarden adopt
  nodewarden adopt --write && nodewarden config check

Exit status: 0, 1 when nothing could be read, a manifest has an error or a file could not be written, or 2 for a usage
error or an invalid configuration.`;

export function adoptCommand(): Command {
  return new Command('adopt')
    .description('Propose a manifest for each service and container that runs here')
    .option('-c, --config <file>', 'Configuration file that names the manifest directory')
    .option('--for <duration>', 'Sample memory for this long, such as 2m', parseFor)
    .option('--write', 'Write the manifests; never change an existing file')
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const fail = (text: string): void => {
        process.stderr.write(`${clean(text)}\n`);
        process.exitCode = 1;
      };
      const { effective, problems } = loadConfig(options.config ?? null);
      if (effective === null) for (const problem of problems) fail(sayProblem(problem));
      if (effective === null && options.config !== undefined) {
        process.exitCode = BAD_CONFIG;
        return;
      }
      const directory = effective?.podManifests ?? MANIFESTS;
      const mounts = findCgroupMounts();
      if (!mounts.known) return fail(`${mounts.where}: ${mounts.detail}`);
      const clock = createClock();
      const booted = listDirectory(BOOTED, Number.POSITIVE_INFINITY);
      const bus = booted.known ? openSystemBus(clock) : null;
      const systemd = bus === null ? null : createSystemd(bus);
      const endMs = clock.monoMs() + BUS_MS;
      while (systemd?.isUp() === false && clock.monoMs() < endMs) await sleep(clock, POLL_MS);
      try {
        const adoption = await adopt({
          clock,
          mounts: mounts.value,
          systemd,
          cgroupRoot: effective?.cgroupRoot ?? '/',
          podManifests: directory,
          sampleMs: options.for ?? null,
          say: (text) => process.stderr.write(`${text}\n`),
        });
        if (!adoption.known) return fail(`${adoption.where}: ${adoption.detail}`);
        const written = options.write === true ? write(adoption.value, directory, fail) : null;
        const isLive = effective !== null && (await evicts(effective, clock));
        printAs(options.output, { ...adoption.value, directory, written }, (paint) =>
          adoptText(adoption.value, { directory, written, isLive, config: options.config ?? null }, paint),
        );
      } catch (cause) {
        fail(sayCause(cause));
      } finally {
        bus?.close();
      }
    });
}

/** An agent answers there, goes by the same manifests, and is no dry run. */
async function evicts({ socket, podManifests }: Effective, clock: Clock): Promise<boolean> {
  const asked = await askDaemon(socket, { ask: 'status' }, clock, { answerMs: ANSWER_MS });
  if (asked.kind !== 'answer' || !isReport(asked.answer)) return false;
  const { node, config } = asked.answer;
  return !node.dryRun && config.podManifests === podManifests;
}

/** Returns the paths that were written. */
function write({ proposals }: Adoption, directory: string, fail: (text: string) => void): readonly string[] {
  const listed = listDirectory(directory, Number.POSITIVE_INFINITY);
  const why = listed.known ? null : listed.detail;
  const unreadable = why?.startsWith('ENOENT') ? noManifestDirectory(directory) : why && `${directory}: ${why}`;
  const distrusted = distrust(directory) ?? unreadable;
  if (distrusted !== null) {
    fail(`nothing was written: ${distrusted}`);
    return [];
  }
  return proposals.flatMap(({ file, manifest }) => {
    const done = writeFirst(`${directory}/${file}`, manifest, MODE);
    if (done.known) return [`${directory}/${file}`];
    fail(`not written: ${done.where}: ${done.detail}`);
    return [];
  });
}

function parseFor(text: string): number {
  const parsed = parseDuration(text);
  if (parsed.ok && parsed.duration.ms >= 0 && parsed.duration.ms <= 86_400_000) return parsed.duration.ms;
  throw new InvalidArgumentError('Use a duration of at most a day, such as 2m.');
}

const NO_SYSTEMD =
  'No systemd runs here. These are cgroups that have processes: whatever created them may restart what is stopped.\n';

type Where = {
  readonly directory: string;
  /** The written files; null: none were requested. */
  readonly written: readonly string[] | null;
  /** The agent that runs here evicts by what is in the directory. */
  readonly isLive: boolean;
  /** The configuration that was named. */
  readonly config: string | null;
};

function adoptText({ source, proposals, leftOut }: Adoption, where: Where, paint: Paint): string {
  const { directory, written } = where;
  const said = (bytes: number | null): string => (bytes === null ? '-' : sayBytes(bytes));
  const rows = proposals.map(({ name, workingSetBytes, peakBytes, requestBytes, priority, role }) => [
    clean(name),
    said(workingSetBytes),
    said(peakBytes),
    said(requestBytes),
    String(priority),
    role,
  ]);
  const sections = [
    source === 'systemd' ? '' : NO_SYSTEMD,
    rows.length === 0
      ? 'Everything running here is already declared or belongs to the system.\n'
      : table(['NAME', 'MEMORY', 'PEAK', 'REQUEST', 'PRIORITY', 'ROLE'], rows, [1, 2, 3, 4]),
    leftOut.length === 0
      ? ''
      : `${paint('bold', 'Left out')}\n${leftOut.map(({ name, why }) => `  ${clean(name)}: ${clean(why)}\n`).join('')}`,
    written === null ? proposals.map((proposal) => manifestText(proposal, directory, paint)).join('\n') : '',
    nextText(proposals, where),
  ];
  return sections.filter(Boolean).join('\n');
}

const manifestText = ({ file, manifest }: Proposal, directory: string, paint: Paint): string =>
  `${paint('bold', `--- ${clean(directory)}/${file}`)}\n${manifest}`;

function nextText(proposals: readonly Proposal[], { directory, written, isLive, config }: Where): string {
  if (proposals.length === 0) return '';
  const check = ownCommand('nodewarden config check', config);
  if (written === null) {
    const then = isLive
      ? 'The agent that runs here is no dry run and would evict by them at once: set dryRun: true first.\n'
      : '';
    return `Nothing was written. ${ownCommand('nodewarden adopt --write', config)} writes these files to ${clean(directory)}.\n${then}`;
  }
  if (written.length === 0) return '';
  const files = written.map((path) => `wrote ${clean(path)}\n`).join('');
  if (isLive)
    return `${files}They are in force now: the agent that runs here is no dry run. To try them first, set dryRun: true; then review them: ${check}.\n`;
  return `${files}Review them, then: ${check}, and ${ownCommand('nodewarden run --dry-run', config)} (or dryRun: true).\n`;
}
