import { readdirSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { setPriority } from 'node:os';

const FIRST = -20;

/**
 * Lets the threads that read files for the event loop run ahead of busy loops. They do not inherit the real-time priority of a
 * main thread that resets it on fork, and the sandbox denies it to them. Without CAP_SYS_NICE they stay as they are.
 */
export async function hastenThreads(): Promise<void> {
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
