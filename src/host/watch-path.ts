import { type FSWatcher, lstatSync, watch } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { Clock } from '../ports.ts';
import { codeOf } from './file-error.ts';

/** Editors and package managers touch a file several times; one report covers them all. */
const DEBOUNCE_MS = 200;
/** A directory that never rests is reported so often. */
const LATEST_MS = 2_000;
/** While the parent directory is missing there is nothing to watch. */
const RETRY_MS = 5_000;
/**
 * All watches of a process share one queue, which holds 16,384 events (fs.inotify.max_queued_events). The kernel drops what
 * comes beyond, and Node.js does not say so. After so many at once every watch reports.
 */
const MANY_EVENTS = 1_000;
const watching = { seen: 0, all: new Set<() => void>() };
function countEvent(): void {
  watching.seen += 1;
  if (watching.seen === MANY_EVENTS) for (const report of watching.all) report();
}

export type WatchTold = {
  /** At once, with the name of the changed entry of the directory; null: anything may have changed. */
  readonly seen: (name: string | null) => void;
  /** Null: changes are reported from now on. Else the code of the error because of which they are not. */
  readonly armed: (error: string | null) => void;
};

/**
 * Calls `changed` 200 ms after the last change of a file, or of a directory's entries; also when it was replaced by
 * rename, removed or created, or when the kernel may have dropped a change. Calls may be late, duplicate or needless: read
 * the current state. The returned function stops watching.
 */
export function watchPath(path: string, changed: () => void, clock: Clock, told?: WatchTold): () => void {
  let watchers: FSWatcher[] = [];
  let cancel = (): void => undefined;
  let firstMs: number | null = null;
  let isToRenew = false;
  let error: string | null = null;
  const parent = dirname(path);
  // The name of the parent itself comes when that is moved or removed.
  const names: readonly (string | null)[] = [basename(path), basename(parent), null];

  const release = (): void => {
    for (const watcher of watchers) watcher.close();
    watchers = [];
  };
  const later = (ms: number, run: () => void): void => {
    cancel();
    cancel = clock.after(ms, run);
  };
  const add = (target: string, see: (name: string | null) => unknown): boolean => {
    try {
      const watcher = watch(target, { persistent: false }, (_, name) => {
        countEvent();
        see(name);
      });
      watcher.on('error', (cause) => {
        isToRenew = true;
        told?.armed(codeOf(cause) ?? '');
        later(RETRY_MS, renew);
      });
      watchers.push(watcher);
      return true;
    } catch (cause) {
      error = codeOf(cause) ?? '';
      return false; // Missing, or no inotify instance left: changes until a retry succeeds are reported then.
    }
  };
  const soon = (name: string | null): void => {
    told?.seen(name);
    const nowMs = clock.monoMs();
    firstMs ??= nowMs;
    later(Math.min(DEBOUNCE_MS, Math.max(0, firstMs + LATEST_MS - nowMs)), renew);
  };
  const all = (): void => {
    isToRenew = true;
    soon(null);
  };
  /** Watches are bound to inodes: what befalls the path itself renews them. False = nothing can be watched now. */
  const arm = (): boolean => {
    release();
    const isArmed = add(parent, (name) => names.includes(name) && all());
    isToRenew = !isArmed;
    if (!isArmed) later(RETRY_MS, renew);
    const ofEntry = (name: string | null): void => (names.includes(name) ? all() : soon(name));
    const isWhole = isArmed && (!isDirectory(path) || add(path, ofEntry));
    told?.armed(isWhole ? null : error);
    return isArmed;
  };
  const renew = (): void => {
    firstMs = null;
    watching.seen = 0;
    if (!isToRenew || arm()) changed();
  };
  arm();
  watching.all.add(all);
  return () => {
    watching.all.delete(all);
    cancel();
    release();
  };
}

function isDirectory(path: string): boolean {
  try {
    return lstatSync(path).isDirectory();
  } catch {
    return false; // Missing: its parent reports when it appears.
  }
}
