import { type FSWatcher, watch } from 'node:fs';
import type { Clock } from '../../ports.ts';

/**
 * A tenant at its own limit changes the counters all the time: after one event, further ones are ignored for this long.
 */
const REST_MS = 1_000;
/** A watch that worked once is retried if it is refused later. */
const RETRY_MS = 60_000;

/**
 * Calls `wake` when the kernel modifies the file: `memory.events` of cgroup v2; at most once a second. It only shortens
 * a wait and carries no value: every event may be late or missing. The returned function ends it.
 */
export function watchWakeups(path: string, clock: Clock, wake: () => void): () => void {
  let watcher: FSWatcher | null = null;
  let wasArmed = false;
  let cancel: () => void = () => undefined;
  const end = (): void => {
    watcher?.close();
    watcher = null;
  };
  const heard = (): void => {
    if (watcher === null) return;
    end();
    cancel = clock.after(REST_MS, begin);
    wake();
  };
  const begin = (): void => {
    try {
      watcher = watch(path, { persistent: false }, heard);
      wasArmed = true;
      // Only the early wake-up is lost; the pace alone is enough.
      watcher.on('error', end);
    } catch {
      // No such file (v1 has none), or no inotify instance left: again only the early wake-up is lost.
      if (wasArmed) cancel = clock.after(RETRY_MS, begin);
    }
  };
  begin();
  return () => {
    cancel();
    end();
  };
}
