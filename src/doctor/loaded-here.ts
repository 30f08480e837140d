import { observedOf, toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { readHostSizes, withNode } from '../config/host-sizes.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import type { HostSizes } from '../config/margin.ts';
import { originOf, sayPlace } from '../config/setting.ts';
import { isMet, limits } from '../core/eviction/thresholds-met.ts';
import { known, type Unknown } from '../core/reading.ts';
import { findCgroupMounts } from '../host/cgroup-mounts.ts';
import { listDirectory } from '../host/files.ts';
import { diskHangs } from '../host/hung-disk.ts';
import { programFault } from '../host/operator-program.ts';
import { createObserver } from '../observe/look.ts';
import type { Clock } from '../ports.ts';
import { sayAmount, sayLimit } from '../words/phrases.ts';

/** Adds the sizes of the node that the configuration names, which can be read only once that is known. */
export async function loadHere(file: string | null, clock: Clock): Promise<LoadedHere> {
  const sizes = readHostSizes();
  const first = loadConfig(file, sizes);
  if (first.effective === null) return { ...first, sizes, hung: new Map() };
  const hung = await hungDisks(first.effective);
  if (hung.size > 0) return { ...first, sizes, hung };
  const all = await withNode(sizes, first.effective, clock);
  return { ...loadConfig(file, all), sizes: all, hung };
}

/** `hung`: file systems that do not answer, by path; then the sizes of none are known. */
export type LoadedHere = LoadedConfig & { readonly sizes: HostSizes; readonly hung: HungDisks };
type HungDisks = ReadonlyMap<string, Unknown>;

async function hungDisks(effective: Effective): Promise<HungDisks> {
  const { nodefsPath, imagefsPath, containerfsPath, stateDirectory } = effective;
  const programs = programsOf(effective).map(({ program }) => program);
  const paths = [nodefsPath, imagefsPath, containerfsPath, stateDirectory, ...programs].filter((path) => path !== null);
  const asked = await Promise.all([...new Set(paths)].map(async (path) => [path, await diskHangs(path)] as const));
  return new Map(asked.flatMap(([path, why]) => (why === null ? [] : [[path, why] as const])));
}

/** A valid configuration as it meets this host at this moment. */
export type HereWarning = {
  readonly code: 'path-missing' | 'threshold-met' | 'program-unsafe';
  readonly text: string;
  /** What of it stands in the command that mends it. */
  readonly fill?: { readonly [name: string]: string };
};

/**
 * Warnings about what a valid configuration would meet on this machine now, and that is probably not intended. If a disk
 * hangs, nothing is measured: the call would keep this process from ending.
 */
export async function warningsHere(
  effective: Effective,
  hung: HungDisks,
  clock: Clock,
): Promise<readonly HereWarning[]> {
  const met = hung.size > 0 ? [] : await metAlready(effective, clock);
  return [
    ...missingPaths(effective, hung).map((text): HereWarning => ({ code: 'path-missing', text })),
    ...met.map((text): HereWarning => ({ code: 'threshold-met', text })),
    ...programWarnings(effective, hung),
  ];
}

/** Only for paths that the configuration names; the installation creates the default ones. */
function missingPaths(effective: Effective, hung: HungDisks): readonly string[] {
  const paths = {
    podManifests: [effective.podManifests, 'no pod can be stopped'],
    'nodefs.path': [effective.nodefsPath, 'its signals cannot be read'],
    'imagefs.path': [effective.imagefsPath, 'its signals cannot be read'],
    'containerfs.path': [effective.containerfsPath, 'its signals cannot be read'],
  } as const;
  return Object.entries(paths).flatMap(([field, [path, then]]) => {
    const origin = originOf(effective, field);
    if (path === null || origin === undefined || hung.has(path)) return [];
    const found = listDirectory(path, 1);
    return found.known || found.why !== 'absent'
      ? []
      : [`${sayPlace(origin)}${field}: ${path} does not exist on this machine: ${then} until it does`];
  });
}

/** What the configuration has root run. */
function programsOf({ notify, preKill, reclaimCommands }: Effective) {
  const fields = [
    { field: 'notify', path: 'notify.command', command: notify?.command ?? [] },
    { field: 'preKill', path: 'preKill.command', command: preKill?.command ?? [] },
    ...reclaimCommands.map(({ command }, i) => ({
      field: 'reclaimCommands',
      path: `reclaimCommands[${i}].command`,
      command,
    })),
  ];
  return fields.flatMap(({ field, path, command: [program] }) =>
    program === undefined ? [] : [{ field, path, program }],
  );
}

function programWarnings(effective: Effective, hung: HungDisks): readonly HereWarning[] {
  return programsOf(effective).flatMap(({ field, path, program }) => {
    const fault = hung.has(program) ? null : programFault(program);
    if (fault === null) return [];
    const text = `${sayPlace(originOf(effective, field))}${path}: ${fault}`;
    return [{ code: 'program-unsafe', text, fill: { program } } as const];
  });
}

/** Measured as the agent would; what cannot be read here is the agent's business. */
async function metAlready(effective: Effective, clock: Clock): Promise<readonly string[]> {
  const mounts = findCgroupMounts();
  if (!mounts.known) return [];
  const nothing = (): void => undefined;
  const observer = createObserver({
    ...{ clock, mounts: mounts.value, ...observedOf(effective) },
    pods: () => known([]),
    followPods: nothing,
    isSwapCounted: () => true,
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
        `${place}${field}: ${signal} is already below ${sayLimit(signal, limits(threshold, sample.value).limit)}: ${sayAmount(signal, available)} of ${sayAmount(signal, capacity)} is available now, so the agent would evict at once`,
      ];
    });
    return (await Promise.all(said)).flat();
  } finally {
    observer.close();
  }
}
