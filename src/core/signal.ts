import type { MonoMs } from './reading.ts';

export type Unit = 'bytes' | 'inodes' | 'pids' | 'ms';
export type NodeCondition = 'MemoryPressure' | 'DiskPressure' | 'PIDPressure';
/** As the kubelet's messages name it. */
export type Resource = 'memory' | 'ephemeral-storage' | 'inodes' | 'pids';
/** A file system by its use (kubelet-eviction.md 1.2.8). */
export type FileSystemRole = 'nodefs' | 'imagefs' | 'containerfs';
/** Where the reading of a signal comes from. */
export type SignalSource = 'node-memory' | 'pods-memory' | 'swap' | 'memory-stall' | 'pids' | FileSystemRole;

/** Everything particular to one signal. What another file needs to know about a signal is a column here. */
export type SignalFacts = {
  readonly unit: Unit;
  readonly condition: NodeCondition;
  readonly resource: Resource;
  readonly source: SignalSource;
  /** The capacity of the machine that it is a part of; null: none that is known before it is sampled. */
  readonly hostSize: 'memoryBytes' | 'swapBytes' | 'pids' | 'nodefs' | 'imagefs' | null;
  /** D1: of several ripe thresholds, the lowest acts. `class` is compared before hard against soft, `place` after it. */
  readonly order: { readonly class: number; readonly place: number };
  /** What the ranking counts of a pod: a field of its usage. */
  readonly counts: 'workingSetBytes' | 'memoryAndSwapBytes' | 'processes' | 'disk';
  /** What a pod's end frees of it. A stall has no owner, and files outlive their writers. */
  readonly comesBack: 'memory' | 'swap' | 'process-ids' | 'stall' | 'nothing';
  /** The comparators of kubelet-eviction.md 5.1, first to last. */
  readonly rankedBy: readonly ('over-request' | 'priority' | 'usage-over-request' | 'usage')[];
  /** D12: the first signal to the victim's processes under a hard threshold. */
  readonly firstWhenHard: 'sigkill' | 'sigterm';
  /** By how much a hard threshold of a kubelet is raised, so that this agent acts before it (beside-a-kubelet.md F2, F4). */
  readonly margin: { readonly least: number; readonly share: number };
  /** Where its thresholds are configured: in the eviction maps of both kinds or of ours alone, or in a section of its own (D17). */
  readonly configuredIn: 'both-kinds' | 'own-kind' | 'own-section';
  /** The kubelet has no such signal: the difference that a decision by it names. */
  readonly difference: 'D17' | null;
  /** A source that is expensive to sample is read only if a threshold uses it. */
  readonly sampled: 'always' | 'if-configured';
  /** The section that has it in a summary of the kubelet (scenarios.md 2.5): of the node, its system container `pods`, or its runtime. */
  readonly section: { readonly of: 'node' | 'pods' | 'runtime'; readonly name: string };
  /** What that section calls its amounts: two of them, from which the third one follows. */
  readonly figures: { readonly [amount in 'available' | 'used' | 'capacity']?: string };
};

const MIB = 1024 ** 2;
/** D2's 2 GiB/s during the 100 ms that reaction, kill and teardown take (beside-a-kubelet.md F2). */
const FILLED_BYTES = 2 * 1024 * MIB * 0.1;
const REQUESTED = ['over-request', 'priority', 'usage-over-request'] as const;

const KUBELETS = { configuredIn: 'both-kinds', difference: null, sampled: 'always' } as const;

const MEMORY = {
  ...KUBELETS,
  unit: 'bytes',
  condition: 'MemoryPressure',
  resource: 'memory',
  counts: 'workingSetBytes',
  comesBack: 'memory',
  rankedBy: REQUESTED,
  firstWhenHard: 'sigkill',
  figures: { available: 'availableBytes', used: 'workingSetBytes' },
  margin: { least: Math.max(128 * MIB, FILLED_BYTES), share: 0.02 },
} as const;
/** D17: most of a pod may be in swap instead of memory. */
const MEMORY_AND_SWAP = {
  ...MEMORY,
  counts: 'memoryAndSwapBytes',
  difference: 'D17',
  sampled: 'if-configured',
} as const;
const DISK = {
  ...KUBELETS,
  unit: 'bytes',
  condition: 'DiskPressure',
  resource: 'ephemeral-storage',
  counts: 'disk',
  comesBack: 'nothing',
  rankedBy: REQUESTED,
  firstWhenHard: 'sigterm',
  figures: { available: 'availableBytes', capacity: 'capacityBytes' },
  margin: { least: 1024 * MIB, share: 0.01 },
} as const;
const INODES = {
  ...DISK,
  unit: 'inodes',
  resource: 'inodes',
  figures: { available: 'inodesFree', capacity: 'inodes' },
  margin: { least: 0, share: 0.01 },
} as const;
const PIDS = {
  ...KUBELETS,
  unit: 'pids',
  condition: 'PIDPressure',
  resource: 'pids',
  counts: 'processes',
  comesBack: 'process-ids',
  rankedBy: ['priority', 'usage'],
  firstWhenHard: 'sigkill',
  figures: { used: 'curproc', capacity: 'maxpid' },
  margin: { least: 512, share: 0.01 },
} as const;

