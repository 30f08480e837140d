import type { PodStall } from '../../core/eviction/stall.ts';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { CgroupRef } from '../../ports.ts';
import { EVENTS_BYTES, key, parseKeyed, readKernelFile } from '../kernel-file.ts';
import { openStallTime, type StallTime, stalledMsIn } from '../procfs.ts';
import type { CgroupMounts } from './cgroup-mounts.ts';
import { directoryOf, inCgroup } from './cgroup-walk.ts';

const NONE = unknown('not-applicable', 'memory.pressure', 'version 1 keeps no pressure of a cgroup');
const PRESSURE_BYTES = 4096;
const HIGH = key('high ');
const MAX = key('max ');

/** How long all tasks of the cgroup were stalled on memory, on a kept descriptor. */
export function openCgroupStall(mounts: CgroupMounts, path: string): StallTime {
  if (mounts.version === 1) return { stalledMs: () => NONE, close: () => undefined };
  return openStallTime(`${directoryOf(mounts, path)}/memory.pressure`);
}

/** The same, and how often the cgroup or one below it reached memory.high or memory.max. */
export function podStall(mounts: CgroupMounts, ref: CgroupRef): Reading<PodStall> {
  if (mounts.version === 1) return NONE;
  return inCgroup(mounts, ref, (directory) => {
    const pressurePath = `${directory}/memory.pressure`;
    const pressure = readKernelFile(pressurePath, PRESSURE_BYTES);
    const stalledMs = pressure.known ? stalledMsIn(pressure.value, pressurePath) : pressure;
    if (!stalledMs.known) return stalledMs;
    const eventsPath = `${directory}/memory.events`;
    const events = readKernelFile(eventsPath, EVENTS_BYTES);
    if (!events.known) return events;
    let limitHits = 0;
    for (const name of [HIGH, MAX]) {
      const count = parseKeyed(events.value, name, '', eventsPath);
      if (count?.known === false) return count;
      limitHits += count?.value ?? 0;
    }
    return known({ life: ref.inode, stalledMs: stalledMs.value, limitHits });
  });
}
