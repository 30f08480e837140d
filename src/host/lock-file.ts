import { linkSync, readFileSync, renameSync, rmSync, unlinkSync, writeFileSync } from 'node:fs';
import { sayCause } from '../core/reading.ts';
import { codeOf } from './file-error.ts';

/**
 * Who runs on a directory, in a file with its boot, process and start time. A file, because Node has no flock(2); a
 * socket in the abstract namespace, which would end with its process, belongs to a network namespace, and the unit has one
 * of its own. A process that is stopped (SIGSTOP) or hangs keeps its lock; one that is dead, or a zombie, has lost it.
 */
export type Lock = {
  /** Whether the file still says so; if it is gone it is made again. A sentence: somebody else has taken it. */
  readonly keep: () => string | null;
  readonly release: () => void;
};
type Holder = { readonly pid: number; readonly state: string };

const MODE = 0o640;
/** Another one may take it, or give it back, in between. */
const TRIES = 5;

/** A sentence: who has it, or why it cannot be taken. */
export function takeLock(path: string, bootId: string): Lock | string {
  const mine = identity(bootId, process.pid);
  if (mine === null) return `${path}: the start time of this process cannot be read from /proc`;
  const take = (): string | null => {
    for (let i = 0; i < TRIES; i++) {
      try {
        if (create(path, mine.text)) return null;
        const text = readFileSync(path, 'latin1');
        if (text === mine.text) return null;
        const holder = holderOf(text, bootId);
        if (holder !== null) return sayHolder(path, holder);
        removeStale(path, text);
      } catch (cause) {
        if (codeOf(cause) !== 'ENOENT' || i === TRIES - 1) return `${path} cannot be taken: ${sayCause(cause)}`;
      }
    }
    return `${path} cannot be taken: others take it at the same time`;
  };
  const failed = take();
  if (failed !== null) return failed;
  return {
    keep: take,
    release: () => {
      try {
        if (readFileSync(path, 'latin1') === mine.text) unlinkSync(path);
      } catch {
        // Gone: nobody holds it.
      }
    },
  };
}

/** With its text from the first moment on. False: there is one already. */
function create(path: string, text: string): boolean {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, text, { mode: MODE });
  try {
    linkSync(own, path);
    return true;
  } catch (cause) {
    if (codeOf(cause) === 'EEXIST') return false;
    throw cause;
  } finally {
    rmSync(own, { force: true });
  }
}

/** The one with this text, and no other that was put there meanwhile. */
function removeStale(path: string, text: string): void {
  const aside = `${path}.stale.${process.pid}`;
  renameSync(path, aside);
  try {
    if (readFileSync(aside, 'latin1') !== text) linkSync(aside, path);
  } finally {
    rmSync(aside, { force: true });
  }
}

function identity(bootId: string, pid: number): { readonly text: string; readonly state: string } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the last ")" may contain anything; the start time is the 20th field after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { text: `${bootId} ${pid} ${fields[19]}\n`, state: fields[0] ?? '' };
  } catch {
    return null; // No such process.
  }
}

/** Null: it is dead, or what is written there is no lock. */
function holderOf(text: string, bootId: string): Holder | null {
  const pid = Number(text.split(' ')[1]);
  const now = Number.isSafeInteger(pid) && pid > 0 ? identity(bootId, pid) : null;
  return now === null || now.text !== text || now.state === 'Z' || now.state === 'X' ? null : { pid, state: now.state };
}

function sayHolder(path: string, { pid, state }: Holder): string {
  const isStopped = state === 'T' || state === 't';
  return `another nodewarden (process ${pid}${isStopped ? `, which is stopped: kill -CONT ${pid}` : ''}) has ${path}`;
}
