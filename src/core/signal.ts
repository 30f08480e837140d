import type { MonoMs } from './reading.ts';

export const SIGNALS = [
  'memory.available',
  'allocatableMemory.available',
  'nodefs.available',
  'nodefs.inodesFree',
  'imagefs.available',
  'imagefs.inodesFree',
  'containerfs.available',
  'containerfs.inodesFree',
  'pid.available',
] as const;
export type Signal = (typeof SIGNALS)[number];
export type NodeCondition = 'MemoryPressure' | 'DiskPressure' | 'PIDPressure';
/** Bytes, inodes or pids, by the signal (SIGNAL_FACTS). */
export type SignalSample = {
  readonly available: number;
  readonly capacity: number;
  readonly sampledAtMs: MonoMs;
  /** The source named no time: this sample is new, and so is the one after it (kubelet-eviction.md 1.4.4). */
  readonly isUntimed?: true;
};

/** kubelet-eviction.md 1.2.8: which file systems are one. */
export type FsLayout = 'nodefs-only' | 'imagefs-separate' | 'containerfs-separate';
export type Resource = 'memory' | 'ephemeral-storage' | 'inodes' | 'pids';
export type SignalFacts = {
  readonly unit: 'bytes' | 'inodes' | 'pids';
  readonly condition: NodeCondition;
  readonly resource: Resource;
};
const memory: SignalFacts = { unit: 'bytes', condition: 'MemoryPressure', resource: 'memory' };
const disk: SignalFacts = { unit: 'bytes', condition: 'DiskPressure', resource: 'ephemeral-storage' };
const inodes: SignalFacts = { unit: 'inodes', condition: 'DiskPressure', resource: 'inodes' };

/** kubelet-eviction.md 1: unit, node condition and resource name of each signal. */
export const SIGNAL_FACTS: { readonly [S in Signal]: SignalFacts } = {
  'memory.available': memory,
  'allocatableMemory.available': memory,
  'nodefs.available': disk,
  'nodefs.inodesFree': inodes,
  'imagefs.available': disk,
  'imagefs.inodesFree': inodes,
  'containerfs.available': disk,
  'containerfs.inodesFree': inodes,
  'pid.available': { unit: 'pids', condition: 'PIDPressure', resource: 'pids' },
};

/** Bytes or inodes of a file system. */
export function isDisk(signal: Signal): boolean {
  return SIGNAL_FACTS[signal].condition === 'DiskPressure';
}

export function isSignal(text: string): text is Signal {
  return (SIGNALS as readonly string[]).includes(text);
}
