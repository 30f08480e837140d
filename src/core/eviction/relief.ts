import type { PodView, Relief } from '../pod/pod.ts';
import type { Reading } from '../reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../signal.ts';

/**
 * D14: what the end of the pod is known to free or save of the signal: scratch directories that are emptied, files that only
 * its processes hold open, growth during the last minute or, for bytes, recent writes. Null: not measured in this mode, or
 * not a disk signal.
 */
export function reliefOf(signal: Signal, pod: PodView): number | null {
  const parts = partsOf(signal, pod);
  return parts === null ? null : parts.freed + parts.saved;
}

type Parts = { readonly freed: number; readonly saved: number };
function partsOf(signal: Signal, { diskRelief }: PodView): Parts | null {
  if (diskRelief === undefined || !isDisk(signal)) return null;
  if (!diskRelief.known) return { freed: 0, saved: 0 };
  const { scratch, deletedOpen, grownLastMinute, writtenBytes } = diskRelief.value;
  const isBytes = SIGNAL_FACTS[signal].unit === 'bytes';
  const amount = (of: Relief): number => orNone(isBytes ? of.bytes : of.inodes);
  // Writing bytes does not imply creating files.
  const saved = Math.max(amount(grownLastMinute), isBytes ? orNone(writtenBytes) : 0);
  return { freed: amount(scratch) + amount(deletedOpen), saved };
}

/** A pod whose end frees less than this share of what the signal lacks, and saves nothing, is no help. */
const LEAST_FREED = 0.01;

/** D14: whether its end is known to help. True if that is not measured. */
export function isHelp(signal: Signal, pod: PodView, lacking: number): boolean {
  const parts = partsOf(signal, pod);
  return parts === null || parts.saved > 0 || (parts.freed > 0 && parts.freed >= lacking * LEAST_FREED);
}

/** What the ranking compares is only a lower bound: the walk was cut short, or there was none. */
export function isAtLeast(signal: Signal, { usage, diskRelief }: PodView): boolean {
  if (!isDisk(signal)) return false;
  return usage.disk.known ? usage.disk.value.isAtLeast === true : diskRelief !== undefined;
}

const orNone = (reading: Reading<number>): number => (reading.known ? Math.max(0, reading.value) : 0);
