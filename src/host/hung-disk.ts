import { type Unknown, unknown } from '../core/reading.ts';
import { run } from './exec.ts';

const DEADLINE_MS = 2_000;

/**
 * Why nothing on the file system of this path may be accessed; null: it answers. A child that can be killed makes the call: a
 * hanging call of our own would block a thread, and with it the end of this process.
 */
export async function diskHangs(path: string): Promise<Unknown | null> {
  const end = await run(['stat', '-f', '-c', '%S', '--', path], { timeoutMs: DEADLINE_MS, maxOutputBytes: 100 });
  if (end.kind !== 'timed-out') return null;
  return unknown('timed-out', `statfs ${path}`, `no answer within ${DEADLINE_MS / 1_000} s; the mount may hang`);
}
