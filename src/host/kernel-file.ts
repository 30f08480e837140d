import { closeSync, constants, openSync, readSync } from 'node:fs';
import { known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { codeOf, fileUnknown } from './file-error.ts';

/**
 * A kernel file that stays open and is read again from its start: 1 to 7 µs instead of 10 to 66 for open, read
 * and close. Not for process lists: v1 serves an open one from a cache (architecture 2.4).
 */
type KernelFile = {
  /** The bytes are overwritten by the next read. */
  readonly read: () => Reading<Buffer>;
  readonly close: () => void;
};

const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const FIRST_BYTES = 4096;
const shared = Buffer.allocUnsafeSlow(4 * FIRST_BYTES);
/** More than a file with one number contains. */
export const NUMBER_BYTES = 64;
const LINE_END = 0x0a;
const BLANK = 0x20;
const TAB = 0x09;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;

/**
 * `at-once`: the kernel writes the file as one record, so a read that does not fill the buffer was complete. Reading on to
 * the end would make the kernel write all of it again, and double the time of a look.
 */
type Shown = 'at-once' | 'in-pieces';

/**
 * A text longer than `maxBytes` is malformed. The first read opens the file; it is reopened once if its cgroup was
 * replaced.
 */
export function openKernelFile(path: string | Buffer, maxBytes: number, shown: Shown): KernelFile {
  const buffer = Buffer.allocUnsafeSlow(Math.min(FIRST_BYTES, maxBytes + 1));
  return reopened(path, { path: path.toString(), maxBytes, shown, buffer, view: buffer });
}

function reopened(path: string | Buffer, text: Text): KernelFile {
  let fd: number | null = null;
  const close = (): void => {
    if (fd !== null) closeSync(fd);
    fd = null;
  };
  const read = (): Reading<Buffer> => {
    const wasOpen = fd !== null;
    try {
      fd ??= openSync(path, FLAGS);
      return fill(fd, text);
    } catch (cause) {
      close();
      // The cgroup that this descriptor belonged to is gone; there may be a new one under its path.
      if (wasOpen && codeOf(cause) === 'ENODEV') return read();
      return fileUnknown(text.path, cause);
    }
  };
  return { read, close };
}

/**
 * Opened now, at `path`, and never again: a later file at that path is not read. Unknowns name it `shownAs`. Only for files
 * that the kernel writes as one record. All of them share one buffer: the next read of any of them overwrites what was read.
 */
export function holdKernelFile(path: string, shownAs: string, maxBytes: number): Reading<KernelFile> {
  const text: Text = { path: shownAs, maxBytes, shown: 'at-once', buffer: shared, view: shared };
  try {
    const fd = openSync(path, FLAGS);
    const read = (): Reading<Buffer> => {
      try {
        return fill(fd, text);
      } catch (cause) {
        return fileUnknown(shownAs, cause);
      }
    };
    return known({ read, close: () => closeSync(fd) });
  } catch (cause) {
    return fileUnknown(shownAs, cause);
  }
}

/** Where to read from, and the buffer, which grows as needed. */
type Text = {
  readonly path: string;
  readonly maxBytes: number;
  readonly shown: Shown;
  buffer: Buffer;
  /** A view of `buffer` with the last length: most files keep theirs, and a new view costs as much as a read. */
  view: Buffer;
};

function fill(fd: number, text: Text): Reading<Buffer> {
  let length = 0;
  for (;;) {
    const count = readSync(fd, text.buffer, length, text.buffer.length - length, length);
    length += count;
    const isRoomLeft = length < text.buffer.length;
    if (count === 0 || (isRoomLeft && text.shown === 'at-once')) return known(viewOf(text, length));
    if (isRoomLeft) continue;
    if (length > text.maxBytes) return unknown('malformed', text.path, `longer than ${text.maxBytes} bytes`);
    const grown = Buffer.allocUnsafeSlow(Math.min(2 * text.buffer.length, text.maxBytes + 1));
    text.buffer.copy(grown);
    text.buffer = grown;
    text.view = grown;
  }
}

function viewOf(text: Text, length: number): Buffer {
  if (text.view.length !== length) text.view = text.buffer.subarray(0, length);
  return text.view;
}

/** A file that holds one number. */
export function openNumberFile(path: string): {
  readonly read: () => Reading<number>;
  /** `max`, and what v1 writes instead, is null: no limit. */
  readonly readLimit: () => Reading<number | null>;
  readonly close: () => void;
} {
  const file = openKernelFile(path, NUMBER_BYTES, 'at-once');
  return {
    read: () => {
      const bytes = file.read();
      return bytes.known ? parseCount(bytes.value, path) : bytes;
    },
    readLimit: () => {
      const bytes = file.read();
      return bytes.known ? parseLimit(bytes.value, path) : bytes;
    },
    close: file.close,
  };
}

/** Opens, reads and closes: for process lists and rarely read files. */
export function readKernelFile(path: string | Buffer, maxBytes: number): Reading<Buffer> {
  const file = openKernelFile(path, maxBytes, 'in-pieces');
  try {
    return file.read();
  } finally {
    file.close();
  }
}

/** The same into one shared buffer: the next read overwrites it. */
export function readKernelFileShared(path: string | Buffer, maxBytes: number): Reading<Buffer> {
  try {
    const fd = openSync(path, FLAGS);
    try {
      return fill(fd, { path: path.toString(), maxBytes, shown: 'in-pieces', buffer: shared, view: shared });
    } finally {
      closeSync(fd);
    }
  } catch (cause) {
    return fileUnknown(path.toString(), cause);
  }
}

/** A list of processes: a million pids. */
export const LISTED_BYTES = 8 * 1024 * 1024;

/** Freshly opened. Numbers of at most ten digits, each with its line end; the path is bytes. */
export function readListOfNumbers(path: Buffer, maxBytes: number): Reading<readonly number[]> {
  const read = readKernelFileShared(path, maxBytes);
  if (!read.known) return read;
  const numbers = numbersIn(read.value);
  return numbers === null ? unknown('malformed', path.toString(), 'not a list of processes') : known(numbers);
}

const DIGITS = 10;

function numbersIn(bytes: Buffer): readonly number[] | null {
  const numbers: number[] = [];
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(LINE_END, start);
    const number = end < 0 || end - start > DIGITS ? null : numberUpTo(bytes, start, end);
    if (number === null) return null;
    numbers.push(number);
    start = end + 1;
  }
  return numbers;
}

