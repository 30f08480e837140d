import { addQuantity, compareQuantity, type Quantity, quantityOfBytes } from '../core/quantity.ts';
import { SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import { resolve } from '../core/threshold.ts';
import type { ConfiguredThreshold, HostSizes } from './effective.ts';

const MIB = 1024 ** 2;
/** What one process fills: product.md D2's 2 GiB/s, for the 100 ms of reaction, kill and teardown of beside-a-kubelet.md F2. */
const FILL_BYTES = 2 * 1024 * MIB * 0.1;

/** What a threshold of this signal is a share of; null where this host's figure is not known. */
export function capacityOf(signal: Signal, sizes: HostSizes): number | null {
  switch (signal) {
    case 'memory.available':
      return sizes.memoryBytes;
    case 'pid.available':
      return sizes.pids;
    case 'nodefs.available':
      return sizes.nodefs?.bytes ?? null;
    case 'nodefs.inodesFree':
      return sizes.nodefs?.inodes ?? null;
    case 'imagefs.available':
      return (sizes.imagefs ?? sizes.nodefs)?.bytes ?? null;
    case 'imagefs.inodesFree':
      return (sizes.imagefs ?? sizes.nodefs)?.inodes ?? null;
    // The limit of the cgroup of all pods, and whatever the layout makes of containerfs.
    case 'allocatableMemory.available':
    case 'containerfs.available':
    case 'containerfs.inodesFree':
      return null;
  }
}

/**
 * A hard threshold of the kubelet's, raised so that this agent acts before the kubelet (beside-a-kubelet.md F2, F4).
 * Unchanged where the margin depends on a figure of the host that is not known.
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

function marginOf(signal: Signal, capacity: number): number {
  if (signal === 'memory.available') return Math.max(128 * MIB, 0.02 * capacity, FILL_BYTES);
  if (signal === 'pid.available') return Math.max(512, 0.01 * capacity);
  if (signal.endsWith('.inodesFree')) return 0.01 * capacity;
  return Math.max(1024 * MIB, 0.01 * capacity);
}

/** Disk: above the point where the kubelet collects images by itself (F4). */
function gcFloor(signal: Signal, capacity: number, highPercent: number): Quantity | null {
  if (!/fs\.available$/.test(signal)) return null;
  // One byte more: at exactly this point the kubelet is not yet at it.
  return quantityOfBytes(Math.floor((capacity * (100 - highPercent)) / 100) + 1, 'binary');
}

function atLeast(amount: Quantity, floor: Quantity | null): Quantity {
  return floor !== null && compareQuantity(amount, floor) < 0 ? floor : amount;
}
