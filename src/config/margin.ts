import { type Margin, marginQuantity } from '../core/eviction/margin.ts';
import { plainOf } from '../core/eviction/threshold.ts';
import { resolve } from '../core/eviction/thresholds-met.ts';
import { type Reading, unknown } from '../core/reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { Quantity } from '../core/units/quantity.ts';
import type { CgroupLimit } from '../host/cgroup/cgroup-memory.ts';
import type { ConfiguredThreshold } from './eviction.ts';
import type { Origin } from './field.ts';

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

/** The capacity that a threshold of this signal is a share of; null if unknown on this host. */
export function capacityOf(signal: Signal, sizes: HostSizes): number | null {
  const { hostSize, unit } = SIGNAL_FACTS[signal];
  if (hostSize === null) return null;
  // Images lie beside everything else where they have no file system of their own.
  const size = hostSize === 'imagefs' ? (sizes.imagefs ?? sizes.nodefs) : sizes[hostSize];
  return size !== null && typeof size === 'object' ? size[unit === 'inodes' ? 'inodes' : 'bytes'] : size;
}

/**
 * A hard threshold of the kubelet, raised so that this agent acts before the kubelet (beside-a-kubelet.md F2, F4). If the
 * margin depends on an unknown capacity, it is known at the first sample.
 */
export function withMargin(
  threshold: ConfiguredThreshold,
  imageGcHighPercent: number,
  sizes: HostSizes,
): ConfiguredThreshold {
  const { signal, value, origin } = threshold;
  if (SIGNAL_FACTS[signal].hostSize === null || threshold.field !== 'evictionHard') return threshold;
  const margin = marginFor(signal, imageGcHighPercent);
  const raised = { kind: 'raised', of: plainOf(value), margin } as const;
  const file = origin.kind === 'default' ? "the kubelet's defaults" : 'file' in origin ? origin.file : '';
  const from = (by: Quantity | null): Origin => ({ kind: 'kubelet-and-margin', file, margin: by });
  const capacity = capacityOf(signal, sizes);
  if (capacity === null) return { ...threshold, value: raised, origin: from(null) };
  const amount = resolve(raised, capacity);
  return { ...threshold, value: { kind: 'quantity', amount }, origin: from(marginQuantity(margin, capacity)) };
}

/** Disk: also above the point where the kubelet collects images by itself (F4). */
function marginFor(signal: Signal, imageGcHighPercent: number): Margin {
  const { margin, unit } = SIGNAL_FACTS[signal];
  const isBytes = unit === 'bytes';
  return { ...margin, isBytes, leastPercent: isDisk(signal) && isBytes ? 100 - imageGcHighPercent : null };
}
