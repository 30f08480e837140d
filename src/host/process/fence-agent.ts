import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, constants, openSync, statfsSync, statSync, unlinkSync, writeSync } from 'node:fs';
import type { AgentEnd } from '../../core/guard/agent-run.ts';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { type Gathered, gather, killGroup, startChild } from '../child-process.ts';
import { createClock } from '../clock.ts';
import { ENVIRONMENT } from '../exec.ts';
import { fileUnknown } from '../file-error.ts';
import { programFault } from '../own/operator-program.ts';
import { endLeftovers, marksOf } from './leftovers.ts';

export const AGENT_DIRECTORY = '/usr/sbin';
const TIMEOUT = '/usr/bin/timeout';
const AGENT_NAME = /^fence_[A-Za-z0-9_-]{1,64}$/;
/** How long after the deadline `timeout` is believed to have done its work: this process itself may be late. */
const LATE_MS = 2_000;

export type AgentStart = {
  /** Its file in `directory`. */
  readonly agent: string;
  /** The whole standard input. */
  readonly input: string;
  /** More than 0; counted from the start of the process. */
  readonly deadlineMs: number;
  /** Of each stream; what comes after is read and dropped. */
  readonly maxOutputBytes: number;
  /** The process that all others of the run descend from. */
  readonly started?: (pid: number) => void;
  readonly directory?: string;
};

/** Changes with the file of the agent. Empty: it is not there. */
export function agentVersion(agent: string, directory = AGENT_DIRECTORY): string {
  try {
    const { dev, ino, size, mtimeMs } = statSync(`${directory}/${agent}`);
    return [dev, ino, size, mtimeMs].join(' ');
  } catch {
    return ''; // Running it says what is wrong.
  }
}

/**
 * Runs a fence agent once (guard.md 8.1): without arguments, shell or our environment, in a session of its own, under
 * timeout(1). That outlives us if we are killed, and ends the whole group at the deadline. Its input is a finished file,
 * for an agent that reads an early end of it does what is its default: reboot. Never rejects.
 */
export async function runFenceAgent(run: AgentStart, clock: Clock = createClock()): Promise<AgentEnd> {
  const { agent, deadlineMs, maxOutputBytes, directory = AGENT_DIRECTORY } = run;
  // To timeout(1), 0 means none.
  if (!(deadlineMs >= 1)) throw new Error(`a deadline of ${deadlineMs} ms`);
  if (!AGENT_NAME.test(agent)) return { kind: 'not-started', detail: 'this is not the name of a fence agent' };
  const path = `${directory}/${agent}`;
  const fault = programFault(path);
  if (fault !== null) return { kind: 'not-started', detail: fault };
  const input = openUnlinked(run.input);
  if (!input.known) return { kind: 'not-started', detail: `its input could not be written: ${input.detail}` };
  const argv = ['-s', 'KILL', (deadlineMs / 1_000).toFixed(3), path];
  const child = startChild(
    (): ChildProcess =>
      spawn(TIMEOUT, argv, { cwd: '/', env: ENVIRONMENT, detached: true, stdio: [input.value, 'pipe', 'pipe'] }),
  );
  closeSync(input.value);
  if (typeof child === 'string') return { kind: 'not-started', detail: child };
  return ofChild(
    child,
    { ...run, stdout: gather(child.stdout, maxOutputBytes), stderr: gather(child.stderr, maxOutputBytes) },
    clock,
  );
}

type Running = AgentStart & { readonly stdout: Gathered; readonly stderr: Gathered };
type Ended = { readonly code: number | null; readonly signal: string | null };

async function ofChild(
  child: ChildProcess,
  { deadlineMs, stdout, stderr, started }: Running,
  clock: Clock,
): Promise<AgentEnd> {
  const beganAtMs = clock.monoMs();
  let isClosed = false;
  child.once('close', () => {
    isClosed = true;
  });
  const { pid } = child;
  const ending = endOf(child, deadlineMs + LATE_MS, clock);
  if (pid === undefined) return { kind: 'not-started', detail: `${await ending}` };
  const marks = marksOf(pid);
  started?.(pid);
  const ended = await ending;
  if (typeof ended === 'string') killGroup(pid);
  const left = await endLeftovers(clock, marks, () => isClosed);
  for (const stream of child.stdio) stream?.destroy();
  const output = { left, stdout: stdout.text(), stderr: stderr.text(), isCut: stdout.isCut() || stderr.isCut() };
  if (typeof ended === 'string') return { kind: 'timed-out', ...output };
  const { code, signal } = ended;
  // timeout(1) ends itself with the group.
  const isKilled = signal === 'SIGKILL' || code === KILLED;
  if (isKilled && clock.monoMs() - beganAtMs >= deadlineMs) return { kind: 'timed-out', ...output };
  return code === null ? { kind: 'signalled', signal: String(signal), ...output } : { kind: 'exited', code, ...output };
}
const KILLED = 128 + 9;

/** A sentence: it could not be started, or it did not end in time. */
function endOf(child: ChildProcess, withinMs: number, clock: Clock): Promise<Ended | string> {
  return new Promise((resolve) => {
    // Due timers run before arrived ends are read: after a stall of this process, an end that is already here counts.
    let cancel = clock.after(withinMs, () => {
      cancel = clock.after(0, () => resolve(`it still ran after ${withinMs} ms`));
    });
    const end = (how: Ended | string): void => {
      cancel();
      resolve(how);
    };
    child.on('error', (cause) => end(cause.message));
    child.on('exit', (code, signal) => end({ code, signal }));
  });
}

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants;
const SHARED_MEMORY = '/dev/shm';
const TMPFS_MAGIC = 0x01021994;

/**
 * A descriptor of a file that holds the text, has no name and lies in memory: whoever it is handed to reads the text whole,
 * up to its end, from the beginning. It loses its name before the text is written, so that the text never has one.
 */
function openUnlinked(text: string, directory = SHARED_MEMORY): Reading<number> {
  try {
    if (statfsSync(directory).type !== TMPFS_MAGIC)
      return unknown('unreadable', directory, `${directory} is not in memory: mount a tmpfs there`);
    const path = `${directory}/nodewarden-${randomBytes(16).toString('hex')}`;
    const fd = openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      unlinkSync(path);
      const bytes = Buffer.from(text);
      // With a position, for a plain write would move on the place where the child begins to read.
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at, bytes.length - at, at);
      return known(fd);
    } catch (cause) {
      closeSync(fd);
      throw cause;
    }
  } catch (cause) {
    return fileUnknown(directory, cause);
  }
}
