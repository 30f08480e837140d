import { type ChildProcess, spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import { type Unknown, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { gather, letGo, startChild } from '../child-process.ts';
import { codeOf } from '../file-error.ts';

/**
 * A delay lock on shutdown, held by a child (dependencies.md 2.5). However this program ends, the child's input ends and the
 * lock is gone: a dead agent delays no shutdown.
 */
export type LockChild = {
  /** As logind lists it. */
  readonly pid: number;
  /** Resolves once the lock is gone: after some 3 ms, or by SIGKILL after 500 ms. */
  readonly release: () => Promise<void>;
  /** Runs once, with the reason, when the child has ended: also after `release`, and at once if it ended before. */
  readonly whenGone: (run: (detail: string) => void) => void;
};
export type LockAnswer =
  | { readonly kind: 'held'; readonly child: LockChild }
  /** A shutdown is in progress: logind grants no more locks. */
  | { readonly kind: 'too-late'; readonly detail: string }
  /** `absent`: this host has no systemd-inhibit. */
  | { readonly kind: 'failed'; readonly why: Unknown };
export type TakeLock = () => Promise<LockAnswer>;

export const LOCK_WHO = 'nodewarden';
const PROGRAM = 'systemd-inhibit';
const WHY = 'Stops pods in order before the machine goes down';
/** The child reports the lock after 8 to 17 ms on an idle machine. */
const TAKE_MS = 3_000;
const RELEASE_MS = 500;
/** After SIGKILL; longer only for a process in an uninterruptible sleep, whose lock cannot be taken. */
const KILL_MS = 1_000;
/** How long to wait for the last of its output after its end. */
const CLOSE_MS = 50;
const MAX_STDERR_BYTES = 2_048;

/** `held`: the child reports that it has the lock; the caller has to check whether logind lists it. */
export function takeInhibitLock(clock: Clock, env: NodeJS.ProcessEnv = process.env): Promise<LockAnswer> {
  const args = ['--what=shutdown', '--mode=delay', `--who=${LOCK_WHO}`, `--why=${WHY}`];
  const child = startChild(
    (): ChildProcess =>
      spawn(PROGRAM, [...args, '/bin/sh', '-c', 'echo locked; exec cat'], {
        cwd: '/',
        env: environment(env),
        stdio: ['pipe', 'pipe', 'pipe'],
      }),
  );
  if (typeof child === 'string') {
    return Promise.resolve({ kind: 'failed', why: unknown('unreadable', PROGRAM, child) });
  }
  const stderr = gather(child.stderr, MAX_STDERR_BYTES).text;
  const end = watchEnd(clock, child, stderr);
  // Its input breaks when the child ends first.
  child.stdin?.on('error', () => undefined);
  // The lock is released when this process ends.
  letGo(child);
  return new Promise((resolve) => {
    let isAnswered = false;
    const answer = (given: LockAnswer): void => {
      if (isAnswered) return;
      isAnswered = true;
      cancel();
      resolve(given);
    };
    const cancel = clock.after(TAKE_MS, () => {
      child.kill('SIGKILL');
      const detail = `no lock within ${TAKE_MS} ms${sayStderr(stderr())}`;
      answer({ kind: 'failed', why: unknown('timed-out', PROGRAM, detail) });
    });
    end.whenGone((detail) => answer(refusal(detail, end.spawnError())));
    whenLine(child.stdout, 'locked', () => {
      const { pid } = child;
      if (pid !== undefined) answer({ kind: 'held', child: lockOf({ clock, child, pid, end }) });
    });
  });
}

type End = { readonly whenGone: (run: (detail: string) => void) => void; readonly spawnError: () => Error | null };

function watchEnd(clock: Clock, child: ChildProcess, stderr: () => string): End {
  const runs: ((detail: string) => void)[] = [];
  let detail: string | null = null;
  let spawnError: Error | null = null;
  const gone = (why: string): void => {
    detail = why;
    for (const stream of child.stdio ?? []) stream?.destroy();
    for (const run of runs.splice(0)) run(why);
  };
  child.on('error', (cause) => {
    // If it has a pid, only a signal could not be sent.
    if (child.pid !== undefined) return;
    spawnError = cause;
    gone(cause.message);
  });
  child.on('exit', (code, signal) => {
    const how = signal === null ? `${PROGRAM} ended with status ${code}` : `${PROGRAM} was ended by ${signal}`;
    const say = (): void => gone(`${how}${sayStderr(stderr())}`);
    // By then its last output has been read. Another process that still holds its output must not delay the report.
    child.once('close', say);
    clock.after(CLOSE_MS, say);
  });
  return {
    whenGone: (run) => void (detail === null ? runs.push(run) : run(detail)),
    spawnError: () => spawnError,
  };
}

type Held = { readonly clock: Clock; readonly child: ChildProcess; readonly pid: number; readonly end: End };

function lockOf({ clock, child, pid, end }: Held): LockChild {
  const release = (): Promise<void> =>
    new Promise((resolve) => {
      let cancel = clock.after(RELEASE_MS, () => {
        child.kill('SIGKILL');
        cancel = clock.after(KILL_MS, resolve);
      });
      end.whenGone(() => {
        cancel();
        resolve();
      });
      child.stdin?.end();
    });
  return { pid, whenGone: end.whenGone, release };
}

/** logind's message while a shutdown is in progress, independent of the locale. */
const TOO_LATE = /already running/;

function refusal(detail: string, spawnError: Error | null): LockAnswer {
  if (TOO_LATE.test(detail)) return { kind: 'too-late', detail };
  if (spawnError === null) return { kind: 'failed', why: unknown('unreadable', PROGRAM, detail) };
  return codeOf(spawnError) === 'ENOENT'
    ? { kind: 'failed', why: unknown('absent', PROGRAM, 'it is not installed; it comes with systemd') }
    : { kind: 'failed', why: unknown('unreadable', PROGRAM, detail) };
}

/** Only what a child needs to find its programs and the bus. */
function environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const address = env['DBUS_SYSTEM_BUS_ADDRESS'];
  return { PATH: env['PATH'], ...(address === undefined ? {} : { DBUS_SYSTEM_BUS_ADDRESS: address }) };
}

const sayStderr = (text: string): string => {
  const line = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').trim();
  return line === '' ? '' : `: ${line}`;
};

function whenLine(stream: Readable | null, line: string, run: () => void): void {
  let text = '';
  stream?.on('data', (chunk: Buffer) => {
    text = `${text}${chunk.toString('latin1')}`.slice(0, MAX_STDERR_BYTES);
    if (text.split('\n').slice(0, -1).includes(line)) run();
  });
}
