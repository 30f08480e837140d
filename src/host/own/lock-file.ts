import { linkSync, readFileSync, readlinkSync, renameSync, rmSync, symlinkSync, unlinkSync } from 'node:fs';
import { sayCause } from '../../core/reading.ts';
import { codeOf } from '../file-error.ts';

/**
 * Which process uses a directory: a dangling symbolic link whose target is its boot, process and start time. It is created
 * with its text in one step, and needs no block on a full disk. Node.js has no flock(2). A socket in the abstract namespace
 * would end with its process, but belongs to a network namespace, and the unit has its own. A process that is stopped
 * (SIGSTOP) or hangs keeps its lock; a dead process or a zombie has lost it.
 */
export type Lock = {
  /** Checks that the link still names this process; recreates it if it is gone. */
  readonly keep: () => NotTaken | null;
  readonly release: () => void;
};
/** As a sentence. `isHeld`: another process has it. */
type NotTaken = { readonly why: string; readonly isHeld: boolean };
type Holder = { readonly pid: number; readonly state: string };

/** Another process may take or release it in between. */
const TRIES = 5;

export function takeLock(path: string, bootId: string): Lock | NotTaken {
  const mine = identity(bootId, process.pid);
  const cannot = (why: string): NotTaken => ({ why, isHeld: false });
  if (mine === null) return cannot(`${path}: the start time of this process cannot be read from /proc`);
  const take = (): NotTaken | null => {
    for (let i = 0; i < TRIES; i++) {
      try {
        if (create(path, mine.text)) return null;
        const text = textOf(path);
        if (text === mine.text) return null;
        const holder = holderOf(text, bootId);
        if (holder !== null) return { why: sayHolder(path, holder), isHeld: true };
        removeStale(path, text);
      } catch (cause) {
        if (codeOf(cause) !== 'ENOENT' || i === TRIES - 1) return cannot(`${path} cannot be taken: ${sayCause(cause)}`);
      }
    }
    return { why: `${path} cannot be taken: others take it at the same time`, isHeld: true };
  };
  const failed = take();
  if (failed !== null) return failed;
  return {
    keep: take,
    release: () => {
      try {
        if (textOf(path) === mine.text) unlinkSync(path);
      } catch {
        // It is gone, so nobody holds it.
      }
    },
  };
}

/** The lock of the agent that acts; a dry run beside it has one of its own. */
export const actingLock = (runtimeDirectory: string): string => `${runtimeDirectory}/lock`;

/** Whether another process has it. */
export function isLocked(path: string, bootId: string): boolean {
  try {
    const holder = holderOf(textOf(path), bootId);
    return holder !== null && holder.pid !== process.pid;
  } catch {
    return false; // There is none.
  }
}

/** False: there is one already. */
function create(path: string, text: string): boolean {
  try {
    symlinkSync(text, path);
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    throw cause;
  }
}

/** An earlier version wrote a file instead of a link; its text is read, too. */
function textOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch (cause) {
    if (codeOf(cause) !== 'EINVAL') throw cause;
    return readFileSync(path, 'latin1').trimEnd();
  }
}

/** Removes the lock with this text, but no other that replaced it meanwhile. */
function removeStale(path: string, text: string): void {
  const aside = `${path}.stale.${process.pid}`;
  renameSync(path, aside);
  try {
    if (textOf(aside) !== text) linkSync(aside, path);
  } finally {
    rmSync(aside, { force: true });
  }
}

function identity(bootId: string, pid: number): { readonly text: string; readonly state: string } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the last ")" may contain anything; the start time is the 20th field after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { text: `${bootId} ${pid} ${fields[19]}`, state: fields[0] ?? '' };
  } catch {
    return null; // No such process.
  }
}

/** Null: the holder is dead, or the file is not a lock. */
function holderOf(text: string, bootId: string): Holder | null {
  const pid = Number(text.split(' ')[1]);
  const now = Number.isSafeInteger(pid) && pid > 0 ? identity(bootId, pid) : null;
  return now === null || now.text !== text || now.state === 'Z' || now.state === 'X' ? null : { pid, state: now.state };
}

function sayHolder(path: string, { pid, state }: Holder): string {
  const isStopped = state === 'T' || state === 't';
  return `another nodewarden (process ${pid}${isStopped ? `, which is stopped: kill -CONT ${pid}` : ''}) has ${path}`;
}
