import { type Unknown, unknown } from '../core/reading.ts';
import { run } from './exec.ts';

const DEADLINE_MS = 2_000;

/**
 * Why nothing on the file system of this path may be accessed; null: it answers. A child that can be killed makes the call: a
 * hanging call of our own would block a thread, and with it the end of this process.
 */
export function diskHangs(path: string): Promise<Unknown | null> {
  return hangs(`statfs ${path}`, ['stat', '-f', '-c', '%S', '--', path]);
}

/** The same for a directory that is to be listed: a disk may know its size by heart, and not answer for what it holds. */
export async function directoryHangs(path: string): Promise<Unknown | null> {
  const [disk, listing] = await Promise.all([diskHangs(path), hangs(path, ['ls', '-f', '--', path])]);
  return disk ?? listing;
}

async function hangs(where: string, command: readonly string[]): Promise<Unknown | null> {
  const end = await run(command, { timeoutMs: DEADLINE_MS, maxOutputBytes: 100 });
  if (end.kind !== 'timed-out') return null;
  return unknown('timed-out', where, `no answer within ${DEADLINE_MS / 1_000} s; the mount may hang`);
}
