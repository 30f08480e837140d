import { Command, InvalidArgumentError, Option } from 'commander';
import { parseDuration } from '../core/duration.ts';
import { createClock } from '../host/clock.ts';
import { type DecisionRecord, joinDecisions, type RecordEntry } from '../record/entry.ts';
import { type ReadRecord, readRecord } from '../record/record-file.ts';
import { type History, historyText, type OomKill } from './history-text.ts';
import { placesOf } from './places.ts';
import { painter, standardPaper } from './print.ts';

type Options = {
  readonly config?: string;
  readonly output: 'text' | 'json';
  readonly since?: (nowWallMs: number) => number;
  readonly evictions?: true;
  readonly shutdowns?: true;
};

export function historyCommand(): Command {
  return new Command('history')
    .description('decisions and their outcome, from the record on disk; the daemon need not run')
    .option('-c, --config <file>', 'configuration that names the state directory')
    .option('--evictions', 'only evictions and kernel OOM kills')
    .option('--shutdowns', 'only shutdowns')
    .option('--since <when>', 'from this time on: a duration (2h) or an instant (2026-01-31T12:00:00Z)', parseSince)
    .addOption(new Option('-o, --output <format>', 'how to print').choices(['text', 'json']).default('text'))
    .addHelpText('after', '\nExample:\n  nodewarden history --evictions --since 24h')
    .action((options: Options) => {
      const { stateDirectory } = placesOf(options.config ?? null);
      const sinceWallMs = options.since?.(createClock().wallMs()) ?? Number.NEGATIVE_INFINITY;
      const records = [false, true].map((dry) => readRecord(stateDirectory, { sinceWallMs, dry }));
      const history = historyOf(records, options);
      const paper = standardPaper();
      for (const problem of records.flatMap(sayProblems)) process.stderr.write(`${problem}\n`);
      if (options.output === 'json') paper.write(`${JSON.stringify(history, null, 2)}\n`);
      else paper.write(historyText(history, stateDirectory, painter(paper.hasColour)));
    });
}

function historyOf(records: readonly ReadRecord[], options: Options): History {
  const wanted = (record: DecisionRecord): boolean => {
    const { kind } = record.decision;
    const isShutdown = kind === 'stop-for-shutdown' || kind === 'take-lock' || kind === 'release-lock';
    if (options.evictions || options.shutdowns) {
      return (options.shutdowns === true && isShutdown) || (options.evictions === true && EVICTIONS.includes(kind));
    }
    return true;
  };
  return {
    schema: 1,
    decisions: records
      .flatMap(({ entries }) => joinDecisions(entries))
      .filter(wanted)
      .toSorted((a, b) => a.atWallMs - b.atWallMs),
    kernelOomKills: options.shutdowns && !options.evictions ? [] : records.flatMap(({ entries }) => oomKills(entries)),
  };
}
const EVICTIONS: readonly string[] = ['evict', 'evict-over-limit', 'hasten', 'reclaim'];

function oomKills(entries: readonly RecordEntry[]): readonly OomKill[] {
  return entries.flatMap((entry) =>
    entry.kind === 'note' && entry.note.kind === 'kernel-oom-kill'
      ? [{ atWallMs: entry.atWallMs, count: entry.note.count, pods: entry.note.pods }]
      : [],
  );
}

function sayProblems({ tornLines, unreadable, entries }: ReadRecord): readonly string[] {
  const lost = entries.reduce((sum, entry) => sum + (entry.kind === 'lost' ? entry.entries : 0), 0);
  return [
    ...unreadable.map((why) => `not read: ${why}`),
    ...(tornLines > 0 ? [`${tornLines} incomplete lines of the record were left out`] : []),
    ...(lost > 0 ? [`${lost} entries are missing: the disk took none for too long`] : []),
  ];
}

function parseSince(text: string): (nowWallMs: number) => number {
  const parsed = parseDuration(text);
  if (parsed.ok && parsed.duration.ms >= 0) return (nowWallMs) => nowWallMs - parsed.duration.ms;
  const instant = Date.parse(text);
  if (Number.isNaN(instant))
    throw new InvalidArgumentError('a duration such as 2h30m, or an instant such as 2026-01-31T12:00:00Z');
  return () => instant;
}
