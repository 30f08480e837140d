import { stat } from 'node:fs/promises';
import type { Clock } from '../../ports.ts';
import { within } from '../clock.ts';

/** An idle pool takes microseconds. */
const FREE_MS = 1_000;

/**
 * Whether a call to a file system gets one of the threads that make them; false: others hold all of them, which hang. Asks
 * for what is on no disk.
 */
export function isThreadFree(clock: Clock): Promise<boolean> {
  const asked = stat('/proc/self').then(
    () => true,
    () => true,
  );
  return within(clock, FREE_MS, asked, () => false);
}
