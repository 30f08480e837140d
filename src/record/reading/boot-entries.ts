import { known, type Reading } from '../../core/reading.ts';
import { RECORD_MAX_BYTES } from '../../host/record-disk.ts';
import { linesOf, openText } from '../../host/text-stream.ts';
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

async function readOne(directory: string, dry: boolean): Promise<Reading<readonly RecordEntry[]>> {
  const entries: RecordEntry[] = [];
  for (const name of [`${recordName(dry)}.1`, recordName(dry)]) {
    for await (const line of linesOf(openText(`${directory}/${name}`), 2 * RECORD_MAX_BYTES)) {
      if (!line.known) {
        if (line.why === 'absent') break;
        return line;
      }
      const { text } = line.value;
      const entry = WANTED.test(text.slice(0, HEAD_CHARS)) ? parseEntry(text) : null;
      if (entry !== null) entries.push(entry);
      if (entries.length > 2 * ENTRIES_MAX) entries.splice(0, ENTRIES_MAX);
    }
  }
  return known(entries.slice(-ENTRIES_MAX));
}
