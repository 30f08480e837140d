import type { MonoMs, Reading } from '../core/reading.ts';

/** For values that only an operator changes: read again after `paceMs`, and at every call while unknown. */
export function cachedFor<T>(paceMs: number, read: () => Reading<T>): (atMs: MonoMs) => Reading<T> {
  let last: { readonly atMs: MonoMs; readonly reading: Reading<T> } | null = null;
  return (atMs) => {
    if (last === null || !last.reading.known || atMs - last.atMs >= paceMs) last = { atMs, reading: read() };
    return last.reading;
  };
}
