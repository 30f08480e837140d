import { isFlag, isNumber, isOneOf, isText, orNull, parseJson, shape } from '../core/shape.ts';
import { readRotated } from '../record/reading/rotated.ts';

/**
 * What the guard of this machine keeps in its `stateDirectory` while it leads: what no ConfigMap tells. A dry run has no other
 * record.
 */
export type LocalEntry = {
  readonly schema: 1;
  readonly wallMs: number;
  readonly dryRun: boolean;
  /** `alive`: a node that would have been fenced shows life again. */
  readonly kind: (typeof KINDS)[number];
  /** Null: it is about none. */
  readonly node: string | null;
  /** That held it; null: none did. */
  readonly gate: string | null;
  readonly text: string;
};
const KINDS = ['would-fence', 'alive', 'held', 'storm-began', 'storm-ended', 'lost'] as const;

export const LOCAL_RECORD = 'record.jsonl';
/** Of a file, before it is rotated. */
export const LOCAL_RECORD_BYTES = 4 * 1024 * 1024;
export const LOCAL_LINE_START = '{"schema":1,';

const isEntry = shape<LocalEntry>({
  schema: isOneOf(1),
  wallMs: isNumber,
  dryRun: isFlag,
  kind: isOneOf(...KINDS),
  node: orNull(isText),
  gate: orNull(isText),
  text: isText,
});

export const sayLocalEntry = (entry: Omit<LocalEntry, 'schema'>): string =>
  `${JSON.stringify({ schema: 1, ...entry })}\n`;

export type LocalRecord = {
  /** Oldest first. */
  readonly entries: readonly LocalEntry[];
  /** What exists and could not be read: a sentence each. */
  readonly unreadable: readonly string[];
};

/** Without a record, it is empty. Lines that are no entries are passed over: a guard that was killed leaves a torn one. */
export function readLocalRecord(directory: string): LocalRecord {
  const entries: LocalEntry[] = [];
  const unreadable = readRotated(directory, LOCAL_RECORD, LOCAL_RECORD_BYTES, (line) => {
    const entry = parseJson(line);
    if (isEntry(entry)) entries.push(entry);
  });
  return { entries, unreadable };
}
