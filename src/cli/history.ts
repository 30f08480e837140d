import { Command } from 'commander';
import { valueOrNull } from '../core/reading.ts';
import { createClock, readBootId } from '../host/clock.ts';
import { type DecisionRecord, isSince, joinDecisions, type RecordEntry } from '../record/entry.ts';
import { type ReadRecord, readRecord } from '../record/reading/record-file.ts';
import { type Shutdowns, shutdownsOf } from '../record/reading/shutdowns.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { withRights } from './denied.ts';
import { type History, historyText, type OomKill } from './history-text.ts';
import { isRecordHung, NOT_READ } from './hung-record.ts';
import { clean, type Format, formatOption, printAs } from './print.ts';
import { parseSince } from './since.ts';

type Options = {
  readonly config?: string;
  readonly output: Format;
  readonly since?: (nowWallMs: number) => number;
  readonly evictions?: true;
  readonly shutdowns?: true;
};

const HELP = `
Examples:
  nodewarden history --evictions --since 24h
  nodewarden history --shutdowns

Exit status: 0, 1 when a file of the record exists and cannot be read, or 2 for a usage error.`;

export function historyCommand(): Command {
  return new Command('history')
    .description('Show decisions and outcomes from the record on disk; needs no running agent')
    .option('-c, --config <file>', 'Configuration file that names the state directory')
    .option('--evictions', 'Show only evictions and kernel OOM kills')
    .option('--shutdowns', 'Show only shutdowns, plan versus actual, and boots that ended without one')
    .option('--since <when>', 'Start at a time (2026-01-31T12:00:00Z) or this long ago (2h)', parseSince)
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (options: Options) => {
      const { stateDirectory } = daemonPathsOf(options.config ?? null);
      if (await isRecordHung(stateDirectory)) return;
      const sinceWallMs = options.since?.(createClock().wallMs()) ?? Number.NEGATIVE_INFINITY;
      // Unfiltered: a shutdown or a boot may have begun earlier, and the clock may have stepped back before an outcome.
      const whole = [false, true].map((dry) => readRecord(stateDirectory, { dry }));
      const records = whole.map((record) => from(sinceWallMs, record));
      const found = shutdownsOf(
        whole.flatMap(({ entries }) => entries),
        valueOrNull(readBootId()),
      );
      const decisions = whole.flatMap(({ entries }) => joinDecisions(entries).filter(isSince(sinceWallMs)));
      const history = historyOf(decisions, records, shutdownsFrom(sinceWallMs, found), options);
      const unreadable = new Set(records.flatMap((record) => record.unreadable));
      for (const why of unreadable) process.stderr.write(`not read: ${clean(withRights(why, 'to-read'))}\n`);
      for (const problem of records.flatMap(sayProblems)) process.stderr.write(`${problem}\n`);
      if (found.damaged > 0) process.stderr.write(`damaged entries omitted from the shutdowns: ${found.damaged}\n`);
      // The part that was not read may contain some.
      const isWhole = unreadable.size === 0 && records.every(({ leftOut }) => leftOut === 0);
      const nothing = isWhole ? sayNothing(options, stateDirectory, sinceWallMs) : '';
      printAs(options.output, history, (paint) => historyText(history, nothing, paint));
      if (unreadable.size > 0) process.exitCode = NOT_READ;
    });
}

function sayNothing({ shutdowns, evictions }: Options, directory: string, sinceWallMs: number): string {
  const of = { shutdowns: shutdowns === true, evictions: evictions === true };
  const what = of.shutdowns === of.evictions ? 'decisions' : of.shutdowns ? 'shutdowns' : 'evictions';
  const since = Number.isFinite(sinceWallMs) ? ` since ${new Date(sinceWallMs).toISOString()}` : '';
  return `No ${what} in the record under ${directory}${since}.\n`;
}

function from(sinceWallMs: number, record: ReadRecord): ReadRecord {
  return { ...record, entries: record.entries.filter(isSince(sinceWallMs)) };
}

/** Oldest first by wall-clock time, like everything else that is shown. */
function shutdownsFrom(sinceWallMs: number, { shutdowns, boots }: Shutdowns): Pick<History, 'shutdowns' | 'boots'> {
  return {
    shutdowns: shutdowns
      .filter(({ beganWallMs }) => beganWallMs >= sinceWallMs)
      .toSorted((a, b) => a.beganWallMs - b.beganWallMs),
    boots: boots.filter(({ lastWallMs }) => lastWallMs >= sinceWallMs).toSorted((a, b) => a.lastWallMs - b.lastWallMs),
  };
}

function historyOf(
  decisions: readonly DecisionRecord[],
  records: readonly ReadRecord[],
  found: Pick<History, 'shutdowns' | 'boots'>,
  options: Options,
): History {
  const isAll = options.evictions !== true && options.shutdowns !== true;
  const evictions = isAll || options.evictions === true;
  const shutdowns = isAll || options.shutdowns === true;
  const wanted = ({ decision: { kind } }: DecisionRecord): boolean =>
    isAll || (shutdowns && SHUTDOWNS.includes(kind)) || (evictions && EVICTIONS.includes(kind));
  return {
    schema: 1,
    decisions: oldestFirst(decisions.filter(wanted)),
    kernelOomKills: evictions ? oldestFirst(records.flatMap(({ entries }) => oomKills(entries))) : [],
    ...(shutdowns ? found : { shutdowns: [], boots: [] }),
  };
}
const oldestFirst = <T extends { readonly atWallMs: number }>(items: readonly T[]): readonly T[] =>
  items.toSorted((a, b) => a.atWallMs - b.atWallMs);
const SHUTDOWNS: readonly string[] = ['stop-for-shutdown', 'take-lock', 'release-lock', 'undo-stops'];
const EVICTIONS: readonly string[] = ['evict', 'evict-over-limit', 'hasten', 'reclaim'];

function oomKills(entries: readonly RecordEntry[]): readonly OomKill[] {
  return entries.flatMap((entry) => {
    if (entry.kind !== 'note' || entry.note.kind !== 'kernel-oom-kill') return [];
    const { atWallMs, note } = entry;
    const { count, pods, unattributed, atMs, unwatchedSinceMs } = note;
    const unwatched =
      unwatchedSinceMs === undefined ? {} : { unwatchedSinceWallMs: Math.round(atWallMs - (atMs - unwatchedSinceMs)) };
    return [{ atWallMs, count, pods, ...(unattributed === undefined ? {} : { unattributed }), ...unwatched }];
  });
}

function sayProblems({ tornLines, leftOut, entries }: ReadRecord): readonly string[] {
  const lost = entries.reduce((sum, entry) => sum + (entry.kind === 'lost' ? entry.entries : 0), 0);
  return [
    ...(tornLines > 0 ? [`skipped lines of the record that are incomplete or not JSON: ${tornLines}`] : []),
    ...(leftOut > 0 ? [`the oldest entries of the record are left out: ${leftOut}`] : []),
    ...(lost > 0 ? [`${lost} entries are missing: the disk accepted none for too long`] : []),
  ];
}
