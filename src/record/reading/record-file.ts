import type { DecisionId } from '../../core/decision.ts';
import type { Reading } from '../../core/reading.ts';
import { type HeldFile, holdFile, listDirectory, readTail } from '../../host/files.ts';
import { RECORD_KEPT, RECORD_MAX_BYTES } from '../../host/own/record-disk.ts';
import { parseEntry, type RecordEntry } from '../entry.ts';

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

/**
 * Which of these lines the record of this boot has, none of them older than `sinceWallMs`. Nothing observes during the start:
 * it reads from the end, and no further than such a line may be.
 */
export function recordedOf(
  lines: ReadonlySet<string>,
  directory: string,
  { dry, bootId, sinceWallMs }: { readonly dry: boolean; readonly bootId: string; readonly sinceWallMs: number },
): ReadonlySet<string> {
  const found = new Set<string>();
  /** Whether what precedes this text need not be read. */
  const isEnough = (text: Reading<string>): boolean => {
    let first: RecordEntry | null = null;
    eachLine(text.known ? text.value : '', (line) => {
      first ??= parseEntry(line);
      if (lines.has(line)) found.add(line);
    });
    const isBefore = ({ atWallMs, ...entry }: RecordEntry) => entry.bootId !== bootId || atWallMs < sinceWallMs;
    return found.size === lines.size || (first !== null && isBefore(first));
  };
  if (isEnough(readTail(`${directory}/${recordName(dry)}`, TAIL_BYTES))) return found;
  const { oldestFirst } = holdRotated(directory, recordName(dry));
  oldestFirst.toReversed().some((file) => isEnough(file.text(2 * RECORD_MAX_BYTES)));
  for (const file of oldestFirst) file.close();
  return found;
}

const DIRECTORY_ENTRIES_MAX = 10_000;

type Held = { readonly oldestFirst: readonly HeldFile[]; readonly unreadable: string[] };

/** A record and its rotated files, also while they are rotated, and what exists and could not be opened, with the reason. */
function holdRotated(directory: string, name: string): Held {
  const names = listDirectory(directory, DIRECTORY_ENTRIES_MAX);
  const unreadable: string[] = [];
  if (!names.known) {
    if (names.why !== 'absent') unreadable.push(`${directory}: ${names.detail}`);
    return { oldestFirst: [], unreadable };
  }
  const heldFirst = (path: string, held: readonly HeldFile[]): readonly HeldFile[] => {
    const file = holdFile(path);
    if (file.known && held.every(({ ino }) => ino !== file.value.ino)) return [file.value, ...held];
    if (file.known) file.value.close();
    else if (file.why !== 'absent') unreadable.unshift(`${path}: ${file.detail}`);
    return held;
  };
  // Newest first: a file that is renamed meanwhile moves to a name that is yet to come, and is found there.
  const newestFirst = [name, ...Array.from({ length: RECORD_KEPT }, (_, i) => `${name}.${i + 1}`)];
  const oldestFirst = newestFirst.reduce<readonly HeldFile[]>(
    (held, file) => heldFirst(`${directory}/${file}`, held),
    [],
  );
  return { oldestFirst, unreadable };
}

/**
 * Gives `each` the lines of a record and its rotated files, oldest first. A line may exceed the size at which a file is rotated,
 * so twice that is read of a file. Returns what exists and could not be read, with the reason.
 */
export function readRotated(
  directory: string,
  name: string,
  rotatedBytes: number,
  each: (line: string) => void,
): readonly string[] {
  const { oldestFirst, unreadable } = holdRotated(directory, name);
  for (const file of oldestFirst) {
    const text = file.text(2 * rotatedBytes);
    file.close();
    if (text.known) eachLine(text.value, each);
    else unreadable.push(`${text.where}: ${text.detail}`);
  }
  return unreadable;
}

/** One by one: splitting a file that consists of line ends would take 300 MiB. */
function eachLine(text: string, each: (line: string) => void): void {
  for (let from = 0, end = 0; end < text.length; from = end + 1) {
    end = text.indexOf('\n', from);
    if (end < 0) end = text.length;
    if (end > from) each(text.slice(from, end));
  }
}