/** One decimal number and a line end, nothing else. Saturates at Number.MAX_SAFE_INTEGER. */
export function parseCount(bytes: Buffer, where: string): Reading<number> {
  const value = numberUpTo(bytes, 0, bytes.length - 1);
  if (value === null || bytes[bytes.length - 1] !== LINE_END) return malformed(bytes, where);
  return known(Math.min(value, Number.MAX_SAFE_INTEGER));
}

/** v1 writes "no limit" as 2^63 less a page; the kubelet takes everything above this for it (kubelet-eviction.md 1.1.5). */
const NO_LIMIT_ABOVE = 2 ** 62;
const MAX = Buffer.from('max\n');

function parseLimit(bytes: Buffer, where: string): Reading<number | null> {
  if (bytes.equals(MAX)) return known(null);
  const value = numberUpTo(bytes, 0, bytes.length - 1);
  if (value === null || bytes[bytes.length - 1] !== LINE_END) return malformed(bytes, where);
  return known(value > NO_LIMIT_ABOVE ? null : Math.min(value, Number.MAX_SAFE_INTEGER));
}

/** How a key is searched: at the start of a line. */
export type Key = { readonly text: string; readonly bytes: Buffer };

/** Includes the separator between name and number: `key('anon ')`, `key('MemTotal:')`. */
export function key(text: string): Key {
  return { text, bytes: Buffer.from(`\n${text}`) };
}

/**
 * The number in a line `<key><blanks><number><unit>`, among other lines. Null = there is no such line, and the text is
 * complete. A text that does not end with a line end was cut and is malformed; so is an empty one.
 */
export function parseKeyed(
  bytes: Buffer,
  { text, bytes: needle }: Key,
  unit: string,
  where: string,
): Reading<number> | null {
  if (bytes[bytes.length - 1] !== LINE_END) return malformed(bytes, where);
  const start = lineOf(bytes, needle);
  if (start === null) return null;
  let at = start;
  while (bytes[at] === BLANK || bytes[at] === TAB) at++;
  // Byte by byte: in a cold cache, a call into Node's own code costs a look more than the length of a line.
  let lineEnd = at;
  while (bytes[lineEnd] !== LINE_END) lineEnd++;
  const end = lineEnd - unit.length;
  const value = numberUpTo(bytes, at, end);
  if (value === null || (unit !== '' && bytes.toString('latin1', end, lineEnd) !== unit)) {
    return malformed(bytes.subarray(start - text.length, lineEnd), where);
  }
  return known(Math.min(value, Number.MAX_SAFE_INTEGER));
}

export const noLine = (where: string, name: string): Unknown => unknown('absent', where, `no line ${name}`);

/** Where the text after the needle begins. */
function lineOf(bytes: Buffer, needle: Buffer): number | null {
  if (startsWith(bytes, needle)) return needle.length - 1;
  const at = bytes.indexOf(needle);
  return at < 0 ? null : at + needle.length;
}

/** The needle begins with the line end that precedes it. */
function startsWith(bytes: Buffer, needle: Buffer): boolean {
  for (let i = 1; i < needle.length; i++) if (bytes[i - 1] !== needle[i]) return false;
  return true;
}

/** Digits only; a number that a double cannot represent exactly is rounded. */
function numberUpTo(bytes: Buffer, from: number, to: number): number | null {
  if (from >= to) return null;
  let value = 0;
  for (let i = from; i < to; i++) {
    const byte = bytes[i] ?? 0;
    if (byte < DIGIT_0 || byte > DIGIT_9) return null;
    value = value * 10 + (byte - DIGIT_0);
  }
  return value;
}

const SHOWN_BYTES = 40;

function malformed(bytes: Buffer, where: string): Unknown {
  if (bytes.length === 0) return unknown('malformed', where, 'empty');
  const shown = JSON.stringify(bytes.toString('latin1', 0, SHOWN_BYTES));
  return unknown('malformed', where, `not what the kernel writes there: ${shown}`);
}

/** Events, oom_control and the like: some hundred bytes. */
export const EVENTS_BYTES = 4096;

/** One line of a kernel file, freshly opened. Unknown `absent` also if it has no such line. */
export function readKeyed(path: string | Buffer, name: Key): Reading<number> {
  const bytes = readKernelFile(path, EVENTS_BYTES);
  return bytes.known ? keyedIn(bytes.value, name, path.toString()) : bytes;
}

export function keyedIn(bytes: Buffer, name: Key, path: string): Reading<number> {
  return parseKeyed(bytes, name, '', path) ?? unknown('absent', path, `no line ${name.text.trim()}`);
}

/** Of a text that the kernel would not write. */
const SHOWN_CHARACTERS = 40;

export function garbled(text: string, where: string): Unknown {
  const shown =
    text === '' ? 'empty' : `not what the kernel writes there: ${JSON.stringify(text.slice(0, SHOWN_CHARACTERS))}`;
  return unknown('malformed', where, shown);
}
