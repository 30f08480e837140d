import type { Reading } from '../../core/reading.ts';
import { type Check, listOf } from '../../core/shape.ts';
import { writeAtomic } from '../../host/files.ts';
import { keepAside, readOwnFile } from '../../host/own/own-file.ts';
import type { Clock, Findings } from '../../ports.ts';
import { STOPS_NOT_SAVED, stopsNotSaved } from '../../words/finding-standalone.ts';

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

const SAVE_AGAIN_MS = 10_000;

/** Keeps the file of what was stopped: while it cannot be written, a finding says so, and it is tried again. */
export function createStopsSaver(
  { clock, findings }: { readonly clock: Clock; readonly findings: Findings },
  by: keyof typeof STOPS_NOT_SAVED,
  write: () => string | null,
): { readonly save: () => void; readonly close: () => void } {
  let cancel: () => void = () => undefined;
  let isClosed = false;
  const save = (): void => {
    cancel();
    const complaint = write();
    if (complaint === null) findings.clear(STOPS_NOT_SAVED[by]);
    else findings.raise(stopsNotSaved(by, complaint));
    if (complaint !== null && !isClosed) cancel = clock.after(SAVE_AGAIN_MS, save);
  };
  return {
    save,
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}
