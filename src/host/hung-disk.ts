import { type ChildProcess, spawn } from 'node:child_process';
import { type Unknown, unknown } from '../core/reading.ts';
import { killGroup, letGo, startChild } from './child-process.ts';
import { createClock } from './clock.ts';
import { ENVIRONMENT, run } from './exec.ts';

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
  return end.kind === 'timed-out' ? noAnswer(where, DEADLINE_MS) : null;
}

const noAnswer = (where: string, ms: number): Unknown =>
  unknown('timed-out', where, `no answer within ${ms / 1_000} s; the mount may hang`);

/** Few, for a slow server may answer one after the other. */
const PARTS = 2;
/** Silence for so long is taken for a hang; after the first one, the files behind it have less time. */
const SILENCES_MS = [DEADLINE_MS, 1_000];

/** Why files among these may not be read, by path; the others answer. `mostMs`: nothing is known of those not asked by then. */
export async function filesHang(
  paths: readonly string[],
  mostMs = Number.POSITIVE_INFINITY,
): Promise<ReadonlyMap<string, Unknown>> {
  const clock = createClock();
  const endMs = clock.monoMs() + mostMs;
  const hung = new Map<string, Unknown>();
  const size = Math.ceil(paths.length / PARTS);
  const parts = Array.from({ length: PARTS }, (_, i) => paths.slice(i * size, (i + 1) * size));
  const readPart = async (part: readonly string[]): Promise<void> => {
    let rest = part;
    for (const silentMs of SILENCES_MS) {
      const read = rest.length === 0 ? null : await readUntilSilent(rest, silentMs, endMs - clock.monoMs());
      if (read === null) return;
      const [path = '', ...behind] = rest.slice(read);
      hung.set(path, noAnswer(path, silentMs));
      rest = behind;
    }
    for (const path of rest) hung.set(path, unknown('timed-out', path, 'not read: two files before it do not answer'));
  };
  await Promise.all(parts.map(readPart));
  return hung;
}

/** A line for each answer: whether it is a link, what else it is, and what it holds. */
const READ =
  'for file; do [ -h "$file" ]; isLink=$?; echo; [ $isLink = 1 ] && [ -f "$file" ]; isFile=$?; echo; [ $isFile = 0 ] && head -c 1048576 -- "$file" >/dev/null; echo; done';
const LINES = 3;

/** A child reads them in turn. How many of them were read before nothing more came for `silentMs`; null: all, or time is over. */
function readUntilSilent(paths: readonly string[], silentMs: number, mostMs: number): Promise<number | null> {
  const clock = createClock();
  const child = startChild(
    (): ChildProcess =>
      spawn('sh', ['-c', READ, 'sh', ...paths], {
        env: ENVIRONMENT,
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
  );
  if (typeof child === 'string') return Promise.resolve(null);
  let bytes = 0;
  return new Promise((resolve) => {
    const finish = (read: number | null): void => {
      cancelSilence();
      cancelEnd();
      if (child.pid !== undefined) killGroup(child.pid);
      // In a call that no signal ends, it stays.
      letGo(child);
      for (const stream of child.stdio ?? []) stream?.destroy();
      resolve(read);
    };
    const silent = (): void => {
      // Due timers run before its output is read: after a pause of this process, there may be some.
      cancelSilence = clock.after(0, () => finish(Math.floor(bytes / LINES)));
    };
    let cancelSilence = clock.after(silentMs, silent);
    const cancelEnd = clock.after(mostMs, () => finish(null));
    child.stdout?.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      cancelSilence();
      cancelSilence = clock.after(silentMs, silent);
    });
    child.on('error', () => finish(null));
    child.on('exit', () => finish(null));
  });
}
