import { type FSWatcher, watch } from 'node:fs';

/**
 * Calls `wake` when the kernel modifies one of the files: `memory.events` and `cgroup.events` of cgroup v2. It only
 * shortens a wait and carries no value: every event may be late, doubled or missing. The returned function ends it.
 */
export function watchWakeups(paths: readonly string[], wake: () => void): () => void {
  const watchers: FSWatcher[] = [];
  for (const path of paths) {
    try {
      const watcher = watch(path, { persistent: false }, wake);
      // What is lost is the early wake-up; the pace alone serves.
      watcher.on('error', () => watcher.close());
      watchers.push(watcher);
    } catch {
      // No such file (v1 has none), or no inotify instance left: again only the early wake-up is lost.
    }
  }
  return () => {
    for (const watcher of watchers) watcher.close();
  };
}
