import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { known, type Reading, unknown } from '../core/reading.ts';
import { namesIn } from './directory-names.ts';
import { codeOf, fileUnknown } from './file-error.ts';

const { O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants;
/** Reused, because files are read too often for a new buffer each time. The content is copied out at once. */
const chunk = Buffer.allocUnsafeSlow(64 * 1024);

/**
 * Reads a regular file, and a link only if links are followed. Larger than `maxBytes` is unreadable; invalid UTF-8 becomes
 * U+FFFD.
 */
export function readText(path: string, maxBytes: number, links: 'refused' | 'followed' = 'refused'): Reading<string> {
  return fromFile(path, links === 'refused' ? O_NOFOLLOW : 0, (fd) => textOf(path, fd, maxBytes));
}

/** The same for a document that a person wrote: with invalid UTF-8 or U+FFFD, it could name something else. */
export function readDocument(
  path: string,
  maxBytes: number,
  links: 'refused' | 'followed' = 'refused',
): Reading<string> {
  const text = readText(path, maxBytes, links);
  return text.known ? asDocument(path, text.value) : text;
}

export function asDocument(path: string, text: string): Reading<string> {
  return text.includes('\uFFFD')
    ? unknown('malformed', path, 'it contains bytes that are not UTF-8 text')
    : known(text);
}

/** The last `maxBytes` of a regular file that is no link; the beginning may be in the middle of a line. */
export function readTail(path: string, maxBytes: number): Reading<string> {
  return fromFile(path, O_NOFOLLOW, (fd, size) =>
    known(readUpTo(fd, maxBytes, Math.max(0, size - maxBytes)).toString('utf8')),
  );
}

/** A regular file that is no link, whatever its name becomes. */
export type HeldFile = {
  readonly ino: number;
  /** As `readText`. */
  readonly text: (maxBytes: number) => Reading<string>;
  readonly close: () => void;
};

export function holdFile(path: string): Reading<HeldFile> {
  try {
    const fd = openSync(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    const facts = fstatSync(fd);
    const close = (): void => closeSync(fd);
    if (facts.isFile()) return known({ ino: facts.ino, text: (maxBytes) => textOf(path, fd, maxBytes), close });
    close();
    return notRegular(path);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

function textOf(path: string, fd: number, maxBytes: number): Reading<string> {
  try {
    const bytes = readUpTo(fd, maxBytes + 1);
    if (bytes.length > maxBytes) return unknown('unreadable', path, `larger than ${maxBytes} bytes`);
    return known(bytes.toString('utf8'));
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

const notRegular = (path: string): Reading<never> => unknown('unreadable', path, 'not a regular file');

function fromFile<T>(path: string, flags: number, use: (fd: number, size: number) => Reading<T>): Reading<T> {
  try {
    // O_NONBLOCK: opening a FIFO placed there must not wait for a writer.
    const fd = openSync(path, O_RDONLY | O_NONBLOCK | flags);
    try {
      const facts = fstatSync(fd);
      return facts.isFile() ? use(fd, facts.size) : notRegular(path);
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

function readUpTo(fd: number, maxBytes: number, from = 0): Buffer {
  const chunks: Buffer[] = [];
  // The size that stat names is no help: a file of /proc has none.
  for (let length = 0; length < maxBytes; ) {
    const wanted = Math.min(chunk.length, maxBytes - length);
    const count = readSync(fd, chunk, 0, wanted, from > 0 ? from + length : null);
    if (count === 0) break;
    chunks.push(Buffer.from(chunk.subarray(0, count)));
    length += count;
  }
  return Buffer.concat(chunks);
}

/**
 * What a write survives. `boot`: the end of its writer. `machine`: also a power cut, which costs an fsync of the file and of
 * its directory: 4 ms and more on a disk.
 */
type Outlives = 'machine' | 'boot';

/**
 * Replaces the file: temporary file, fsync, rename, fsync of the directory. On failure the old content stays and the
 * temporary file is removed. One writer per path: the temporary file has a fixed name that nothing else uses. So a writer
 * that was killed leaves at most one behind, and the next one replaces it.
 */
export function writeAtomic(path: string, text: string, mode: number, outlives: Outlives = 'machine'): Reading<true> {
  const temporary = `${path}.nodewarden-tmp`;
  try {
    try {
      writeNew(temporary, text, mode, outlives);
      renameSync(temporary, path);
    } catch (cause) {
      rmSync(temporary, { force: true });
      throw cause;
    }
    if (outlives === 'machine') syncDirectory(dirname(path));
    return known(true);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

/** Creates a file, completely or not at all. An existing one stays: unknown `unreadable`. */
export function writeFirst(path: string, text: string, mode: number): Reading<true> {
  const temporary = `${path}.nodewarden-tmp`;
  try {
    try {
      writeNew(temporary, text, mode, 'machine');
      // Unlike rename, it replaces nothing.
      linkSync(temporary, path);
    } finally {
      rmSync(temporary, { force: true });
    }
    syncDirectory(dirname(path));
    return known(true);
  } catch (cause) {
    return codeOf(cause) === 'EEXIST' ? unknown('unreadable', path, 'it exists already') : fileUnknown(path, cause);
  }
}

/** Like `writeAtomic`, but off the event loop, because the disk may hang. */
export async function writeBeside(path: string, text: string, mode: number): Promise<Reading<true>> {
  const temporary = `${path}.nodewarden-tmp`;
  try {
    await rm(temporary, { force: true });
    await writeFile(temporary, text, { mode, flag: 'wx', flush: true });
    await rename(temporary, path);
    return known(true);
  } catch (cause) {
    await rm(temporary, { force: true }).catch(() => undefined);
    return fileUnknown(path, cause);
  }
}

/** Appends to the file, which is created if missing. Takes 20 µs on tmpfs: a first signal waits for it. */
export function appendText(path: string, text: string, mode: number): Reading<true> {
  try {
    const fd = openSync(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK, mode);
    try {
      const bytes = Buffer.from(text);
      for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
    } finally {
      closeSync(fd);
    }
    return known(true);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

/** Whether the path is a device, a pipe, a socket or a link: writeAtomic would replace it for everything that uses it. */
export function isSpecialFile(path: string): boolean {
  const kind = kindOf(path);
  // Without one, writing reports what is wrong with the path.
  return kind !== null && kind !== 'file' && kind !== 'directory';
}

function writeNew(path: string, text: string, mode: number, outlives: Outlives): void {
  const fd = openNew(path, mode);
  try {
    // The umask removed bits from the mode given to open(2).
    fchmodSync(fd, mode);
    const bytes = Buffer.from(text);
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
    if (outlives === 'machine') fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Removes what a killed writer left behind only if there is something: checking first costs more than the write itself. */
function openNew(path: string, mode: number): number {
  const flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  try {
    return openSync(path, flags, mode);
  } catch (cause) {
    if (codeOf(cause) !== 'EEXIST') throw cause;
    unlinkSync(path);
    return openSync(path, flags, mode);
  }
}

function syncDirectory(path: string): void {
  const fd = openSync(path, O_RDONLY | O_DIRECTORY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Names in the order of the file system, without `.` and `..`; more than `maxEntries` is unreadable. */
export function listDirectory(path: string, maxEntries: number): Reading<readonly string[]> {
  try {
    const names: string[] = [];
    for (const name of namesIn(path)) {
      if (names.length === maxEntries) return unknown('unreadable', path, `more than ${maxEntries} entries`);
      names.push(name);
    }
    return known(names);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

/** Whether something exists at this path. A link counts as its target. */
export function isThere(path: string): Reading<boolean> {
  try {
    statSync(path);
    return known(true);
  } catch (cause) {
    const why = fileUnknown(path, cause);
    return why.why === 'absent' ? known(false) : why;
  }
}

export type FileKind = 'file' | 'directory' | 'symbolic link' | 'FIFO' | 'socket' | 'device';
/** What is at this path; null: nothing, or it cannot be examined. */
export function kindOf(path: string): FileKind | null {
  try {
    const facts = lstatSync(path);
    if (facts.isFile()) return 'file';
    if (facts.isDirectory()) return 'directory';
    if (facts.isSymbolicLink()) return 'symbolic link';
    if (facts.isFIFO()) return 'FIFO';
    return facts.isSocket() ? 'socket' : 'device';
  } catch {
    return null;
  }
}

/** Creates the directory and its parents if missing. An existing one keeps its mode. */
export function ensureDirectory(path: string, mode: number): Reading<true> {
  try {
    if (mkdirSync(path, { recursive: true, mode }) !== undefined) chmodSync(path, mode);
    else if (!statSync(path).isDirectory()) return unknown('unreadable', path, 'not a directory');
    return known(true);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

export function renameFile(from: string, to: string): Reading<true> {
  try {
    renameSync(from, to);
    return known(true);
  } catch (cause) {
    return fileUnknown(from, cause);
  }
}

/** The mode's bits for the group and others. An access list that lets further users write shows in those of the group. */
export const WRITABLE_BY_OTHERS = 0o022;
/** Others may write in such a directory, but not remove or rename what is not theirs. */
export const STICKY = 0o1000;

/**
 * Why a file or directory must not steer this program, as a sentence; null = owned by root (or by the user we run as)
 * and writable by no other user. A missing one is not distrusted: reading it reports that it is missing.
 */
export function distrust(path: string): string | null {
  try {
    return whyDistrusted(path, lstatSync(path));
  } catch (cause) {
    if (codeOf(cause) === 'ENOENT') return null;
    return `${path} cannot be examined: ${fileUnknown(path, cause).detail}`;
  }
}

export function whyDistrusted(path: string, facts: Stats): string | null {
  if (facts.isSymbolicLink()) return `${path} is a symbolic link; name the file itself`;
  if (facts.uid !== 0 && facts.uid !== process.getuid?.()) {
    return `${path} belongs to user ${facts.uid}; it must belong to root (chown root ${path})`;
  }
  if ((facts.mode & WRITABLE_BY_OTHERS) !== 0) {
    // With the sticky bit they are meant to.
    if (facts.isDirectory() && (facts.mode & STICKY) !== 0) return `${path} can be written by others: name another one`;
    return `${path} can be written by its group or by others (chmod go-w ${path})`;
  }
  return null;
}
