import type { ChildProcess } from 'node:child_process';
import { sayCause } from '../core/reading.ts';

/**
 * The child that `start` spawns, or why there is none. Without memory for a process, or with an argument that no command
 * may have, spawn throws; what else goes wrong is the child's `error`.
 */
export function startChild<C extends ChildProcess>(start: () => C): C | string {
  try {
    return start();
  } catch (cause) {
    return sayCause(cause);
  }
}

/** Neither the child nor its pipes keep this process alive. */
export function letGo(child: ChildProcess): void {
  // Without a descriptor to spare the child has no streams, whatever the types say; its `error` follows.
  for (const handle of [child, ...(child.stdio ?? [])]) {
    if (handle && 'unref' in handle && typeof handle.unref === 'function') handle.unref();
  }
}
