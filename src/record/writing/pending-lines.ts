import type { DecisionId } from '../../core/decision.ts';
import { evictionsOf } from '../../core/eviction/under-way.ts';
import { withRung } from '../../core/outcome.ts';
import type { State } from '../../core/state/state.ts';
import { appendText, readText, writeAtomic } from '../../host/files.ts';
import type { Findings, Left, RecordNote } from '../../ports.ts';
import { INTENT_FILE, intentsNotSaved } from '../../words/finding-own.ts';
import { parseEntry, type RecordEntry, rungOf } from '../entry.ts';
import { numberOf, recordedOf } from '../reading/record-file.ts';

/**
 * Lines that the record's disk has not accepted yet, and those of decisions for which the state still waits. They are next to
 * the live state, on tmpfs as well: an agent that is killed loses none, and its next run knows how far each had come.
 */
type PendingLines = {
  /** Writes the lines at once. Call the returned function once the record has them, or has given them up. */
  readonly add: (ids: readonly DecisionId[], lines: string) => () => void;
  /** Call it when the state is written: drops lines that the record has and for which the state no longer waits. */
  readonly follow: (state: State) => void;
  /** Writes all of it again: the file was lost. */
  readonly rewrite: () => void;
  /** How far a decision had come for which the state still waits. */
  readonly left: (of: DecisionId) => Left;
};
type Kept = { readonly ids: readonly DecisionId[]; readonly lines: string; isRecorded: boolean };

/** More than the lines of a verdict with several evictions among 1,000 pods. */
const FILE_MAX_BYTES = 32 * 1024 * 1024;
/** If the disk accepts nothing for long, the oldest lines stay only in the record's memory. */
const KEPT_MAX = 1_000;
/** A decision among 1,000 pods has some 0.5 MB. */
const KEPT_CHARS = 4 * 1024 * 1024;
/** The file is rewritten when it exceeds what is kept by this many characters. */
const STALE_CHARS = 4 * 1024 * 1024;
const MODE = 0o640;

export const pendingLinesPath = (stateFile: string): string => `${stateFile}.intents`;

type UnsettledNeeds = {
  readonly path: string;
  readonly findings: Findings;
  readonly recordDirectory: string;
  readonly dry: boolean;
  readonly adopted: State;
};

/** `lost`: lines of an earlier run that the record does not have. */
export function openPendingLines(needs: UnsettledNeeds): {
  readonly pending: PendingLines;
  readonly lost: readonly { readonly line: string; readonly recorded: () => void }[];
} {
  const { path, findings } = needs;
  let kept: readonly Kept[] = leftBy(needs);
  let waitedFor = idsOf(needs.adopted);
  /** Characters in the file; null: its content differs from what is kept, and it is rewritten. */
  let fileChars: number | null = null;

  const told = (written: ReturnType<typeof writeAtomic>): void => {
    if (written.known) findings.clear(INTENT_FILE);
    else findings.raise(intentsNotSaved(path, written.detail));
  };
  const rewrite = (): void => {
    const text = kept.map(({ lines }) => lines).join('');
    const written = writeAtomic(path, text, MODE, 'boot');
    fileChars = written.known ? text.length : null;
    told(written);
  };
  const append = (lines: string): void => {
    if (fileChars === null || fileChars > charsOf(kept) + STALE_CHARS) {
      rewrite();
      return;
    }
    const written = appendText(path, lines, MODE);
    // Part of it may be in the file.
    fileChars = written.known ? fileChars + lines.length : null;
    told(written);
  };
  const bound = (): void => {
    if (kept.length <= KEPT_MAX && charsOf(kept) <= KEPT_CHARS) return;
    // A few more than needed, so that not every later line rewrites the file; never the newest.
    let chars = 0;
    const newest = kept.toReversed().filter(({ lines }, i) => {
      chars += lines.length;
      return i === 0 || (i < 0.75 * KEPT_MAX && chars < 0.75 * KEPT_CHARS);
    });
    kept = newest.toReversed();
    fileChars = null;
  };
  const sweep = (): void => {
    kept = kept.filter(({ ids, isRecorded }) => !isRecorded || ids.some((id) => waitedFor.has(id)));
    if (kept.length === 0 && fileChars !== 0) rewrite();
  };
  const isRecorded = (entry: Kept) => (): void => {
    entry.isRecorded = true;
    sweep();
  };
  const lost = kept.filter((entry) => !entry.isRecorded);
  return {
    lost: lost.map((entry) => ({ line: entry.lines, recorded: isRecorded(entry) })),
    pending: {
      add: (ids, lines) => {
        const entry: Kept = { ids, lines, isRecorded: false };
        kept = [...kept, entry];
        bound();
        append(lines);
        return isRecorded(entry);
      },
      follow: (state) => {
        waitedFor = idsOf(state);
        sweep();
      },
      rewrite,
      left: (of) => leftOf(of, kept),
    },
  };
}

