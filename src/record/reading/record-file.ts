import type { DecisionId } from '../../core/decision.ts';
import { listDirectory, readTail, readText } from '../../host/files.ts';
import { RECORD_KEPT, RECORD_MAX_BYTES } from '../../host/record-disk.ts';
import { parseEntry, type RecordEntry } from '../entry.ts';

/** A dry run has a record of its own. */
export function recordName(dry: boolean): string {
  return dry ? 'record-dry.jsonl' : 'record.jsonl';
}

export type ReadRecord = {
  /** Oldest first; only the newest ones of a very long record. */
  readonly entries: readonly RecordEntry[];
  /** Incomplete lines: an agent that was killed while writing leaves one. */
  readonly tornLines: number;
  /** Files that exist but could not be read, with the reason. */
  readonly unreadable: readonly string[];
};
type RecordQuery = {
  /** Only entries from this time on. */
  readonly sinceWallMs?: number;
  readonly dry?: boolean;
};

const ENTRIES_MAX = 100_000;
/** A line may exceed the size at which a file is rotated. */
const FILE_MAX_BYTES = 2 * RECORD_MAX_BYTES;
const DIRECTORY_ENTRIES_MAX = 10_000;

/** The readable part of the record and its rotated files. Without a record, it is empty. */
export function readRecord(directory: string, query: RecordQuery = {}): ReadRecord {
  const name = recordName(query.dry ?? false);
  const names = listDirectory(directory, DIRECTORY_ENTRIES_MAX);
  if (!names.known) {
    const unreadable = names.why === 'absent' ? [] : [`${directory}: ${names.detail}`];
    return { entries: [], tornLines: 0, unreadable };
  }
  const oldestFirst = Array.from({ length: RECORD_KEPT }, (_, i) => `${name}.${RECORD_KEPT - i}`);
  let entries: RecordEntry[] = [];
  let tornLines = 0;
  const unreadable: string[] = [];
  for (const file of [...oldestFirst, name].filter((wanted) => names.value.includes(wanted))) {
    const text = readText(`${directory}/${file}`, FILE_MAX_BYTES);
    if (!text.known) {
      unreadable.push(`${directory}/${file}: ${text.detail}`);
      continue;
    }
    const read = readLines(text.value, query.sinceWallMs ?? Number.NEGATIVE_INFINITY);
    tornLines += read.tornLines;
    entries = [...entries, ...read.entries].slice(-ENTRIES_MAX);
  }
  return { entries, tornLines, unreadable };
}

/**
 * Nothing observes during the start, so the whole record is read only if this part has no complete line, or only notes
 * of the boot.
 */
const TAIL_BYTES = 1024 * 1024;

/** The highest number in the ids of a boot's decisions, from the newest record; 0 = none. */
export function lastDecisionNumber(directory: string, bootId: string, dry: boolean): number {
  const tail = readTail(`${directory}/${recordName(dry)}`, TAIL_BYTES);
  if (!tail.known) return 0;
  const { entries } = readLines(tail.value, Number.NEGATIVE_INFINITY);
  const last = Math.max(0, ...numbersOf(entries, bootId));
  const [first] = entries;
  const isAll = last > 0 || tail.value.length < TAIL_BYTES || (first !== undefined && first.bootId !== bootId);
  return isAll ? last : Math.max(0, ...numbersOf(readRecord(directory, { dry }).entries, bootId));
}

function numbersOf(entries: readonly RecordEntry[], bootId: string): readonly number[] {
  return entries.flatMap((entry) =>
    entry.kind === 'decision' && entry.bootId === bootId ? [numberOf(entry.decision.id)] : [],
  );
}

/** A decision's number, as counted by the core. */
export function numberOf(id: DecisionId): number {
  const number = Number(id.slice(id.lastIndexOf('-') + 1));
  return Number.isSafeInteger(number) ? number : 0;
}

function readLines(text: string, sinceWallMs: number): { readonly entries: RecordEntry[]; readonly tornLines: number } {
  const entries: RecordEntry[] = [];
  let tornLines = 0;
  // Line by line: splitting a file that consists of line ends would take 300 MiB.
  for (let from = 0, end = 0; end < text.length; from = end + 1) {
    end = text.indexOf('\n', from);
    if (end < 0) end = text.length;
    if (end === from) continue;
    const line = text.slice(from, end);
    const entry = parseEntry(line);
    if (entry === null) tornLines++;
    else if (entry.atWallMs >= sinceWallMs) entries.push(entry);
  }
  return { entries, tornLines };
}
