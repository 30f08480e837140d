import { observedOf, toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { readHostSizes, withFileSystems } from '../config/host-sizes.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { capacityOf, type HostSizes } from '../config/margin.ts';
import { originOf, sayPlace } from '../config/setting.ts';
import type { ConfigWarning } from '../config/warnings.ts';
import { isMet, limits } from '../core/eviction/thresholds-met.ts';
import { known, type Unknown, unknown } from '../core/reading.ts';
import { SIGNAL_FACTS } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { directoryHangs, diskHangs } from '../host/disk/hung-disk.ts';
import { isDenied } from '../host/file-error.ts';
import { isThere } from '../host/files.ts';
import { programFault } from '../host/own/operator-program.ts';
import { createObserver } from '../observe/look.ts';
import type { Clock } from '../ports.ts';
import { sayAmount, sayApart } from '../words/phrases.ts';

/** Loads the configuration, and again once the sizes of the node and the file systems that it names are known. */
export async function loadHere(file: string | null, clock: Clock): Promise<LoadedHere> {
  const sizes = readHostSizes();
  const first = loadConfig(file, sizes);
  if (first.effective === null) return { ...first, sizes, hung: new Map() };
  const hung = await hungDisks(first.effective);
  if (hung.size > 0) return { ...first, sizes, hung };
  const all = await withFileSystems(sizes, first.effective, clock);
  return { ...loadConfig(file, all), sizes: all, hung };
}

/** `hung`: file systems that do not answer, by path. If there are any, no sizes of file systems are known. */
export type LoadedHere = LoadedConfig & { readonly sizes: HostSizes; readonly hung: HungDisks };
type HungDisks = ReadonlyMap<string, Unknown>;

async function hungDisks(effective: Effective): Promise<HungDisks> {
  const { nodefsPath, imagefsPath, containerfsPath, stateDirectory, podManifests } = effective;
  const programs = programsOf(effective).map(({ program }) => program);
  const listed = [stateDirectory, podManifests];
  const named = [nodefsPath, imagefsPath, containerfsPath, ...listed, ...programs];
  const paths = new Set(named.filter((path) => path !== null));
  const ask = (path: string) => (listed.includes(path) ? directoryHangs(path) : diskHangs(path));
  const asked = await Promise.all([...paths].map(async (path) => [path, await ask(path)] as const));
  return new Map(asked.flatMap(([path, why]) => (why === null ? [] : [[path, why] as const])));
}

/** A problem of a valid configuration with this host at this moment. */
export type HereWarning = {
  readonly code: 'path-missing' | 'threshold-met' | 'program-unsafe';
  readonly text: string;
  /** What an agent that starts would do about it. */
  readonly then?: string | undefined;
  /** Values for the command that fixes it. */
  readonly fill?: { readonly [name: string]: string };
};

/** As long as no agent runs: one that does may wait for something, or have decided already. */
export const withThen = ({ text, then }: HereWarning): string => (then === undefined ? text : `${text}, so ${then}`);

/** Why part of what a check asks is not known. */
export type Unread = { readonly code: ConfigWarning['code'] | HereWarning['code']; readonly why: Unknown };
export type Here = { readonly warnings: readonly HereWarning[]; readonly unread: readonly Unread[] };

/**
 * Warnings about effects of a valid configuration on this machine that are probably not intended. If a disk hangs, nothing
 * is measured: the call would keep this process from ending.
 */
export async function warningsHere(effective: Effective, hung: HungDisks, clock: Clock): Promise<Here> {
  const [hangs] = hung.values();
  const met = hangs === undefined ? await metAlready(effective, clock) : unreadAt('threshold-met', hangs);
  const parts = [missingPaths(effective, hung), met, programWarnings(effective, hung)];
  return { warnings: parts.flatMap(({ warnings }) => warnings), unread: parts.flatMap(({ unread }) => unread) };
}

const unreadAt = (code: Unread['code'], why: Unknown): Here => ({ warnings: [], unread: [{ code, why }] });
/** The result if this took too long. */
export const nothingHere = (why: Unknown): Here => ({
  warnings: [],
  unread: (['path-missing', 'threshold-met', 'program-unsafe'] as const).map((code) => ({ code, why })),
});

/** Sizes of the node that are not known, by the warnings that need them and are left out. */
export function unreadSizes({ thresholds }: Effective, sizes: HostSizes): readonly Unread[] {
  const signals = [...new Set(thresholds.map(({ signal }) => signal))];
  return signals.flatMap((signal) => {
    const { hostSize } = SIGNAL_FACTS[signal];
    if (hostSize === null || capacityOf(signal, sizes) !== null) return [];
    const code = hostSize === 'swapBytes' ? 'swap-off' : 'config-warning';
    return [{ code, why: unknown('unreadable', signal, 'its capacity is not known') } as const];
  });
}

/** Checks only configured paths; the installation creates the default ones. */
function missingPaths(effective: Effective, hung: HungDisks): Here {
  const paths = {
    podManifests: [effective.podManifests, 'no pod can be stopped'],
    'nodefs.path': [effective.nodefsPath, 'its signals cannot be read'],
    'imagefs.path': [effective.imagefsPath, 'its signals cannot be read'],
    'containerfs.path': [effective.containerfsPath, 'its signals cannot be read'],
    cgroupRoot: [nodeDirectory(effective), 'memory cannot be read'],
  } as const;
  const warnings: HereWarning[] = [];
  const unread: Unread[] = [];
  for (const [field, [path, then]] of Object.entries(paths)) {
    const origin = originOf(effective, field);
    if (path === null || origin === undefined) continue;
    const found = hung.get(path) ?? isThere(path);
    if (!found.known) unread.push({ code: 'path-missing', why: found });
    else if (!found.value) {
      const text = `${sayPlace(origin)}${field}: ${path} does not exist on this machine: ${then} until it does`;
      warnings.push({ code: 'path-missing', text });
    }
  }
  return { warnings, unread };
}

/** Null: the whole machine, or no memory controller, which is reported elsewhere. */
function nodeDirectory(effective: Effective): string | null {
  const { cgroupRoot } = observedOf(effective);
  const mounts = findCgroupMounts();
  return cgroupRoot === '/' || !mounts.known ? null : `${mounts.value.memory}${cgroupRoot}`;
}

/** The programs that the agent runs as root. */
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

function hiddenAt(program: string, hung: HungDisks): readonly (readonly [string, Unknown])[] {
  const there = hung.get(program) ?? isThere(program);
  return there.known || (!hung.has(program) && !isDenied(there)) ? [] : [[program, there]];
}

function programWarnings(effective: Effective, hung: HungDisks): Here {
  const programs = programsOf(effective);
  const hidden = new Map(programs.flatMap(({ program }) => hiddenAt(program, hung)));
  const unread = [...hidden.values()].map((why) => ({ code: 'program-unsafe', why }) as const);
  const warnings = programs.flatMap(({ field, path, program }) => {
    const fault = hidden.has(program) ? null : programFault(program);
    if (fault === null) return [];
    const text = `${sayPlace(originOf(effective, field))}${path}: ${fault}`;
    return [{ code: 'program-unsafe', text, fill: { program } } as const];
  });
  return { warnings, unread };
}

/** Measured as by the agent. Signals that need several samples are not known here. */
async function metAlready(effective: Effective, clock: Clock): Promise<Here> {
  const mounts = findCgroupMounts();
  if (!mounts.known) return unreadAt('threshold-met', mounts);
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
    const warnings: HereWarning[] = [];
    const unread: Unread[] = [];
    const said = toCoreConfig(effective, 1).thresholds.map(async (threshold) => {
      const { signal, graceMs } = threshold;
      const sample = await observer.reread(signal);
      if (!sample.known) {
        if (sample.why !== 'not-applicable') unread.push({ code: 'threshold-met', why: sample });
        return;
      }
      if (!isMet(threshold, sample.value)) return;
      const { available, capacity } = sample.value;
      const [now, limit] = sayApart(signal, available, bytesUp(limits(threshold, sample.value).limit));
      const then =
        graceMs === 0
          ? 'the agent would evict at once'
          : `its grace period of ${sayDuration(graceMs)} would begin at once`;
      const field = graceMs === 0 ? 'evictionHard' : 'evictionSoft';
      const place = sayPlace(originOf(effective, `${field}["${signal}"]`));
      const text = `${place}${field}: ${signal} is already below ${limit}: ${now} of ${sayAmount(signal, capacity)} is available now`;
      warnings.push({ code: 'threshold-met', text, then });
    });
    await Promise.all(said);
    return { warnings, unread };
  } finally {
    observer.close();
  }
}
