import { constants, type Stats } from 'node:fs';
import { lstat, open, readdir } from 'node:fs/promises';
import { known, type Reading, unknown } from '../core/reading.ts';
import { fileUnknown } from './file-error.ts';
import { asDocument, whyDistrusted } from './files.ts';

// As files.ts reads, but off the event loop: on a file system that hangs, a call blocks a thread of the pool.

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

export type Examined = {
  /** Why it must not steer this program; null: it may. */
  readonly distrusted: string | null;
  /**
   * If it is the same as before, neither content nor entries have changed. Null: it changed so recently that a further change
   * might have the same stamp.
   */
  readonly stamp: string | null;
  /** By the wall clock. */
  readonly changedMs: number;
};

/** Longer than the coarsest clock by which a file system stamps a change (2 s on FAT). */
const STAMP_MS = 2_500;

export async function examine(path: string, wallMs: number): Promise<Reading<Examined>> {
  try {
    const facts = await lstat(path);
    return known({ distrusted: whyDistrusted(path, facts), stamp: stampOf(facts, wallMs), changedMs: facts.ctimeMs });
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

function stampOf({ ino, size, ctimeMs }: Stats, wallMs: number): string | null {
  return Math.abs(wallMs - ctimeMs) < STAMP_MS ? null : `${ino} ${size} ${ctimeMs}`;
}

/** Like `readDocument`, for a file that is not a link. `unreadable`: an error of the file system. */
export async function readDocumentBeside(path: string, maxBytes: number): Promise<Reading<string>> {
  try {
    const file = await open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
    try {
      const facts = await file.stat();
      if (!facts.isFile()) return unknown('malformed', path, 'not a regular file');
      if (facts.size > maxBytes) return unknown('malformed', path, `larger than ${maxBytes} bytes`);
      const bytes = Buffer.alloc(facts.size);
      let length = 0;
      for (let count = -1; count !== 0 && length < bytes.length; length += count) {
        ({ bytesRead: count } = await file.read(bytes, length, bytes.length - length, length));
      }
      return asDocument(path, bytes.toString('utf8', 0, length));
    } finally {
      await file.close();
    }
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}

/** Like `listDirectory`, for a directory that is not distrusted: all its names are read before they are counted. */
export async function listBeside(path: string, maxEntries: number): Promise<Reading<readonly string[]>> {
  try {
    const names = await readdir(path);
    return names.length > maxEntries ? unknown('unreadable', path, `more than ${maxEntries} entries`) : known(names);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}
