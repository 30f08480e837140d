import type { DecisionId } from '../core/decision.ts';
import type { State } from '../core/state.ts';
import { readText, writeAtomic } from '../host/files.ts';
import type { Findings } from '../ports.ts';
import { parseEntry } from './entry.ts';
import { readRecord } from './record-file.ts';

/** Decisions that the record's disk has not taken yet, beside the live state: an agent that is killed loses none. */
export type IntentFile = {
  /** Written before the state, within the look; on tmpfs as the state is. */
  readonly add: (ids: readonly DecisionId[], lines: string) => void;
  readonly settle: (ids: readonly DecisionId[]) => void;
};

/** More than the lines of a verdict with some evictions of 1,000 pods each. */
const MAX_BYTES = 32 * 1024 * 1024;
/** A disk that takes nothing for long: the oldest are left to the memory of the record. */
const UNSETTLED_MAX = 100;
/** All of it is written anew before a first signal. A decision among 1,000 pods has some 0.5 MB. */
const UNSETTLED_CHARS = 4 * 1024 * 1024;
const FINDING = 'intent-file';

export function createIntentFile(path: string, findings: Findings): IntentFile {
  const unsettled = new Map<string, string>();
  const write = (): void => {
    const written = writeAtomic(path, [...unsettled.values()].join(''), 0o640, 'boot');
    const then = 'an agent that is killed now may leave a decision out of the record';
    if (written.known) findings.clear(FINDING);
    else findings.raise({ id: FINDING, text: `${path} cannot be written (${written.detail}): ${then}` });
  };
  /** From the oldest on; never the newest. */
  const tooMany = (): readonly string[] => {
    let chars = 0;
    return [...unsettled].reverse().flatMap(([ids, lines], i) => {
      chars += lines.length;
      return i > 0 && (i >= UNSETTLED_MAX || chars > UNSETTLED_CHARS) ? [ids] : [];
    });
  };
  return {
    add: (ids, lines) => {
      unsettled.set(ids.join(), lines);
      for (const oldest of tooMany()) unsettled.delete(oldest);
      write();
    },
    settle: (ids) => {
      if (unsettled.delete(ids.join()) && unsettled.size === 0) write();
    },
  };
}

/**
 * The lines that an earlier run of this boot decided and did not get onto the disk. What its state does not know of was
 * never begun and does not count.
 */
export function lostIntents(path: string, recordDirectory: string, adopted: State, dry: boolean): readonly string[] {
  const text = readText(path, MAX_BYTES);
  if (!text.known || text.value === '') return [];
  const entries = text.value.split('\n').flatMap((line) => {
    const entry = parseEntry(line);
    return entry?.kind === 'decision' ? [{ line, entry }] : [];
  });
  const sinceWallMs = Math.min(...entries.map(({ entry }) => entry.atWallMs));
  const recorded = new Set(
    readRecord(recordDirectory, { dry, sinceWallMs }).entries.flatMap((entry) =>
      entry.kind === 'decision' ? [entry.decision.id] : [],
    ),
  );
  return entries
    .filter(({ entry }) => entry.bootId === adopted.bootId && numberOf(entry.decision.id) < adopted.nextDecision)
    .filter(({ entry }) => !recorded.has(entry.decision.id))
    .map(({ line }) => `${line}\n`);
}

const numberOf = (id: DecisionId): number => Number(id.slice(id.lastIndexOf('-') + 1));
