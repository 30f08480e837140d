import { momentNow } from '../../src/host/clock.ts';
import { emptyDirectory, type ToEmpty } from '../../src/host/disk/empty-directory.ts';
import { run } from '../../src/host/exec.ts';
import type { CommandRunner } from '../../src/host/systemd/transient.ts';

export const asChild: CommandRunner = ({ argv, timeoutMs, stdin = '' }) =>
  run(argv, { timeoutMs, stdin, maxOutputBytes: 1_000 });

/** Longer than the time of a file's last change may be behind. */
const SETTLE_MS = 30;

/** Empties a directory of a pod that has just ended and was never measured, beside no other pod. */
export async function empty(path: string, more: Partial<ToEmpty> = {}): Promise<string | null> {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const asked = { path, measured: null, kept: [], others: [], cgroup: null, end: momentNow(), ...more };
  return (await emptyDirectory(asChild, asked, 30_000))?.text ?? null;
}
