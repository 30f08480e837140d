import { type ChildProcess, spawn } from 'node:child_process';
import { sayCause, type Unknown, unknown } from '../../core/reading.ts';
import { killGroup, letGo, startChild } from '../child-process.ts';
import { createClock } from '../clock.ts';
import { ENVIRONMENT, run } from '../exec.ts';

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
  unknown('timed-out', where, `no answer within ${ms / 1_000} s; the mount may hang, or the machine is very busy`);

/** Few, for a slow server may answer one after the other. */
const PARTS = 2;
/** Silence for so long is taken for a hang; after the first one, the files behind it have less time. */
const SILENCES_MS = [DEADLINE_MS, 1_000];

/** Why files among these may not be read, by path; the others answer. `mostMs`: those that have not answered by then may not. */
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
      if (rest.length === 0) return;
      const { read, ended } = await readUntilSilent(rest, silentMs, endMs - clock.monoMs());
      if (read >= rest.length) return;
      const [path = '', ...behind] = rest.slice(read);
      const isLate = clock.monoMs() >= endMs;
      if (ended !== null || isLate) {
        const why = ended ?? `not all of them were read within ${mostMs / 1_000} s`;
        const kind = ended === null ? 'timed-out' : 'unreadable';
        for (const unread of [path, ...behind]) hung.set(unread, unknown(kind, unread, why));
        return;
      }
      hung.set(path, noAnswer(path, silentMs));
      rest = behind;
    }
    for (const path of rest) hung.set(path, unknown('timed-out', path, 'not read: two files before it do not answer'));
  };
  await Promise.all(parts.map(readPart));
  return hung;
}

/** A line for each answer: whether it is a link, what it is or leads to, and what it holds. */
const READ =
  'for file; do [ -h "$file" ]; isLink=$?; echo; [ -f "$file" ]; isFile=$?; echo; [ $isLink$isFile = 10 ] && head -c 1048576 -- "$file" >/dev/null; echo; done';
const LINES = 3;

/** `read`: how many of them were read. `ended`: why the child reads no more; null: it was silent, or its time was over. */
type Progress = { readonly read: number; readonly ended: string | null };

/** A child reads them in turn, until nothing more comes for `silentMs`, or `mostMs` are over. */
function readUntilSilent(paths: readonly string[], silentMs: number, mostMs: number): Promise<Progress> {
  const clock = createClock();
  const child = startChild(
    (): ChildProcess =>
      spawn('sh', ['-c', READ, 'sh', ...paths], {
        env: ENVIRONMENT,
        detached: true,
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
  );
  if (typeof child === 'string') return Promise.resolve({ read: 0, ended: notTried(child) });
  let bytes = 0;
  return new Promise((resolve) => {
    let isDone = false;
    let isOver = false;
    const finish = (ended: string | null): void => {
      if (isDone) return;
      isDone = true;
      cancelSilence();
      cancelEnd();
      if (child.pid !== undefined) killGroup(child.pid);
      // In a call that no signal ends, it stays.
      letGo(child);
      for (const stream of child.stdio ?? []) stream?.destroy();
      resolve({ read: Math.floor(bytes / LINES), ended });
    };
    const silent = (): void => {
      // Due timers run before its output is read: after a pause of this process, there may be some.
      cancelSilence = clock.after(0, () => finish(null));
    };
    let cancelSilence = clock.after(silentMs, silent);
    const cancelEnd = clock.after(mostMs, () => {
      isOver = true;
      cancelSilence();
      silent();
    });
    child.stdout?.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (isOver) return;
      cancelSilence();
      cancelSilence = clock.after(silentMs, silent);
    });
    child.on('error', (cause) => finish(notTried(sayCause(cause))));
    child.on('close', (code, signal) => finish(notTried(`the child that reads it ended with ${signal ?? code}`)));
  });
}

const notTried = (why: string): string => `not read, for whether it answers is not known: ${why}`;