/** kubelet-eviction.md 1. In display order. */
const ROWS = {
  'memory.available': {
    ...MEMORY,
    source: 'node-memory',
    hostSize: 'memoryBytes',
    section: { of: 'node', name: 'memory' },
    order: { class: 0, place: 0 },
  },
  'allocatableMemory.available': {
    ...MEMORY,
    source: 'pods-memory',
    hostSize: null,
    section: { of: 'pods', name: 'memory' },
    order: { class: 0, place: 1 },
  },
  'swap.available': {
    ...MEMORY_AND_SWAP,
    configuredIn: 'own-kind',
    source: 'swap',
    hostSize: 'swapBytes',
    comesBack: 'swap',
    section: { of: 'node', name: 'swap' },
    figures: { available: 'swapAvailableBytes', used: 'swapUsageBytes' },
    order: { class: 0, place: 2 },
  },
  // Milliseconds of the window in which not all tasks were stalled on memory.
  'memory.stallFree': {
    ...MEMORY_AND_SWAP,
    configuredIn: 'own-section',
    unit: 'ms',
    source: 'memory-stall',
    hostSize: null,
    comesBack: 'stall',
    section: { of: 'node', name: 'memoryStall' },
    figures: { used: 'stalledMs', capacity: 'windowMs' },
    order: { class: 0, place: 3 },
    margin: { least: 0, share: 0 },
  },
  'nodefs.available': {
    ...DISK,
    source: 'nodefs',
    hostSize: 'nodefs',
    section: { of: 'node', name: 'fs' },
    order: { class: 1, place: 1 },
  },
  'nodefs.inodesFree': {
    ...INODES,
    source: 'nodefs',
    hostSize: 'nodefs',
    section: { of: 'node', name: 'fs' },
    order: { class: 1, place: 2 },
  },
  'imagefs.available': {
    ...DISK,
    source: 'imagefs',
    hostSize: 'imagefs',
    section: { of: 'runtime', name: 'imageFs' },
    order: { class: 1, place: 3 },
  },
  'imagefs.inodesFree': {
    ...INODES,
    source: 'imagefs',
    hostSize: 'imagefs',
    section: { of: 'runtime', name: 'imageFs' },
    order: { class: 1, place: 4 },
  },
  'containerfs.available': {
    ...DISK,
    source: 'containerfs',
    hostSize: null,
    section: { of: 'runtime', name: 'containerFs' },
    order: { class: 1, place: 5 },
  },
  'containerfs.inodesFree': {
    ...INODES,
    source: 'containerfs',
    hostSize: null,
    section: { of: 'runtime', name: 'containerFs' },
    order: { class: 1, place: 6 },
  },
  'pid.available': {
    ...PIDS,
    source: 'pids',
    hostSize: 'pids',
    section: { of: 'node', name: 'rlimit' },
    order: { class: 1, place: 0 },
  },
} as const satisfies { readonly [signal: string]: SignalFacts };

export type Signal = keyof typeof ROWS;
export const SIGNAL_FACTS: { readonly [S in Signal]: SignalFacts } = ROWS;
// Object.keys loses the key type; the table has no other keys.
export const SIGNALS = Object.keys(ROWS) as readonly Signal[];

/** The signals of one source, or of one source and unit. */
export const signalsOf = (source: SignalSource, unit?: Unit): readonly Signal[] =>
  SIGNALS.filter((signal) => {
    const facts = SIGNAL_FACTS[signal];
    return facts.source === source && (unit === undefined || facts.unit === unit);
  });

/** A value for each signal. */
export function forEachSignal<T>(of: (signal: Signal, facts: SignalFacts) => T): { readonly [S in Signal]: T } {
  const values = {} as { [S in Signal]: T }; // Filled below: the list has every signal.
  for (const signal of SIGNALS) values[signal] = of(signal, SIGNAL_FACTS[signal]);
  return values;
}

/** D17: whether the ranking counts a pod's swap. */
export const countsSwap = (signal: Signal): boolean => SIGNAL_FACTS[signal].counts === 'memoryAndSwapBytes';

/** The unit of what a ranking counts of a pod. */
export function usageUnit(signal: Signal): Unit {
  const { counts, unit } = SIGNAL_FACTS[signal];
  return counts === 'disk' || counts === 'processes' ? unit : 'bytes';
}

/** Whether pods can request its resource. */
export function hasRequest(signal: Signal): boolean {
  const { resource } = SIGNAL_FACTS[signal];
  return resource === 'memory' || resource === 'ephemeral-storage';
}

/** The file system that the signal is measured on; null: none. */
export function fileSystemOf(signal: Signal): FileSystemRole | null {
  const { source } = SIGNAL_FACTS[signal];
  return source === 'nodefs' || source === 'imagefs' || source === 'containerfs' ? source : null;
}

/** Bytes or inodes of a file system. */
export function isDisk(signal: Signal): boolean {
  return fileSystemOf(signal) !== null;
}

export function isSignal(text: string): text is Signal {
  return (SIGNALS as readonly string[]).includes(text);
}

/** In the signal's unit. */
export type SignalSample = {
  readonly available: number;
  readonly capacity: number;
  readonly sampledAtMs: MonoMs;
  /** The source gave no time: this sample and the next one count as new (kubelet-eviction.md 1.4.4). */
  readonly isUntimed?: true;
};

/** kubelet-eviction.md 1.2.8: which file systems are one. */
export type FsLayout = 'nodefs-only' | 'imagefs-separate' | 'containerfs-separate';

/** The file system that one with this use really is. */
export function realFileSystem(role: FileSystemRole, layout: FsLayout): 'nodefs' | 'imagefs' {
  switch (layout) {
    case 'nodefs-only':
      return 'nodefs';
    case 'imagefs-separate':
      return role === 'nodefs' ? 'nodefs' : 'imagefs';
    case 'containerfs-separate':
      return role === 'imagefs' ? 'imagefs' : 'nodefs';
  }
}
