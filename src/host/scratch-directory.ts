import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { known, type Reading, unknown } from '../core/reading.ts';

/** Names read at most; more in one directory for temporary files are left alone. */
const MAX_NAMES = 100_000;

/** A new directory with mode 0700 for temporary files; its name begins with `prefix`. */
export function makeScratchDirectory(prefix: string): Reading<string> {
  try {
    return known(mkdtempSync(join(tmpdir(), prefix)));
  } catch (cause) {
    return unknown('unreadable', tmpdir(), cause instanceof Error ? cause.message : String(cause));
  }
}

/** Names of directories that begin with `prefix`, belong to us and are closed to others: nobody else made them. */
export function listScratchDirectories(prefix: string): readonly string[] {
  let names: readonly string[];
  try {
    names = readdirSync(tmpdir()).slice(0, MAX_NAMES);
  } catch {
    return []; // Then nothing can be made there either, and that is said.
  }
  return names.filter((name) => name.startsWith(prefix)).filter((name) => isPrivate(join(tmpdir(), name)));
}

/** Removes what `makeScratchDirectory` made, never following a link. The sentence says why it is still there. */
export function removeScratchDirectory(path: string): string | null {
  try {
    rmSync(path, { recursive: true, force: true, maxRetries: 3, retryDelay: 20 });
    return null;
  } catch (cause) {
    return `${path} could not be removed: ${cause instanceof Error ? cause.message : String(cause)}`;
  }
}

export function scratchPath(name: string): string {
  return join(tmpdir(), name);
}

function isPrivate(path: string): boolean {
  try {
    const facts = lstatSync(path);
    return facts.isDirectory() && facts.uid === process.getuid?.() && (facts.mode & 0o077) === 0;
  } catch {
    return false; // Gone meanwhile.
  }
}