const charsOf = (kept: readonly Kept[]): number => kept.reduce((sum, { lines }) => sum + lines.length, 0);

/** Those for which the state waits. */
export function idsOf(state: State): ReadonlySet<DecisionId> {
  return new Set([...evictionsOf(state), ...state.reclaims, ...state.stops].map(({ decision }) => decision));
}

function leftOf(of: DecisionId, kept: readonly Kept[]): Left {
  let left: Left = { decision: null, begunMs: null, usedBefore: null, rungs: [], outcome: null };
  for (const { ids, lines } of kept) {
    if (!ids.includes(of)) continue;
    for (const { entry } of entriesOf(lines)) {
      if (!idsIn(entry).includes(of)) continue;
      if (entry.kind === 'decision') left = { ...left, decision: entry.decision };
      else if (entry.kind === 'outcome') left = { ...left, outcome: entry.outcome };
      else if (entry.kind === 'note') left = { ...left, ...noted(entry.note, left) };
    }
  }
  return left;
}

function noted(note: RecordNote, { rungs }: Left): Partial<Left> {
  if (note.kind === 'evidence') {
    const { stopBeganAtMs, usedBytes = null } = note;
    return { begunMs: stopBeganAtMs, usedBefore: usedBytes };
  }
  return note.kind === 'rung' ? { rungs: withRung(rungs, rungOf(note)) } : {};
}

/**
 * What an earlier run of this boot left. A decision that is not in its state was never begun and does not count, unless
 * something came after it: then the state was lost.
 */
function leftBy({ path, recordDirectory, dry, adopted }: UnsettledNeeds): readonly Kept[] {
  const text = readText(path, FILE_MAX_BYTES);
  if (!text.known || text.value === '') return [];
  const entries = entriesOf(text.value).filter(({ entry }) => entry.bootId === adopted.bootId);
  const begun = new Set(entries.flatMap(({ entry }) => (entry.kind === 'decision' ? [] : idsIn(entry))));
  const underWay = idsOf(adopted);
  const hasState = adopted.lastLookMs !== null;
  const isKnown = (id: DecisionId): boolean =>
    (hasState && numberOf(id) < adopted.nextDecision) || underWay.has(id) || begun.has(id);
  const wanted = entries.filter(({ entry }) => idsIn(entry).some(isKnown));
  if (wanted.length === 0) return [];
  const sinceWallMs = Math.min(...wanted.map(({ entry }) => entry.atWallMs));
  const lines = new Set(wanted.map(({ line }) => line));
  const recorded = recordedOf(lines, recordDirectory, { dry, bootId: adopted.bootId, sinceWallMs });
  return wanted.map(({ line, entry }) => ({ ids: idsIn(entry), lines: `${line}\n`, isRecorded: recorded.has(line) }));
}

function entriesOf(lines: string): readonly { readonly line: string; readonly entry: RecordEntry }[] {
  return lines.split('\n').flatMap((line) => {
    const entry = parseEntry(line);
    return entry === null ? [] : [{ line, entry }];
  });
}

/** The highest number in the ids of a boot's decisions in the file; 0 = none. */
export function lastPendingNumber(path: string, bootId: string): number {
  const text = readText(path, FILE_MAX_BYTES);
  const entries = text.known ? entriesOf(text.value).map(({ entry }) => entry) : [];
  return Math.max(
    0,
    ...entries.filter((entry) => entry.bootId === bootId).flatMap((entry) => idsIn(entry).map(numberOf)),
  );
}

/** The decisions that an entry kept here is about. */
function idsIn(entry: RecordEntry): readonly DecisionId[] {
  if (entry.kind === 'decision') return [entry.decision.id];
  if (entry.kind === 'outcome') return [entry.outcome.of];
  const isOfOne = entry.kind === 'note' && (entry.note.kind === 'evidence' || entry.note.kind === 'rung');
  return isOfOne ? [entry.note.of] : [];
}
