import { constants } from 'node:fs';
import { chmod, chown, type FileHandle, lstat, mkdir, open, rename, stat } from 'node:fs/promises';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { codeOf, fileUnknown } from '../file-error.ts';

/**
 * A file of lines that are appended, and that is rotated. Everything is asynchronous, even the write: on a frozen, hung or
 * throttled disk, write(2) itself blocks, and no decision may wait for that. One call at a time.
 */
export type RecordDisk = {
  /** Resolves once the whole text is on the disk; if unknown, nothing of it is. Never rejects. */
  readonly append: (text: string) => Promise<Reading<true>>;
  /**
   * If the file was removed, moved away or replaced, it is recreated with its directory and the old content, which can be read
   * while the old file is open here. Never rejects.
   */
  readonly check: () => Promise<void>;
  /** Text that a full disk delayed until after this opens the file separately. */
  readonly close: () => Promise<void>;
  /** After close: the file stays open again. */
  readonly reopen: () => void;
};
type RecordDiskNeeds = {
  readonly clock: Clock;
  readonly directory: string;
  readonly name: string;
  /** How every line of the file begins; a file with any other line is corrupt. */
  readonly lineStart: string;
  /** The file was corrupt and is kept aside under this path. */
  readonly onCorrupt: (keptAs: string, line: number) => void;
  /** The file had been removed or replaced. */
  readonly onRestored: () => void;
  readonly maxBytes?: number;
};

/** product.md section 10. */
export const RECORD_MAX_BYTES = 16 * 1024 * 1024;
export const RECORD_KEPT = 4;
const CHUNK_BYTES = 64 * 1024;
const COPY_BYTES = 1024 * 1024;
const LINE_END = 0x0a;

type OpenFile = {
  readonly handle: FileHandle;
  readonly ino: number;
  sizeBytes: number;
  isTorn: boolean;
  /** How much was written when the file was last seen in its place. */
  seenBytes: number;
};
type Owner = { readonly gid: number; readonly mode: number };

export function openRecordDisk(needs: RecordDiskNeeds): RecordDisk {
  const path = `${needs.directory}/${needs.name}`;
  const maxBytes = needs.maxBytes ?? RECORD_MAX_BYTES;
  let file: OpenFile | null = null;
  let isClosed = false;
  let isLost = false;
  /** The directory's owner, as first found or created. */
  let owner: Owner | null = null;
  const openAgain = async (): Promise<OpenFile> => {
    const isMade = (await mkdir(needs.directory, { recursive: true, mode: 0o750 })) !== undefined;
    if (isMade && owner !== null) await giveTo(needs.directory, owner);
    owner ??= await stat(needs.directory);
    return openChecked(needs, path);
  };
  const closeFile = async (): Promise<void> => {
    const open = file;
    file = null;
    await open?.handle.close();
  };
  const restore = async (): Promise<void> => {
    if (file === null) return;
    const old = file;
    const there = await inodeOf(path);
    if (there === old.ino) {
      old.seenBytes = old.sizeBytes;
      return;
    }
    isLost = true;
    const next = await openAgain().catch((error: unknown) => {
      throw new Error(`it was removed while in use, and cannot be recreated: ${sayCause(error)}`);
    });
    // The file in its place may contain everything except later writes. A rotated file stays where readers look for it.
    if (!(await isRotated(path, old.ino))) await copy(old, next.sizeBytes === 0 ? 0 : old.seenBytes, next);
    file = next;
    isLost = false;
    needs.onRestored();
    await old.handle.close();
  };
  const write = async (text: string): Promise<void> => {
    if (isLost) await restore();
    if (file !== null && file.sizeBytes > 0 && file.sizeBytes + text.length > maxBytes) {
      await closeFile();
      await rotate(path);
    }
    // Not `file ??= await`: a write to an open file must start in this turn, so that it runs in parallel with the
    // caller.
    if (file === null) file = await openAgain();
    await writeWhole(file, text);
  };
  return {
    append: async (text) => {
      try {
        await write(text);
        return known(true);
      } catch (error) {
        return unknown('unreadable', path, sayCause(error));
      } finally {
        if (isClosed) await closeFile().catch(() => undefined);
      }
    },
    check: async () => {
      // If this fails, it is retried before the next text, which then reports why it was not written.
      await restore().catch(() => undefined);
    },
    close: () => {
      isClosed = true;
      return closeFile();
    },
    reopen: () => {
      isClosed = false;
    },
  };
}

/** Null: there is no such file. */
async function inodeOf(path: string): Promise<number | null> {
  try {
    return (await lstat(path)).ino;
  } catch (error) {
    if (fileUnknown(path, error).why === 'absent') return null;
    throw error;
  }
}

async function isRotated(path: string, ino: number): Promise<boolean> {
  for (let n = 1; n <= RECORD_KEPT; n++) if ((await inodeOf(`${path}.${n}`)) === ino) return true;
  return false;
}

