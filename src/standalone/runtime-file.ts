import type { Reading } from '../core/reading.ts';
import { type Check, listOf } from '../core/shape.ts';
import { writeAtomic } from '../host/files.ts';
import { keepAside, readOwnFile } from '../host/own-file.ts';
import type { Clock } from '../ports.ts';

/** The maximum number of manifests. */
export const MAX_REMEMBERED = 1_000;
export const remembered = (check: Check): Check => listOf(check, MAX_REMEMBERED);
const MODE = 0o640;

/** What an earlier run left there; null = nothing usable. `complaint`: it was kept aside. */
export function loadRuntimeFile<T>(
  path: string,
  read: (value: unknown) => T | null,
  clock: Clock,
): { readonly value: T | null; readonly complaint: string | null } {
  const found = readOwnFile(path, read);
  const value = found.known ? found.value : null;
  const isFine = value !== null || (!found.known && found.why === 'absent');
  return { value, complaint: isFine ? null : `${path} cannot be used and ${keepAside(path, clock)}` };
}

/** Null, or why it could not be written. */
export function saveRuntimeFile(path: string, value: object): string | null {
  // Its content is meaningless after this boot, and a kill may wait for the write.
  const written: Reading<true> = writeAtomic(path, `${JSON.stringify(value)}\n`, MODE, 'boot');
  return written.known ? null : `${written.where}: ${written.detail}`;
}
