import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClock } from '../src/host/clock.ts';
import type { Left, Ran } from './judge.ts';
import type { Part } from './parts.ts';

const ROOT = path.join(import.meta.dirname, '..');
/** A lab removes its guests and cgroups before it ends. */
const CLEAN_UP_MS = 60_000;
const INTERRUPTED = 'the proof was interrupted';
const MOST_OUTPUT_CHARS = 16 * 2 ** 20;
const clock = createClock();

/** Runs the command to its end, or stops it after its time or on `interrupt`. Its output is copied to stderr. */
export async function run(part: Part, results: string, interrupt: AbortSignal): Promise<Ran | Left> {
  if (interrupt.aborted) return { why: INTERRUPTED };
  if (part.isForRoot && process.getuid?.() !== 0) return { why: 'only root can run it' };
  const loadBefore = Math.round((os.loadavg()[0] ?? 0) * 10) / 10;
  const startMs = clock.monoMs();
  // Otherwise benches would keep the results of an earlier, longer run.
  const env = { ...process.env, BENCH_RESULTS: results };
  const [command = '', ...args] = part.argv;
  // In a process group of its own, which can be ended as a whole, and which Ctrl-C does not reach.
  const child = spawn(command, args, { cwd: ROOT, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text = (text + chunk).slice(-MOST_OUTPUT_CHARS);
  });
  for (const stream of [child.stdout, child.stderr]) stream.pipe(process.stderr, { end: false });
  const ended = await endOf(child, part.minutes, interrupt);
  // An interrupted command proves nothing either way.
  if (interrupt.aborted) return { why: INTERRUPTED };
  return { seconds: Math.round((clock.monoMs() - startMs) / 1000), loadBefore, ended, ...part.read({ text, results }) };
}

/** Null if it exited with 0, in time. */
async function endOf(child: ChildProcess, minutes: number, interrupt: AbortSignal): Promise<string | null> {
  const gone = once(child, 'close').catch((error: Error) => [error.message]);
  const within = (ms: number, signal?: AbortSignal): Promise<boolean> =>
    Promise.race([
      gone.then(() => true),
      sleep(ms, false, { ref: false, ...(signal === undefined ? {} : { signal }) }),
    ]).catch(() => false);
  if (await within(minutes * 60_000, interrupt)) {
    const [how, signal] = await gone;
    return how === 0 ? null : `it ended with ${how ?? signal}`;
  }
  signalGroup(child, 'SIGTERM');
  if (!(await within(CLEAN_UP_MS))) signalGroup(child, 'SIGKILL');
  return `it was stopped after ${minutes} minutes`;
}

function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid !== undefined) process.kill(-pid, signal);
}
