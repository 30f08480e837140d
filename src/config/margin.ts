import { resolve } from '../core/eviction/thresholds-met.ts';
import { type Reading, unknown } from '../core/reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import { addQuantity, compareQuantity, type Quantity, quantityOfBytes } from '../core/units/quantity.ts';
import type { CgroupLimit } from '../host/cgroup-memory.ts';
import type { ConfiguredThreshold } from './eviction.ts';

/** Capacities of the machine; null = unknown. Some warnings and the margin beside a kubelet need them. */
export type HostSizes = {
  readonly memoryBytes: number | null;
  readonly pids: number | null;
  readonly swapBytes: number | null;
  readonly hasMemoryPressure: boolean | null;
  readonly beyondReach: Reading<BeyondReach>;
  readonly nodefs: { readonly bytes: number; readonly inodes: number } | null;
  readonly imagefs: { readonly bytes: number; readonly inodes: number } | null;
  /** Of the node that this cgroupRoot makes; null: it was not looked at. */
  readonly node: (cgroupRoot: string) => NodeSizes | null;
};
export type NodeSizes = Pick<HostSizes, 'memoryBytes' | 'pids'> & {
  /** Of the cgroups above it. */
  readonly limitAbove: Reading<CgroupLimit | null>;
};
/** Memory of the machine that no process can get. */
export type BeyondReach = {
  /** What the zones keep free when the kernel's OOM killer acts. */
  readonly reserveBytes: number;
  /** Of the kernel itself; what it could give back is not counted. */
  readonly kernelBytes: number;
  /** The pool of huge pages, used or not. */
  readonly hugePagesBytes: number;
};
export const UNKNOWN_SIZES: HostSizes = {
  memoryBytes: null,
  pids: null,
  swapBytes: null,
  hasMemoryPressure: null,
  beyondReach: unknown('not-asked', 'the memory of the kernel', 'this host was not examined'),
  nodefs: null,
  imagefs: null,
  node: () => null,
};

const MIB = 1024 ** 2;

/** The capacity that a threshold of this signal is a share of; null if unknown on this host. */
export function capacityOf(signal: Signal, sizes: HostSizes): number | null {
  const { hostSize, unit } = SIGNAL_FACTS[signal];
  if (hostSize === null) return null;
  // Images lie beside everything else where they have no file system of their own.
  const size = hostSize === 'imagefs' ? (sizes.imagefs ?? sizes.nodefs) : sizes[hostSize];
  return size !== null && typeof size === 'object' ? size[unit === 'inodes' ? 'inodes' : 'bytes'] : size;
}

/**
 * A hard threshold of the kubelet, raised so that this agent acts before the kubelet (beside-a-kubelet.md F2, F4).
 * Unchanged if the margin depends on an unknown capacity of the host.
 */
export function withMargin(
  threshold: ConfiguredThreshold,
  imageGcHighPercent: number,
  sizes: HostSizes,
): ConfiguredThreshold {
  const { signal, value, origin } = threshold;
  const capacity = capacityOf(signal, sizes);
  if (capacity === null || threshold.field !== 'evictionHard') return threshold;
  const isBytes = SIGNAL_FACTS[signal].unit === 'bytes';
  // Whole MiB, so that people can read it.
  const step = isBytes ? MIB : 1;
  const amountUp = Math.ceil(marginOf(signal, capacity) / step) * step;
  const margin = quantityOfBytes(amountUp, isBytes ? 'binary' : 'decimal');
  const raised = addQuantity(resolve(value, capacity), margin);
  const amount = atLeast(raised, gcFloor(signal, capacity, imageGcHighPercent));
  const file = origin.kind === 'default' ? "the kubelet's defaults" : 'file' in origin ? origin.file : '';
  return { ...threshold, value: { kind: 'quantity', amount }, origin: { kind: 'kubelet-and-margin', file, margin } };
}

/** How far a hard threshold must be above the kubelet's, in the unit of the signal. */
export function marginOf(signal: Signal, capacity: number): number {
  const { least, share } = SIGNAL_FACTS[signal].margin;
  return Math.max(least, share * capacity);
}

/** Disk: above the point where the kubelet collects images by itself (F4). */
function gcFloor(signal: Signal, capacity: number, highPercent: number): Quantity | null {
  if (!isDisk(signal) || SIGNAL_FACTS[signal].unit !== 'bytes') return null;
  // One byte more: at exactly this point the kubelet does not collect yet.
  return quantityOfBytes(Math.floor((capacity * (100 - highPercent)) / 100) + 1, 'binary');
}

function atLeast(amount: Quantity, floor: Quantity | null): Quantity {
  return floor !== null && compareQuantity(amount, floor) < 0 ? floor : amount;
}
