import { known, type Reading } from '../../core/reading.ts';
import { RECORD_KEPT, RECORD_MAX_BYTES } from '../../host/record-disk.ts';
import { type HeldText, holdText, linesOf } from '../../host/text-stream.ts';
import { parseEntry, type RecordEntry } from '../entry.ts';
import { recordName } from './record-file.ts';

/** Boots and shutdowns leave few lines; a report reads no more than this. */
const ENTRIES_MAX = 20_000;
/** The heads of the lines of interest. The basis of decisions is most of the record, and is skipped unread. */
const WANTED =
  /"kind":"(?:note|outcome)"|"kind":"decision".{0,120}"kind":"(?:stop-for-shutdown|release-lock|take-lock|undo-stops)"/;
const HEAD_CHARS = 400;

/**
 * The entries about how boots ended, of the real record followed by the dry one: a reload changes from one to the other. Of
 * each, the two newest files, oldest first. They are read line by line, so that this affects neither memory nor looks.
 * Unknown: a file exists but cannot be read.
 */
export async function readBootEntries(directory: string): Promise<Reading<readonly RecordEntry[]>> {
  const real = await readOne(directory, false);
  if (!real.known) return real;
  const dry = await readOne(directory, true);
  return dry.known ? known([...real.value, ...dry.value]) : dry;
}

const FILES = 2;

async function readOne(directory: string, dry: boolean): Promise<Reading<readonly RecordEntry[]>> {
  const held: HeldText[] = [];
  try {
    // Newest first: a file that is renamed meanwhile moves to a name that is yet to come, and is found there.
    for (let n = 0; n <= RECORD_KEPT && held.length < FILES; n++) {
      const file = await holdText(`${directory}/${recordName(dry)}${n === 0 ? '' : `.${n}`}`);
      if (!file.known && file.why !== 'absent') return file;
      if (!file.known) continue;
      if (held.some(({ ino }) => ino === file.value.ino)) await file.value.close();
      else held.push(file.value);
    }
    return await entriesOf(held.toReversed());
  } finally {
    await Promise.all(held.map(({ close }) => close()));
  }
}

async function entriesOf(oldestFirst: readonly HeldText[]): Promise<Reading<readonly RecordEntry[]>> {
  const entries: RecordEntry[] = [];
  for (const { pieces } of oldestFirst) {
    for await (const line of linesOf(pieces, 2 * RECORD_MAX_BYTES)) {
      if (!line.known) return line;
      const { text } = line.value;
      const entry = WANTED.test(text.slice(0, HEAD_CHARS)) ? parseEntry(text) : null;
      if (entry !== null) entries.push(entry);
      if (entries.length > 2 * ENTRIES_MAX) entries.splice(0, ENTRIES_MAX);
    }
  }
  return known(entries.slice(-ENTRIES_MAX));
}
