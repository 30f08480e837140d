import { readdirSync, writeFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { codeOf } from '../file-error.ts';
import { descentOf } from '../procfs.ts';

const FIRST = -20;

/** The highest niceness. False: not permitted (CAP_SYS_NICE). */
export function hastenThread(tid: number): boolean {
  try {
    setPriority(tid, FIRST);
    return true;
  } catch (cause) {
    // SystemError of node:os has its code in `info`.
    return !(cause instanceof Error && /EACCES|EPERM/.test(cause.message));
  }
}

/**
 * Where the kernel shares the processors among sessions first (autogroup of sched(7)), the niceness of a process counts only
 * within its own. Gives that of a process the highest share. `later`: without CAP_SYS_ADMIN, the kernel changes one session in
 * 100 ms.
 */
export function hastenSession(pid: number): 'done' | 'later' | 'refused' {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(FIRST), { flag: 'r+' });
    return 'done';
  } catch (cause) {
    // Refused: there are no autogroups, the process is another user's or gone, or this may not have priority.
    return codeOf(cause) === 'EAGAIN' ? 'later' : 'refused';
  }
}

/**
 * Lets the threads that read files for the event loop run ahead of busy loops. They do not inherit the real-time priority of a
 * main thread that resets it on fork, and the sandbox denies it to them. Without CAP_SYS_NICE they stay as they are.
 */
export async function hastenThreads(): Promise<void> {
  // The session of a terminal is not this process's alone.
  const own = descentOf(process.pid);
  if (own.known && own.value.session === process.pid) hastenSession(process.pid);
  // Their first call starts them.
  await lstat('/');
  const others = readdirSync('/proc/self/task')
    .map(Number)
    .filter((tid) => tid !== process.pid);
  // Where it is not permitted for one, it is for none.
  others.every(hastenThread);
}
