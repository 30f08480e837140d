import { type Dir, opendirSync } from 'node:fs';
import { codeOf } from './file-error.ts';

/**
 * Names in the order of the file system, without `.` and `..`. One that vanishes meanwhile is not among them. Throws as opendir
 * does.
 */
export function* namesIn(path: string): Generator<string, void, void> {
  // One at a time: Node looks up each entry of a type that the kernel does not say, such as that of a process that has just
  // ended in /proc, and an error loses all that it has buffered.
  const directory = opendirSync(path, { bufferSize: 1 });
  try {
    for (let name = nextOf(directory); name !== null; name = nextOf(directory)) if (name !== VANISHED) yield name;
  } finally {
    directory.closeSync();
  }
}

const VANISHED = '';
function nextOf(directory: Dir): string | null {
  try {
    return directory.readSync()?.name ?? null;
  } catch (cause) {
    const isOfEntry = cause instanceof Error && 'syscall' in cause && cause.syscall === 'lstat';
    if (isOfEntry && codeOf(cause) === 'ENOENT') return VANISHED;
    throw cause;
  }
}
