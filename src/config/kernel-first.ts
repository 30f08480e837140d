import { resolve } from '../core/eviction/thresholds-met.ts';
import { type Reading, unknown } from '../core/reading.ts';
import { bytesUp, sayBytes } from '../core/units/quantity.ts';
import type { CgroupLimit } from '../host/cgroup/cgroup-memory.ts';
import type { Effective } from './effective.ts';
import type { ConfiguredThreshold } from './eviction.ts';
import type { BeyondReach, HostSizes, NodeSizes } from './margin.ts';
import { sayPlace, sayValue } from './setting.ts';

const MIB = 1024 ** 2;
/** One processor fills it in 25 ms (D2), the time that an eviction may take: below, the kernel may come before the agent. */
const NEAR_BYTES = 50 * MIB;
/** As much as the kubelet's default means to leave. */
const ENOUGH_BYTES = 100 * MIB;

/**
 * What the working set (kubelet-eviction.md 1.1) counts as available on this node, and no process can get. A cgroup with a
 * limit of its own is charged for its kernel memory, and has no reserve.
 */
export function beyondReachOf(
  effective: Pick<Effective, 'memoryAvailable' | 'mode' | 'cgroupRoot'>,
  sizes: HostSizes,
): Reading<BeyondReach> {
  const { memoryBytes, beyondReach } = sizes;
  if (effective.memoryAvailable !== 'workingSet')
    return unknown('not-applicable', 'memoryAvailable', 'reclaimable leaves it out');
  const node = nodeOf(effective);
  if (node === '/') return beyondReach;
  const capacityBytes = sizes.node(node)?.memoryBytes;
  if (capacityBytes === null) return unknown('unreadable', node, 'its memory limit cannot be read');
  return capacityBytes === memoryBytes ? beyondReach : unknown('not-applicable', node, 'it has a limit');
}

/** product.md section 4. */
export const nodeOf = ({ mode, cgroupRoot }: Pick<Effective, 'mode' | 'cgroupRoot'>): string =>
  mode === 'kubelet' ? '/' : cgroupRoot;

export const totalOf = ({ reserveBytes, kernelBytes, hugePagesBytes }: BeyondReach): number =>
  reserveBytes + kernelBytes + hugePagesBytes;

/** Thresholds of memory.available that the kernel's OOM killer reaches before the agent, or may. */
export function kernelFirst(effective: Effective, sizes: HostSizes): readonly string[] {
  const thresholds = effective.thresholds.filter(({ signal }) => signal === 'memory.available');
  if (thresholds.length === 0) return [];
  const node = sizes.node(nodeOf(effective));
  const beyond = beyondReachOf(effective, sizes);
  return thresholds.flatMap(({ field, origin, value }) => {
    const why = ofLimitAbove(effective, node, value) ?? ofBeyondReach(effective.mode, sizes.memoryBytes, beyond, value);
    return why === null ? [] : [`${sayPlace(origin)}${field}: memory.available ${sayValue(value)}: ${why}`];
  });
}

type Value = ConfiguredThreshold['value'];
/** Whether a threshold is met too late if `beyondBytes` of what counts as available cannot be used. */
export const isBeyondThreshold = (thresholdBytes: number, beyondBytes: number): boolean =>
  thresholdBytes > 0 && thresholdBytes - beyondBytes < NEAR_BYTES;

function ofBeyondReach(
  mode: Effective['mode'],
  memoryBytes: number | null,
  beyond: Reading<BeyondReach>,
  value: Value,
): string | null {
  if (!beyond.known || memoryBytes === null) return null;
  const beyondBytes = totalOf(beyond.value);
  const thresholdBytes = bytesUp(resolve(value, memoryBytes));
  if (!isBeyondThreshold(thresholdBytes, beyondBytes)) return null;
  const acts = beyondBytes < thresholdBytes ? 'may act' : 'acts';
  const least = `${Math.ceil((beyondBytes + ENOUGH_BYTES) / MIB)}Mi`;
  return `the kernel's OOM killer ${acts} first, since the working set counts ${sayBeyondReach(beyond.value)} as available, which no process can get. ${sayRemedy(mode, least)}`;
}

/** A cgroup above the node with a lower limit: what the node counts as its capacity cannot be used. */
function ofLimitAbove(effective: Effective, node: NodeSizes | null, value: Value): string | null {
  const above = node?.limitAbove.known ? node.limitAbove.value : null;
  const capacityBytes = node?.memoryBytes ?? null;
  if (above === null || capacityBytes === null || above.bytes >= capacityBytes) return null;
  if (!isBeyondThreshold(bytesUp(resolve(value, capacityBytes)), capacityBytes - above.bytes)) return null;
  return `the kernel's OOM killer may act first, since the node lies in the cgroup ${above.path}, which is limited to ${sayBytes(above.bytes)} of memory, and counts ${sayBytes(capacityBytes)} as its capacity. ${sayOtherNode(effective, above)}`;
}

function sayOtherNode({ mode, cgroupRoot }: Effective, { path, bytes }: CgroupLimit): string {
  const most = `at most ${sayBytes(bytes)}`;
  if (mode === 'kubelet') return 'Raise that limit';
  if (cgroupRoot === '/') return `Set cgroupRoot to a cgroup with a limit of its own of ${most}`;
  const itself = `imit ${cgroupRoot} itself to ${most}`;
  return path === '/' ? `L${itself}` : `Set cgroupRoot: ${path}, or l${itself}`;
}

export function sayBeyondReach(beyond: BeyondReach): string {
  const { reserveBytes, kernelBytes, hugePagesBytes } = beyond;
  const huge = hugePagesBytes > 0 ? `, ${sayBytes(hugePagesBytes)} of huge pages` : '';
  return `${sayBytes(totalOf(beyond))} (${sayBytes(reserveBytes)} that the kernel keeps free, ${sayBytes(kernelBytes)} of its own${huge})`;
}

/** Beside a kubelet the formula has to stay the kubelet's: only then is the higher threshold reached first. */
const sayRemedy = (mode: Effective['mode'], least: string): string =>
  mode === 'kubelet'
    ? `Set a threshold of at least ${least}`
    : `Set memoryAvailable: reclaimable, which leaves it out, or a threshold of at least ${least}`;
