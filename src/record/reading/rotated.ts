import { listDirectory, readText } from '../../host/files.ts';
import { RECORD_KEPT } from '../../host/record-disk.ts';

const DIRECTORY_ENTRIES_MAX = 10_000;

/**
 * Gives `each` the lines of a record and its rotated files, oldest first. A line may exceed the size at which a file is
 * rotated, so twice that is read of a file. Returns what exists and could not be read, with the reason.
 */
export function readRotated(
  directory: string,
  name: string,
  rotatedBytes: number,
  each: (line: string) => void,
): readonly string[] {
  const names = listDirectory(directory, DIRECTORY_ENTRIES_MAX);
  if (!names.known) return names.why === 'absent' ? [] : [`${directory}: ${names.detail}`];
  const oldestFirst = Array.from({ length: RECORD_KEPT }, (_, i) => `${name}.${RECORD_KEPT - i}`);
  const unreadable: string[] = [];
  for (const file of [...oldestFirst, name].filter((wanted) => names.value.includes(wanted))) {
    const text = readText(`${directory}/${file}`, 2 * rotatedBytes);
    if (text.known) eachLine(text.value, each);
    else unreadable.push(`${directory}/${file}: ${text.detail}`);
  }
  return unreadable;
}

/** One by one: splitting a file that consists of line ends would take 300 MiB. */
export function eachLine(text: string, each: (line: string) => void): void {
  for (let from = 0, end = 0; end < text.length; from = end + 1) {
    end = text.indexOf('\n', from);
    if (end < 0) end = text.length;
    if (end > from) each(text.slice(from, end));
  }
}
