import { toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { originOf, sayPlace } from '../config/setting.ts';
import { known } from '../core/reading.ts';
import { sayAmount, sayLimit } from '../core/say.ts';
import { isMet, limits } from '../core/threshold.ts';
import { findCgroupMounts } from '../host/cgroupfs.ts';
import { listDirectory } from '../host/files.ts';
import { createObserver } from '../observe/look.ts';
import type { Clock } from '../ports.ts';

/** What a valid configuration would find on this machine at this moment, and is hardly meant. */
export async function warningsHere(effective: Effective, clock: Clock): Promise<readonly string[]> {
  return [...missingPaths(effective), ...(await metAlready(effective, clock))];
}

/** Of paths that the configuration names; the defaults are made by the installation. */
function missingPaths(effective: Effective): readonly string[] {
  const paths = {
    podManifests: [effective.podManifests, 'no pod can be stopped'],
    'nodefs.path': [effective.nodefsPath, 'its signals cannot be read'],
    'imagefs.path': [effective.imagefsPath, 'its signals cannot be read'],
    'containerfs.path': [effective.containerfsPath, 'its signals cannot be read'],
  } as const;
  return Object.entries(paths).flatMap(([field, [path, then]]) => {
    const origin = originOf(effective, field);
    if (path === null || origin === undefined) return [];
    const found = listDirectory(path, 1);
    return found.known || found.why !== 'absent'
      ? []
      : [`${sayPlace(origin)}${field}: ${path} does not exist on this machine: ${then} until it does`];
  });
}

/** Measured as the agent would; what cannot be read here is the agent's business. */
async function metAlready(effective: Effective, clock: Clock): Promise<readonly string[]> {
  const mounts = findCgroupMounts();
  if (!mounts.known) return [];
  const { cgroupRoot, memoryAvailable, nodefsPath, imagefsPath, containerfsPath } = effective;
  const nothing = (): void => undefined;
  const observer = createObserver({
    ...{ clock, mounts: mounts.value, cgroupRoot, memoryAvailable, nodefsPath, imagefsPath, containerfsPath },
    pods: () => known([]),
    followPods: nothing,
    findings: { raise: nothing, clear: nothing, all: () => [] },
    wake: nothing,
  });
  try {
    const said = toCoreConfig(effective, 1).thresholds.map(async (threshold) => {
      const { signal, graceMs } = threshold;
      const sample = await observer.reread(signal);
      if (!sample.known || !isMet(threshold, sample.value)) return [];
      const { available, capacity } = sample.value;
      const field = graceMs === 0 ? 'evictionHard' : 'evictionSoft';
      const place = sayPlace(originOf(effective, `${field}["${signal}"]`));
      return [
        `${place}${field}: ${signal} is below ${sayLimit(signal, limits(threshold, sample.value).limit)} already: ${sayAmount(signal, available)} of ${sayAmount(signal, capacity)} is available now, so the agent would evict at once`,
      ];
    });
    return (await Promise.all(said)).flat();
  } finally {
    observer.close();
  }
}
