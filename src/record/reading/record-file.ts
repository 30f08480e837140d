import type { DecisionId } from '../../core/decision.ts';
import { readTail } from '../../host/files.ts';
import { RECORD_MAX_BYTES } from '../../host/record-disk.ts';
import { parseEntry, type RecordEntry } from '../entry.ts';
import { eachLine, readRotated } from './rotated.ts';

/** A dry run has a record of its own. */
export function recordName(dry: boolean): string {
  return dry ? 'record-dry.jsonl' : 'record.jsonl';
}

export type ReadRecord = {
  /** Oldest first. Of a very long record, without notes of the running pods that a later one of the same boot replaces. */
  readonly entries: readonly RecordEntry[];
  /** How many of the oldest entries are left out besides. */
  readonly leftOut: number;
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

/** The readable part of the record and its rotated files. Without a record, it is empty. */
export function readRecord(directory: string, query: RecordQuery = {}): ReadRecord {
  const { sinceWallMs = Number.NEGATIVE_INFINITY, dry = false } = query;
  let entries: RecordEntry[] = [];
  let [tornLines, leftOut] = [0, 0];
  const shorten = (): void => {
    entries = withoutReplaced(entries);
    const tooMany = Math.max(0, entries.length - ENTRIES_MAX);
    leftOut += tooMany;
    entries.splice(0, tooMany);
  };
  const unreadable = readRotated(directory, recordName(dry), RECORD_MAX_BYTES, (line) => {
    const entry = parseEntry(line);
    if (entry === null) tornLines++;
    else if (entry.atWallMs >= sinceWallMs) entries.push(entry);
    if (entries.length > 2 * ENTRIES_MAX) shorten();
  });
  if (entries.length > ENTRIES_MAX) shorten();
  return { entries, leftOut, tornLines, unreadable };
}

function withoutReplaced(entries: readonly RecordEntry[]): RecordEntry[] {
  const replaced = new Set<string>();
  const kept = entries.toReversed().filter((entry) => {
    if (entry.kind !== 'note' || entry.note.kind !== 'running') return true;
    const isLast = !replaced.has(entry.bootId);
    replaced.add(entry.bootId);
    return isLast;
  });
  return kept.reverse();
}

/**
 * Nothing observes during the start, so the whole record is read only if this part has no complete line, or only notes
 * of the boot.
 */
const TAIL_BYTES = 1024 * 1024;

/** The newest entry; null: there is none, or it cannot be read. */
export function lastEntry(directory: string, dry: boolean): RecordEntry | null {
  const tail = readTail(`${directory}/${recordName(dry)}`, TAIL_BYTES);
  const lines = tail.known ? tail.value.split('\n') : [];
  for (const line of lines.toReversed()) {
    const entry = parseEntry(line);
    if (entry !== null) return entry;
  }
  return null;
}

/** The highest number in the ids of a boot's decisions, from the newest record; 0 = none. */
export function lastDecisionNumber(directory: string, bootId: string, dry: boolean): number {
  const tail = readTail(`${directory}/${recordName(dry)}`, TAIL_BYTES);
  const entries: RecordEntry[] = [];
  eachLine(tail.known ? tail.value : '', (line) => {
    const entry = parseEntry(line);
    if (entry !== null) entries.push(entry);
  });
  const last = Math.max(0, ...numbersOf(entries, bootId));
  const [first] = entries;
  // A short file may be new: the boot's decisions are then in the one that was rotated.
  const isAll = last > 0 || (first !== undefined && first.bootId !== bootId);
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
