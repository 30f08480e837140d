import type { Reading } from '../../core/reading.ts';
import { known, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { sleep } from '../clock.ts';
import { listDirectory, readText } from '../files.ts';

const COMM_BYTES = 64;
const PROCESSES_MAX = 50_000;
/** How many at a time: looks must run in between. */
const SLICE = 100;

type Scan = {
  readonly proc?: string;
  /** `own`: those of the user we run as are enough. */
  readonly whose?: 'all' | 'own';
};

/**
 * What `see` returns for the processes, given as directories in /proc, until there are `most` results. Null is not one.
 */
export async function scanProcesses<T>(
  clock: Clock,
  see: (directory: string) => T | null,
  most: number,
  { proc = '/proc', whose = 'all' }: Scan = {},
): Promise<Reading<readonly T[]>> {
  const names = listDirectory(proc, PROCESSES_MAX);
  if (!names.known) return names;
  // Mounted with hidepid=, /proc hides processes from users other than root.
  const isAllSeen = whose === 'own' || process.getuid?.() === 0;
  const hidden = isAllSeen ? null : readText(`${proc}/1/comm`, COMM_BYTES);
  if (hidden?.known === false) return unknown('unreadable', proc, 'it shows no processes of other users');
  const found: T[] = [];
  for (const [at, pid] of names.value.filter((name) => /^\d+$/.test(name)).entries()) {
    if (found.length >= most) break;
    if (at % SLICE === SLICE - 1) await sleep(clock, 1);
    const one = see(`${proc}/${pid}`);
    if (one !== null) found.push(one);
  }
  return known(found);
}
