import { resolve } from '../core/eviction/thresholds-met.ts';
import { type Reading, unknown } from '../core/reading.ts';
import { bytesUp, sayBytes } from '../core/units/quantity.ts';
import type { Effective } from './effective.ts';
import type { BeyondReach, HostSizes } from './margin.ts';
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
  { memoryAvailable, mode, cgroupRoot }: Pick<Effective, 'memoryAvailable' | 'mode' | 'cgroupRoot'>,
  { memoryBytes, beyondReach, bounded }: HostSizes,
): Reading<BeyondReach> {
  if (memoryAvailable !== 'workingSet')
    return unknown('not-applicable', 'memoryAvailable', 'reclaimable leaves it out');
  if (mode === 'kubelet' || cgroupRoot === '/') return beyondReach;
  if (bounded?.memoryBytes === null) return unknown('unreadable', cgroupRoot, 'its memory limit cannot be read');
  return bounded?.memoryBytes === memoryBytes ? beyondReach : unknown('not-applicable', cgroupRoot, 'it has a limit');
}

export const totalOf = ({ reserveBytes, kernelBytes, hugePagesBytes }: BeyondReach): number =>
  reserveBytes + kernelBytes + hugePagesBytes;

/** Thresholds of memory.available that the kernel's OOM killer reaches before the agent, or may. */
export function kernelFirst(effective: Effective, sizes: HostSizes): readonly string[] {
  const beyond = beyondReachOf(effective, sizes);
  const { memoryBytes } = sizes;
  if (!beyond.known || memoryBytes === null) return [];
  const beyondBytes = totalOf(beyond.value);
  return effective.thresholds
    .filter(({ signal }) => signal === 'memory.available')
    .flatMap(({ value, field, origin }) => {
      const thresholdBytes = bytesUp(resolve(value, memoryBytes));
      if (thresholdBytes === 0 || thresholdBytes - beyondBytes >= NEAR_BYTES) return [];
      const acts = beyondBytes < thresholdBytes ? 'may act' : 'acts';
      const least = `${Math.ceil((beyondBytes + ENOUGH_BYTES) / MIB)}Mi`;
      return [
        `${sayPlace(origin)}${field}: memory.available ${sayValue(value)}: the kernel's OOM killer ${acts} first, since the working set counts ${sayBeyondReach(beyond.value)} as available, which no process can get. ${sayRemedy(effective.mode, least)}`,
      ];
    });
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
