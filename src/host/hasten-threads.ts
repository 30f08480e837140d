import { readdirSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { hastenSession, hastenThread } from './priority.ts';
import { descentOf } from './procfs.ts';

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
