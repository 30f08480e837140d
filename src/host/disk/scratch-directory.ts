import { accessSync, constants, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { known, type Reading, sayCause, unknown } from '../../core/reading.ts';

/** The maximum number of names read in one directory for temporary files; further ones are left alone. */
const MAX_NAMES = 100_000;

/** Used for `memory`. Linux has had it for twenty years; if it is missing, a disk must do. */
const SHARED_MEMORY = '/dev/shm';

/** A new directory with mode 0700 for temporary files; its name begins with `prefix`. */
export function makeScratchDirectory(prefix: string, on: 'disk' | 'memory'): Reading<string> {
  const place = on === 'memory' && isWritable(SHARED_MEMORY) ? SHARED_MEMORY : tmpdir();
  try {
    return known(mkdtempSync(join(place, prefix)));
  } catch (cause) {
    return unknown('unreadable', place, sayCause(cause));
  }
}

/**
 * Paths of directories that begin with `prefix`, belong to us and are closed to others, so nobody else created them.
 */
export function listScratchDirectories(prefix: string): readonly string[] {
  const places = [...new Set([tmpdir(), SHARED_MEMORY])];
  const paths = places.flatMap((place) => namesIn(place).map((name) => join(place, name)));
  return paths.filter((path) => basename(path).startsWith(prefix)).filter(isPrivate);
}

/** Removes what `makeScratchDirectory` created, never following a link. The sentence says why it still exists. */
export function removeScratchDirectory(path: string): string | null {
  try {
    rmSync(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
    return null;
  } catch (cause) {
    return `${path} could not be removed: ${sayCause(cause)}`;
  }
}

function namesIn(place: string): readonly string[] {
  try {
    return readdirSync(place).slice(0, MAX_NAMES);
  } catch {
    return []; // Then nothing can be created there either, which is reported.
  }
}

function isWritable(place: string): boolean {
  try {
    accessSync(place, constants.W_OK);
    return true;
  } catch {
    return false; // It does not exist, or we may not access it.
  }
}

function isPrivate(path: string): boolean {
  try {
    const facts = lstatSync(path);
    return facts.isDirectory() && facts.uid === process.getuid?.() && (facts.mode & 0o077) === 0;
  } catch {
    return false; // Gone meanwhile.
  }
}
