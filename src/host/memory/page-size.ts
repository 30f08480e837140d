import { known, type Reading, unknown } from '../../core/reading.ts';
import { readKernelFile } from '../kernel-file.ts';

const AUXV = '/proc/self/auxv';
const AUXV_BYTES = 4_096;
const ENTRY_BYTES = 16;
const AT_PAGESZ = 6;

/**
 * The page size of this kernel, because counters in memory.stat are in pages. From the auxiliary vector; 64-bit,
 * little-endian.
 */
export function pageBytes(): Reading<number> {
  const bytes = readKernelFile(AUXV, AUXV_BYTES);
  if (!bytes.known) return bytes;
  for (let at = 0; at + ENTRY_BYTES <= bytes.value.length; at += ENTRY_BYTES) {
    if (bytes.value.readUInt32LE(at) === AT_PAGESZ) return known(bytes.value.readUInt32LE(at + 8));
  }
  return unknown('malformed', AUXV, 'no page size');
}
