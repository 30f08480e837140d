import type { Reading } from '../core/reading.ts';
import { type Check, listOf, parseJson } from '../core/shape.ts';
import { readText, renameFile, writeAtomic } from '../host/files.ts';
import { sayStamp } from '../host/record-disk.ts';
import type { Clock } from '../ports.ts';

/** As many manifests as there may be. */
export const MAX_REMEMBERED = 1_000;
export const remembered = (check: Check): Check => listOf(check, MAX_REMEMBERED);
const MAX_BYTES = 1024 * 1024;
const MODE = 0o640;

/** What an earlier run left there: null = nothing that can be used. `complaint`: it was kept aside. */
export function loadRuntimeFile<T>(
  path: string,
  read: (value: unknown) => T | null,
  clock: Clock,
): { readonly value: T | null; readonly complaint: string | null } {
  const text = readText(path, MAX_BYTES);
  if (!text.known && text.why === 'absent') return { value: null, complaint: null };
  const value = text.known ? read(parseJson(text.value)) : null;
  if (value !== null) return { value, complaint: null };
  const aside = `${path}.corrupt-${sayStamp(clock.wallMs())}`;
  const moved = renameFile(path, aside);
  const kept = moved.known ? `was kept as ${aside}` : `could not be renamed (${moved.detail})`;
  return { value: null, complaint: `${path} cannot be used and ${kept}` };
}

/** Null, or why it could not be written. */
export function saveRuntimeFile(path: string, value: object): string | null {
  // Nothing in it means anything after the boot, and a kill may wait for it.
  const written: Reading<true> = writeAtomic(path, `${JSON.stringify(value)}\n`, MODE, 'boot');
  return written.known ? null : `${written.where}: ${written.detail}`;
}
