import type { Reading } from '../core/reading.ts';
import { known } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { sleep } from './clock.ts';
import { listDirectory } from './files.ts';

const PROCESSES_MAX = 50_000;
/** At a time: the looks have to come in between. */
const SLICE = 100;

/** What `see` makes of the processes, given as their directories in /proc, until it has made so many. Null: none of it. */
export async function scanProcesses<T>(
  clock: Clock,
  see: (directory: string) => T | null,
  most: number,
  proc = '/proc',
): Promise<Reading<readonly T[]>> {
  const names = listDirectory(proc, PROCESSES_MAX);
  if (!names.known) return names;
  const found: T[] = [];
  for (const [at, pid] of names.value.filter((name) => /^\d+$/.test(name)).entries()) {
    if (found.length >= most) break;
    if (at % SLICE === SLICE - 1) await sleep(clock, 1);
    const one = see(`${proc}/${pid}`);
    if (one !== null) found.push(one);
  }
  return known(found);
}