async function giveTo(directory: string, { gid, mode }: Owner): Promise<void> {
  // A user who may not change the group created it with the user's own group.
  await chown(directory, -1, gid).catch(() => undefined);
  await chmod(directory, mode & 0o7777);
}

async function copy(from: OpenFile, position: number, to: OpenFile): Promise<void> {
  const chunk = Buffer.alloc(COPY_BYTES);
  for (let at = position; ; ) {
    const { bytesRead } = await from.handle.read(chunk, 0, COPY_BYTES, at);
    if (bytesRead === 0) break;
    at += bytesRead;
    await writeBytes(to, chunk.subarray(0, bytesRead));
  }
  to.isTorn = from.isTorn;
}

async function writeWhole(file: OpenFile, text: string): Promise<void> {
  // Ends the torn line of a killed process, or one that could not be truncated, so that the next line is complete.
  await writeBytes(file, Buffer.from(file.isTorn ? `\n${text}` : text));
}

async function writeBytes(file: OpenFile, bytes: Buffer): Promise<void> {
  let done = 0;
  try {
    while (done < bytes.length) {
      const { bytesWritten } = await file.handle.write(bytes, done, bytes.length - done, null);
      done += bytesWritten;
    }
    file.sizeBytes += bytes.length;
    file.isTorn = false;
  } catch (error) {
    // ENOSPC in the middle of a line: if the part cannot be truncated, the next text begins with a line end.
    const isCutOff = await cutOff(file, done).catch(() => false);
    file.isTorn ||= !isCutOff;
    throw error;
  }
}

/** False: the file does not have the size that our writes gave it, so lines of another writer would be cut off, too. */
async function cutOff(file: OpenFile, writtenBytes: number): Promise<boolean> {
  const { size } = await file.handle.stat();
  const isOurs = size === file.sizeBytes + writtenBytes;
  if (isOurs) await file.handle.truncate(file.sizeBytes);
  else file.sizeBytes = size;
  return isOurs;
}

async function openChecked(needs: RecordDiskNeeds, path: string): Promise<OpenFile> {
  const first = await openFile(path);
  const found = await check(first.handle, needs.lineStart).catch(async (error: unknown) => {
    await first.handle.close();
    throw error;
  });
  if (found.badLine === null) return { ...first, isTorn: found.isTorn };
  await first.handle.close();
  const keptAs = `${path}.corrupt-${sayStamp(needs.clock.wallMs())}`;
  await rename(path, keptAs);
  needs.onCorrupt(keptAs, found.badLine);
  return openFile(path);
}

async function openFile(path: string): Promise<OpenFile> {
  const { O_APPEND, O_CREAT, O_DSYNC, O_NOFOLLOW, O_RDWR } = constants;
  // O_DSYNC instead of a later fsync: durable after one trip to the thread pool instead of two.
  const handle = await open(path, O_RDWR | O_APPEND | O_CREAT | O_DSYNC | O_NOFOLLOW, 0o640);
  try {
    const facts = await handle.stat();
    const { size, ino } = facts;
    if (!facts.isFile()) throw new Error('it is not a regular file: move it away');
    if (size === 0) await syncDirectory(path.slice(0, path.lastIndexOf('/')));
    return { handle, ino, sizeBytes: size, isTorn: false, seenBytes: size };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Checks only how lines begin: this takes milliseconds, and distinguishes a damaged disk from the torn line of a killed process. */
async function check(
  handle: FileHandle,
  lineStart: string,
): Promise<{ readonly badLine: number | null; readonly isTorn: boolean }> {
  const start = Buffer.from(lineStart);
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let line = 1;
  let column = 0;
  for (let position = 0; ; ) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, position);
    if (bytesRead === 0) return { badLine: null, isTorn: column > 0 };
    for (let i = 0; i < bytesRead; ) {
      while (column < start.length && i < bytesRead && chunk[i] !== LINE_END) {
        if (chunk[i++] !== start[column++]) return { badLine: line, isTorn: false };
      }
      const end = chunk.subarray(0, bytesRead).indexOf(LINE_END, i);
      if (end < 0) {
        column += bytesRead - i;
        break;
      }
      i = end + 1;
      line++;
      column = 0;
    }
    position += bytesRead;
  }
}

/** record.jsonl.3 becomes .4, and so on; the old .4 is lost. */
async function rotate(path: string): Promise<void> {
  for (let n = RECORD_KEPT; n >= 1; n--) {
    const from = n === 1 ? path : `${path}.${n - 1}`;
    await rename(from, `${path}.${n}`).catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
    });
  }
}

/** 20260131T120000Z: sorts by time, and needs no quoting in a shell. */
export function sayStamp(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19).replace(/[-:]/g, '')}Z`;
}
