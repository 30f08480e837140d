import { Command } from 'commander';
import { valueOrNull } from '../core/reading.ts';
import { createClock, readBootId } from '../host/clock.ts';
import { type DecisionRecord, joinDecisions, type RecordEntry } from '../record/entry.ts';
import { type ReadRecord, readRecord } from '../record/reading/record-file.ts';
import type { ShutdownRecord } from '../record/reading/shutdown-record.ts';
import { type Shutdowns, shutdownsOf } from '../record/reading/shutdowns.ts';
import {
  type Moment,
  momentOf,
  momentOfDecision,
  momentOfShutdown,
  type Timeline,
  timelineOf,
} from '../record/reading/timeline.ts';
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
      const clock = createClock();
      const bootId = valueOrNull(readBootId());
      const now = bootId === null ? null : { bootId, wallMs: clock.wallMs(), atMs: clock.monoMs() };
      const sinceWallMs = options.since?.(clock.wallMs()) ?? Number.NEGATIVE_INFINITY;
      // Unfiltered: a shutdown or a boot may have begun earlier, and the clock may have stepped back before an outcome.
      const whole = [false, true].map((dry) => readRecord(stateDirectory, { dry }));
      const all = whole.flatMap(({ entries }) => entries);
      const placeOf = timelineOf(all, now);
      // Also what is shown with a later time, from a clock that was ahead.
      const isSince = (moment: Moment): boolean => Math.max(placeOf(moment), moment.atWallMs) >= sinceWallMs;
      const records = whole.map((record) => ({
        ...record,
        entries: record.entries.filter((entry) => isSince(momentOf(entry))),
      }));
      const found = shutdownsOf(all, bootId);
      const decisions = whole.flatMap(({ entries }) =>
        joinDecisions(entries).filter((record) => isSince(momentOfDecision(record))),
      );
      const history = historyOf({ decisions, records, ...from(sinceWallMs, found, placeOf), placeOf }, options);
      const unreadable = new Set(records.flatMap((record) => record.unreadable));
      for (const why of unreadable) process.stderr.write(`not read: ${clean(withRights(why, 'to-read'))}\n`);
      for (const problem of records.flatMap(sayProblems)) process.stderr.write(`${problem}\n`);
      if (found.damaged > 0) process.stderr.write(`damaged entries omitted from the shutdowns: ${found.damaged}\n`);
      // The part that was not read may contain some.
      const isWhole = unreadable.size === 0 && records.every(({ leftOut }) => leftOut === 0);
      const nothing = isWhole ? sayNothing(options, stateDirectory, sinceWallMs) : '';
      printAs(options.output, history, (paint) => historyText(history, nothing, paint, placeOf));
      if (unreadable.size > 0) process.exitCode = NOT_READ;
    });
}

function sayNothing({ shutdowns, evictions }: Options, directory: string, sinceWallMs: number): string {
  const of = { shutdowns: shutdowns === true, evictions: evictions === true };
  const what = of.shutdowns === of.evictions ? 'decisions' : of.shutdowns ? 'shutdowns' : 'evictions';
  const since = Number.isFinite(sinceWallMs) ? ` since ${new Date(sinceWallMs).toISOString()}` : '';
  return `No ${what} in the record under ${directory}${since}.\n`;
}

/** Oldest first, like everything else that is shown. */
function from(
  sinceWallMs: number,
  { shutdowns, boots }: Shutdowns,
  placeOf: Timeline,
): Pick<History, 'shutdowns' | 'boots'> {
  const began = (shutdown: ShutdownRecord): number => placeOf(momentOfShutdown(shutdown));
  return {
    shutdowns: shutdowns
      .filter((shutdown) => Math.max(began(shutdown), shutdown.beganWallMs) >= sinceWallMs)
      .toSorted((a, b) => began(a) - began(b)),
    boots: boots.filter(({ lastWallMs }) => lastWallMs >= sinceWallMs).toSorted((a, b) => a.lastWallMs - b.lastWallMs),
  };
}

type Found = Pick<History, 'decisions' | 'shutdowns' | 'boots'> & {
  readonly records: readonly ReadRecord[];
  readonly placeOf: Timeline;
};

function historyOf({ decisions, records, placeOf, ...found }: Found, options: Options): History {
  const isAll = options.evictions !== true && options.shutdowns !== true;
  const evictions = isAll || options.evictions === true;
  const shutdowns = isAll || options.shutdowns === true;
  const wanted = ({ decision: { kind } }: DecisionRecord): boolean =>
    isAll || (shutdowns && SHUTDOWNS.includes(kind)) || (evictions && EVICTIONS.includes(kind));
  const place = (record: DecisionRecord): number => placeOf(momentOfDecision(record));
  return {
    schema: 1,
    decisions: decisions.filter(wanted).toSorted((a, b) => place(a) - place(b)),
    kernelOomKills: evictions
      ? records.flatMap(({ entries }) => oomKills(entries)).toSorted((a, b) => placeOf(a) - placeOf(b))
      : [],
    ...(shutdowns ? found : { shutdowns: [], boots: [] }),
  };
}
const SHUTDOWNS: readonly string[] = ['stop-for-shutdown', 'take-lock', 'release-lock', 'undo-stops'];
const EVICTIONS: readonly string[] = ['evict', 'evict-over-limit', 'hasten', 'reclaim'];

function oomKills(entries: readonly RecordEntry[]): readonly OomKill[] {
  return entries.flatMap((entry) => {
    if (entry.kind !== 'note' || entry.note.kind !== 'kernel-oom-kill') return [];
    const { atWallMs, bootId, note } = entry;
    const { count, pods, unattributed, atMs, unwatchedSinceMs } = note;
    const unwatched =
      unwatchedSinceMs === undefined ? {} : { unwatchedSinceWallMs: Math.round(atWallMs - (atMs - unwatchedSinceMs)) };
    return [
      { atWallMs, bootId, atMs, count, pods, ...(unattributed === undefined ? {} : { unattributed }), ...unwatched },
    ];
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
