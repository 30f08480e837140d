import { type ChildProcess, spawn } from 'node:child_process';
import { gather, killGroup, letGo, startChild } from './child-process.ts';
import { createClock } from './clock.ts';

type ExecOptions = {
  readonly timeoutMs: number;
  readonly stdin?: string;
  /** Per stream; the rest is read and dropped. */
  readonly maxOutputBytes: number;
};
export type ExecResult =
  | { readonly kind: 'exited'; readonly code: number; readonly stdout: string; readonly stderr: string }
  /** Not started, or ended by a signal. */
  | { readonly kind: 'failed'; readonly detail: string }
  | { readonly kind: 'timed-out' };

/** Not our own environment: it may contain what a child must not see, and a PATH that someone else chose. */
export const ENVIRONMENT = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8' };

/**
 * Runs a command without a shell, in a process group of its own. When the command ends, or at the deadline, the rest of the
 * group gets SIGKILL. Never rejects, and resolves at the deadline even if a process that left the group holds its output.
 */
export function run(argv: readonly string[], options: ExecOptions): Promise<ExecResult> {
  const [program = '', ...args] = argv;
  const stdin = options.stdin === undefined ? 'ignore' : 'pipe';
  const child = startChild(
    (): ChildProcess =>
      spawn(program, args, { cwd: '/', env: ENVIRONMENT, detached: true, stdio: [stdin, 'pipe', 'pipe'] }),
  );
  if (typeof child === 'string') return Promise.resolve({ kind: 'failed', detail: child });
  const stdout = gather(child.stdout, options.maxOutputBytes);
  const stderr = gather(child.stderr, options.maxOutputBytes);
  // A command that does not read its input has not failed: its exit status counts.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(options.stdin);
  return new Promise((resolve) => {
    let ended: Ended | null = null;
    const finish = (result: ExecResult): void => {
      cancel();
      // If no descriptor is left, the child has no streams, whatever the types say.
      for (const stream of child.stdio ?? []) stream?.destroy();
      resolve(result);
    };
    const say = ({ code, signal }: Ended): ExecResult =>
      code === null
        ? { kind: 'failed', detail: `${program} was ended by ${signal}` }
        : { kind: 'exited', code, stdout: stdout.text(), stderr: stderr.text() };
    const end = (): void => {
      if (child.pid !== undefined) killGroup(child.pid);
    };
    const late = (): void => {
      end();
      // In a call that no signal ends, it stays.
      letGo(child);
      finish(ended === null ? { kind: 'timed-out' } : say(ended));
    };
    // Due timers run before its end is heard: after a pause of this process, it may have ended.
    let cancel = createClock().after(options.timeoutMs, () => {
      cancel = createClock().after(0, late);
    });
    child.on('error', (cause) => finish({ kind: 'failed', detail: cause.message }));
    child.on('exit', (code, signal) => {
      ended = { code, signal };
      end();
    });
    child.on('close', (code, signal) => finish(say(ended ?? { code, signal })));
  });
}

type Ended = { readonly code: number | null; readonly signal: string | null };
