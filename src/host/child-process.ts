import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { sayCause } from '../core/reading.ts';

/**
 * The child that `start` spawns, or why there is none. If memory is short or an argument is not allowed, spawn throws; all
 * other failures are the child's `error`.
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
  // If no descriptor is left, the child has no streams, whatever the types say; its `error` follows.
  for (const handle of [child, ...(child.stdio ?? [])]) {
    if (handle && 'unref' in handle && typeof handle.unref === 'function') handle.unref();
  }
}

/** The group that a process leads or led: the kernel does not reuse its number while the group has a member. */
export function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL');
  } catch {
    // ESRCH: no process of the group is left.
  }
}

/** What a stream has given so far. `isCut`: more came than was kept. */
export type Gathered = { readonly text: () => string; readonly isCut: () => boolean };

/** Keeps the first `maxBytes` of a stream. The rest is read and dropped: a full pipe would stop the child. */
export function gather(stream: Readable | null, maxBytes: number): Gathered {
  const chunks: Buffer[] = [];
  let left = maxBytes;
  let isCut = false;
  stream?.on('data', (chunk: Buffer) => {
    if (chunk.length > left) isCut = true;
    if (left === 0) return;
    chunks.push(chunk.subarray(0, left));
    left = Math.max(0, left - chunk.length);
  });
  return { text: () => Buffer.concat(chunks).toString('utf8'), isCut: () => isCut };
}
