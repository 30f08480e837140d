import type { PodView, Relief } from './pod.ts';
import type { Reading } from './reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from './signal.ts';

/**
 * D14: what the end of the pod is known to free or save of the signal: scratch that is emptied, files that only its
 * processes hold, growth of the last minute or, of bytes, what it wrote lately. Null: nobody measures it in this mode, or
 * the signal is of no disk.
 */
export function reliefOf(signal: Signal, { diskRelief }: PodView): number | null {
  if (diskRelief === undefined || !isDisk(signal)) return null;
  if (!diskRelief.known) return 0;
  const { scratch, deletedOpen, grownLastMinute, writtenBytes } = diskRelief.value;
  const isBytes = SIGNAL_FACTS[signal].unit === 'bytes';
  const amount = (of: Relief): number => orNone(isBytes ? of.bytes : of.inodes);
  // Who writes bytes need not make files.
  const saved = Math.max(amount(grownLastMinute), isBytes ? orNone(writtenBytes) : 0);
  return amount(scratch) + amount(deletedOpen) + saved;
}

/** Only a lower bound is known of what the ranking compares: a walk that was cut short, or nobody looked at all. */
export function isAtLeast(signal: Signal, { usage, diskRelief }: PodView): boolean {
  if (!isDisk(signal)) return false;
  return usage.disk.known ? usage.disk.value.isAtLeast === true : diskRelief !== undefined;
}

const orNone = (reading: Reading<number>): number => (reading.known ? Math.max(0, reading.value) : 0);
