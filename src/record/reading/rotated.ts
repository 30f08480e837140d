import { type HeldFile, holdFile, listDirectory } from '../../host/files.ts';
import { RECORD_KEPT } from '../../host/record-disk.ts';

const DIRECTORY_ENTRIES_MAX = 10_000;

/**
 * Gives `each` the lines of a record and its rotated files, oldest first, also while they are rotated. A line may exceed the
 * size at which a file is rotated, so twice that is read of a file. Returns what exists and could not be read, with the reason.
 */
export function readRotated(
  directory: string,
  name: string,
  rotatedBytes: number,
  each: (line: string) => void,
): readonly string[] {
  const names = listDirectory(directory, DIRECTORY_ENTRIES_MAX);
  if (!names.known) return names.why === 'absent' ? [] : [`${directory}: ${names.detail}`];
  const unreadable: string[] = [];
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
  for (const file of oldestFirst) {
    const text = file.text(2 * rotatedBytes);
    file.close();
    if (text.known) eachLine(text.value, each);
    else unreadable.push(`${text.where}: ${text.detail}`);
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
