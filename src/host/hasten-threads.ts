import { readdirSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setPriority } from 'node:os';
import { descentOf } from './procfs.ts';
import { hastenSession } from './session-priority.ts';

const FIRST = -20;

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
  for (const tid of readdirSync('/proc/self/task').map(Number)) {
    try {
      if (tid !== process.pid) setPriority(tid, FIRST);
    } catch {
      return;
    }
  }
}
