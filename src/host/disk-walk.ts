import { type ChildProcess, spawn } from 'node:child_process';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { letGo, startChild } from './child.ts';
import { WALK_PROGRAM } from './disk-walk-program.ts';

/** `isComplete` false: the walk was cut short, and the figures mean "at least". */
export type WalkedDisk = { readonly bytes: number; readonly inodes: number; readonly isComplete: boolean };
export type DiskWalker = {
  /**
   * What the directories hold together: st_blocks and inodes, a file with several names once. Never follows a symbolic
   * link, never leaves the file system of each directory, opens no file. A directory that does not exist holds nothing;
   * one that cannot be opened makes the whole sum unknown. Ends by itself after a minute with `isComplete` false. `soFar`
   * hears now and then what was counted: at least that much is there. A child that hangs in the kernel gets SIGKILL; the
   * promise stays open until that helps, and who asked keeps the deadline (observe/pod-disk.ts).
   */
  readonly walk: (paths: readonly string[], soFar?: (least: WalkedDisk) => void) => Promise<Reading<WalkedDisk>>;
  readonly close: () => void;
};

/** A start takes some 40 ms of CPU: one child serves a whole round. It holds some 45 MiB while it lives. */
const IDLE_MS = 1_000;
/** It says something after each slice of 5 ms. A slow disk may take its time for a directory; a dead mount takes it for ever. */
const USUAL: WalkBounds = { deadlineMs: 60_000, silentMs: 10_000 };
const MAX_LINE = 64 * 1024;
/** Nothing of our own environment is of use to it. A small young generation: it keeps nothing for long. */
const FLAGS = ['--max-semi-space-size=1', '--max-old-space-size=64', '--v8-pool-size=1'];

/** `deadlineMs`: of a walk. `silentMs`: what says nothing for so long hangs. */
export type WalkBounds = { readonly deadlineMs: number; readonly silentMs: number };
type Asked = {
  readonly soFar: (least: WalkedDisk) => void;
  readonly resolve: (reading: Reading<WalkedDisk>) => void;
};
type Walking = { readonly child: ChildProcess; readonly asked: Map<number, Asked>; cancelTimer: () => void };

/**
 * Walks directories in a child of its own, which is there only while somebody asks: a call for each file costs a tenth
 * of what a trip through the thread pool does, and a file system that hangs holds nothing but the child.
 */
export function createDiskWalker(clock: Clock, { deadlineMs, silentMs }: WalkBounds = USUAL): DiskWalker {
  let current: Walking | null = null;
  let lastId = 0;

  const leave = (walking: Walking): void => {
    walking.cancelTimer();
    if (current === walking) current = null;
  };
  /** The next sign of life is waited for, or, with nothing to do, the next question. */
  const expect = (walking: Walking): void => {
    walking.cancelTimer();
    const isIdle = walking.asked.size === 0;
    walking.cancelTimer = clock.after(isIdle ? IDLE_MS : silentMs, () => {
      leave(walking);
      if (isIdle) walking.child.stdin?.end();
      else walking.child.kill('SIGKILL');
    });
  };
  const start = (): Walking | string => {
    const args = [...FLAGS, '--eval', WALK_PROGRAM];
    const child = startChild(
      (): ChildProcess => spawn(process.execPath, args, { cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'] }),
    );
    if (typeof child === 'string') return child;
    const walking: Walking = { child, asked: new Map(), cancelTimer: () => undefined };
    const end = (detail: string): void => {
      leave(walking);
      for (const { resolve } of walking.asked.values()) resolve(unknown('unreadable', 'disk walk', detail));
      walking.asked.clear();
    };
    child.on('error', (cause) => end(cause.message));
    child.on('exit', (code, signal) => end(`the child that walks directories ended with ${signal ?? code}`));
    // Its input breaks when it ends first.
    child.stdin?.on('error', () => undefined);
    eachLine(child, (line) => {
      if (hear(walking, line)) expect(walking);
    });
    // The agent's end waits for no walk.
    letGo(child);
    return walking;
  };

  return {
    walk: (paths, soFar = () => undefined) =>
      new Promise((resolve) => {
        const walking = current ?? start();
        if (typeof walking === 'string') return resolve(unknown('unreadable', 'disk walk', walking));
        current = walking;
        const id = ++lastId;
        walking.asked.set(id, { soFar, resolve });
        walking.child.stdin?.write(`${JSON.stringify({ id, paths, deadlineMs })}\n`);
        expect(walking);
      }),
    close: () => {
      if (current === null) return;
      current.child.kill('SIGKILL');
      leave(current);
    },
  };
}

/** False: not what the child says. */
function hear({ child, asked }: Walking, line: string): boolean {
  const said = parse(line);
  const asker = said === null ? undefined : asked.get(said.id);
  if (said === null || asker === undefined) {
    child.kill('SIGKILL');
    return false;
  }
  if (said.kind === 'least') {
    asker.soFar(said.walked);
    return true;
  }
  asked.delete(said.id);
  asker.resolve(said.kind === 'done' ? known(said.walked) : unknown('unreadable', said.path, said.detail));
  return true;
}

type Said =
  | { readonly id: number; readonly kind: 'least'; readonly walked: WalkedDisk }
  | { readonly id: number; readonly kind: 'done'; readonly walked: WalkedDisk }
  | { readonly id: number; readonly kind: 'failed'; readonly path: string; readonly detail: string };

/** Our own program wrote it: only its shape is looked at. */
function parse(line: string): Said | null {
  try {
    const [id, kind, first, second, isComplete]: unknown[] = JSON.parse(line);
    if (typeof id !== 'number') return null;
    if (kind === 'failed') return { id, kind, path: String(first), detail: String(second) };
    if (kind !== 'least' && kind !== 'done') return null;
    return { id, kind, walked: { bytes: Number(first), inodes: Number(second), isComplete: isComplete === true } };
  } catch {
    return null; // Something else wrote there: the caller ends it.
  }
}

function eachLine({ stdout }: ChildProcess, run: (line: string) => void): void {
  let text = '';
  stdout?.setEncoding('utf8');
  stdout?.on('data', (chunk: string) => {
    text += chunk;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
      run(text.slice(0, at));
      text = text.slice(at + 1);
    }
    if (text.length > MAX_LINE) run('');
  });
}
