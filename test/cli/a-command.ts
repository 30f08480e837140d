import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { type OpenSocket, serveSocket } from '../../src/serve/socket.ts';

export type Ended = { readonly code: number | null; readonly out: string; readonly err: string };
type Answers = Partial<Pick<Parameters<typeof serveSocket>[0], 'answer' | 'observe'>>;

const NOBODY = 65_534;

/**
 * For the tests of a `describe`: the program as a child process, and a directory that holds a configuration with the
 * socket of a daemon that `serve` stands in for. Each test has its own.
 */
export function aCommand() {
  const clock = createClock();
  let directory = '';
  let socket: OpenSocket | null = null;
  let child: ChildProcess | null = null;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-cli-'));
    const text = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nsocket: ${directory}/nw.sock\n`;
    writeFileSync(join(directory, 'config.yaml'), text, { mode: 0o644 });
  });
  afterEach(async () => {
    child?.kill('SIGKILL');
    child = null;
    await away();
    rmSync(directory, { recursive: true, force: true });
  });

  /** `out()`: what it has printed up to now. */
  function start(args: readonly string[], input = '', user: { readonly uid?: number; readonly gid?: number } = {}) {
    const started = spawn(process.execPath, ['--import', 'tsx', 'src/main.ts', ...args], {
      cwd: fileURLToPath(new URL('../..', import.meta.url)),
      stdio: 'pipe',
      ...user,
    });
    child = started;
    // Who does not read its input may be gone before it is written.
    started.stdin.on('error', () => undefined);
    started.stdin.end(input);
    let out = '';
    let err = '';
    started.stdout.on('data', (text) => {
      out += text;
    });
    started.stderr.on('data', (text) => {
      err += text;
    });
    const ended = new Promise<Ended>((resolve) => {
      started.on('close', (code) => resolve({ code, out, err }));
    });
    return { ended, out: () => out, kill: (signal: NodeJS.Signals) => started.kill(signal) };
  }

  async function serve(answers: Answers): Promise<void> {
    const served = await serveSocket({
      clock,
      path: join(directory, 'nw.sock'),
      groupId: null,
      answer: () => null,
      observe: () => new Promise(() => undefined),
      ...answers,
    });
    if (served.known) socket = served.value;
  }

  async function away(): Promise<void> {
    await socket?.close();
    socket = null;
  }

  return {
    start,
    serve,
    /** The daemon ends. */
    away,
    run: (args: readonly string[], input = ''): Promise<Ended> => start(args, input).ended,
    /** As a user who owns nothing. Only root can. */
    runAsNobody: (args: readonly string[]): Promise<Ended> => {
      chmodSync(directory, 0o755);
      return start(args, '', { uid: NOBODY, gid: NOBODY }).ended;
    },
    path: (name: string): string => join(directory, name),
    /** The arguments that name the socket. */
    config: (): readonly string[] => ['--config', join(directory, 'config.yaml')],
    /** What a command says that needs the daemon when there is none. */
    notRunning: (): Ended => ({
      code: 3,
      out: '',
      err: `nodewarden is not running: nothing listens on ${directory}/nw.sock; start it with: nodewarden run --config ${directory}/config.yaml\n`,
    }),
    /** Until it holds, or the child has ended. */
    until: async (holds: () => boolean): Promise<void> => {
      while (!holds() && child?.exitCode === null) await new Promise<void>((resolve) => clock.after(20, resolve));
    },
  };
}
