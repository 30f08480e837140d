import { readKernelFile } from '../kernel-file.ts';

const LIMITS = '/proc/self/limits';
const LIMITS_BYTES = 16 * 1024;
/** The default soft limit of a process. */
const USUAL = 1_024;

/**
 * How many descriptors this process may have open: the soft limit, which Node raises to the hard one when it starts.
 */
export function maxOpenFiles(): number {
  const bytes = readKernelFile(LIMITS, LIMITS_BYTES);
  const soft = bytes.known ? /^Max open files +(\d+|unlimited) /m.exec(bytes.value.toString('latin1'))?.[1] : undefined;
  if (soft === 'unlimited') return Number.MAX_SAFE_INTEGER;
  return soft === undefined ? USUAL : Number(soft);
}
