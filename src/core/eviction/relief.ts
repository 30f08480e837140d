import { countedOf, type PodView, type Relief } from '../pod/pod.ts';
import type { Reading, Unknown } from '../reading.ts';
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

/** The most that it may be, as far as files that several pods have are concerned. */
export function mostReliefOf(signal: Signal, pod: PodView): number {
  const { diskRelief } = pod;
  const more = diskRelief?.known ? diskRelief.value.unattributed : undefined;
  return (reliefOf(signal, pod) ?? 0) + (more === undefined ? 0 : amountOf(signal, more));
}

/** Only what it frees. Null: as above. */
export const freedOf = (signal: Signal, pod: PodView): number | null => partsOf(signal, pod)?.freed ?? null;

type Parts = { readonly freed: number; readonly saved: number };
function partsOf(signal: Signal, { diskRelief }: PodView): Parts | null {
  if (diskRelief === undefined || !isDisk(signal)) return null;
  if (!diskRelief.known) return { freed: 0, saved: 0 };
  const { scratch, deletedOpen, grownLastMinute, writtenBytes } = diskRelief.value;
  const isBytes = SIGNAL_FACTS[signal].unit === 'bytes';
  // Writing bytes does not imply creating files.
  const saved = Math.max(amountOf(signal, grownLastMinute), isBytes ? orNone(writtenBytes) : 0);
  return { freed: amountOf(signal, scratch) + amountOf(signal, deletedOpen), saved };
}

const amountOf = (signal: Signal, of: Relief): number =>
  orNone(SIGNAL_FACTS[signal].unit === 'bytes' ? of.bytes : of.inodes);

/** A pod whose end frees or saves less than this share of what the signal lacks is no help. */
const LEAST_SHARE = 0.01;
/**
 * Who grows by less than `least` in a minute is none either, who grows by as much as `most` is one, whatever is lacking: it goes
 * on. As a threshold is crossed, next to nothing is lacking: who frees less than `most` of a directory would end for whatever
 * else fills the disk.
 */
const AMOUNTS = { bytes: { least: 64 * 1024, most: 1024 * 1024 }, inodes: { least: 64, most: 1_000 } };

/** D14: whether its end is known to help. True if that is not measured. */
export function isHelp(signal: Signal, pod: PodView, lacking: number): boolean {
  const parts = partsOf(signal, pod);
  if (parts === null) return true;
  const share = lacking * LEAST_SHARE;
  const { least, most } = SIGNAL_FACTS[signal].unit === 'bytes' ? AMOUNTS.bytes : AMOUNTS.inodes;
  const isGrowing = parts.saved >= Math.min(Math.max(share, least), most);
  return isGrowing || parts.freed >= Math.max(share, goesWhole(pod) ? least : most);
}

/** All that it has goes with it, by the kubelet's kinds. Otherwise it declares directories. */
const goesWhole = ({ usage: { disk } }: PodView): boolean => disk.known && disk.value.isOfFileSystem !== true;

/**
 * What the ranking compares is only a lower bound: the walk was cut short, or there was none, or what the pod has could not be
 * read: that is at least nothing. Or some of its files may be another pod's.
 */
export function isAtLeast(signal: Signal, pod: PodView): boolean {
  const { counts } = SIGNAL_FACTS[signal];
  if (counts !== 'disk') return isUnread(countedOf(pod.usage, counts));
  return isCutShort(pod) || unattributedOf(signal, pod) > 0;
}

/** Its end may free or save more than is known, and it is not known how much more. */
export function isReliefAtLeast(pod: PodView): boolean {
  const { diskRelief } = pod;
  if (diskRelief === undefined) return false;
  if (!diskRelief.known) return true;
  const { scratch, deletedOpen, grownLastMinute, isAtLeast } = diskRelief.value;
  const isUnwalked = !scratch.bytes.known || !grownLastMinute.bytes.known;
  return isAtLeast === true || (isUnwalked && !hasNoDirectory(pod)) || isUnread(deletedOpen.bytes);
}

/** Its directories were not walked completely. */
export const isCutShort = ({ usage: { disk }, diskRelief }: PodView): boolean =>
  disk.known ? disk.value.isAtLeast === true : diskRelief !== undefined;

/** It declares no directory, so that nothing of it was left unmeasured. */
export const hasNoDirectory = ({ usage: { disk } }: PodView): boolean => !disk.known && disk.why === 'not-applicable';

/** How much more of a disk it uses at most, if its directories were walked completely. */
export function unattributedOf(signal: Signal, { usage: { disk } }: PodView): number {
  if (!disk.known || !isDisk(signal)) return 0;
  const { unattributedBytes = 0, unattributedInodes = 0 } = disk.value;
  return SIGNAL_FACTS[signal].unit === 'bytes' ? unattributedBytes : unattributedInodes;
}

const COULD_NOT: readonly Unknown['why'][] = ['unreadable', 'malformed', 'timed-out', 'stale'];
/** It is there, but could not be read, unlike a number that the statistics lack (kubelet-eviction.md 5.5). */
export const isUnread = (reading: Reading<unknown>): boolean => !reading.known && COULD_NOT.includes(reading.why);

const orNone = (reading: Reading<number>): number => (reading.known ? Math.max(0, reading.value) : 0);
