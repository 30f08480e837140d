import { Command } from 'commander';
import { createClock } from '../host/clock.ts';
import { lastEntry, readRecord } from '../record/reading/record-file.ts';
import { trialOf } from '../record/reading/trial.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { withRights } from './denied.ts';
import { isRecordHung, NOT_READ } from './hung-record.ts';
import { clean, type Format, formatOption, printAs } from './print.ts';
import { parseSince } from './since.ts';
import { trialText } from './trial-text.ts';

type Options = {
  readonly config?: string;
  readonly output: Format;
  readonly since?: (nowWallMs: number) => number;
};

const HELP = `
Examples:
  nodewarden trial --since 168h
  nodewarden trial -o json

Exit status: 0, 1 when a file of the record exists and cannot be read, or 2 for a usage error.`;

export function trialCommand(): Command {
  return new Command('trial')
    .description('Sum up a dry run from its record: which pods would have been stopped, and why')
    .option('-c, --config <file>', 'Configuration file that names the state directory')
    .option('--since <when>', 'Start at a time (2026-01-31T12:00:00Z) or this long ago (2h)', parseSince)
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { stateDirectory } = daemonPathsOf(options.config ?? null);
      if (await isRecordHung(stateDirectory)) return;
      const { entries, leftOut, tornLines, unreadable } = readRecord(stateDirectory, { dry: true });
      const trial = trialOf(entries, tornLines + leftOut, options.since?.(createClock().wallMs()) ?? null);
      for (const why of unreadable) process.stderr.write(`not read: ${clean(withRights(why, 'to-read'))}\n`);
      const isWhole = unreadable.length === 0;
      const actedWallMs = lastEntry(stateDirectory, false)?.atWallMs ?? null;
      printAs(options.output, trial, (paint) =>
        trialText(trial, { directory: stateDirectory, isWhole, actedWallMs }, paint),
      );
      if (unreadable.length > 0) process.exitCode = NOT_READ;
    });
}
