import { Command } from 'commander';
import { observedOf, toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { readHostSizes, withDisks } from '../config/host-sizes.ts';
import { DEFAULT_CONFIG_FILE, type LoadedConfig, loadConfig } from '../config/load.ts';
import { jsonSchema } from '../config/schema.ts';
import { originOf, type Setting, sayOrigin, sayPlace } from '../config/setting.ts';
import { isMet, limits } from '../core/eviction/threshold.ts';
import { known } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import { findCgroupMounts } from '../host/cgroup-mounts.ts';
import { createClock } from '../host/clock.ts';
import { listDirectory } from '../host/files.ts';
import { createObserver } from '../observe/look.ts';
import type { Clock } from '../ports.ts';
import { type CheckedManifests, checkManifest, checkManifests, isManifestFile } from '../standalone/check-manifests.ts';
import { counted, sayAmount, sayLimit } from '../words/parts.ts';
import { clean, type Format, formatOption, jsonText, printAs, standardPaint, table } from './print.ts';

type Options = { readonly output: Format };

const BAD_CONFIG = 2;
const NO_MANIFESTS: CheckedManifests = { pods: 0, problems: [] };
const DEFAULT_HELP = `(default: ${DEFAULT_CONFIG_FILE} or all defaults)`;
const CHECK_HELP = `It also warns about valid settings that are probably not intended. It does not compare manifests with each other or
with what runs on this machine: only the agent does.`;

/** `config check|show|schema`. Exit status: 0, or 2 where the configuration has errors. */
export function configCommand(): Command {
  const status = '\n\nExit status: 0, or 2 when there are errors.';
  const check = new Command('check')
    .description('Report every error in a configuration and its pod manifests in one pass')
    .argument('[file]', `Configuration or manifest ${DEFAULT_HELP}`)
    .addOption(formatOption())
    .addHelpText(
      'after',
      `\nExamples:\n  nodewarden config check ./config.yaml\n  nodewarden config check /etc/nodewarden/pods.d/web.yaml\n\n${CHECK_HELP}${status}`,
    )
    .action(async (file: string | undefined, options: Options) => {
      if (file !== undefined && isManifestFile(file)) {
        printManifest(checkManifest(file), file, options);
        return;
      }
      const loaded = await withWarningsHere(await loadHere(file ?? null));
      const manifests =
        loaded.effective?.mode === 'standalone' ? checkManifests(loaded.effective.podManifests) : NO_MANIFESTS;
      if (options.output === 'json') printCheckJson(loaded, manifests);
      else printCheck(loaded, manifests, file ?? null);
    });
  const show = new Command('show')
    .description('Show every value in force and where it comes from')
    .argument('[file]', `Configuration file ${DEFAULT_HELP}`)
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  nodewarden config show /etc/nodewarden/config.yaml${status}`)
    .action(async (file: string | undefined, options: Options) => {
      const loaded = await loadHere(file ?? null);
      if (loaded.effective === null) printProblems(loaded);
      else printShown(options.output, loaded.effective);
    });
  const schema = new Command('schema')
    .description('Print the JSON Schema, for validation and completion in editors')
    .addHelpText('after', '\nExample:\n  nodewarden config schema > nodewarden.schema.json')
    .action(() => printJson(jsonSchema()));
  return new Command('config')
    .description('Check and show the configuration, and print its JSON Schema')
    .addHelpText('after', '\nExample:\n  nodewarden config check')
    .addCommand(check)
    .addCommand(show)
    .addCommand(schema);
}

/** With what this host's file systems hold, which is known only after the paths are. */
async function loadHere(file: string | null): Promise<LoadedConfig> {
  const sizes = readHostSizes();
  const first = loadConfig(file, sizes);
  if (first.effective === null) return first;
  return loadConfig(file, await withDisks(sizes, first.effective, createClock()));
}

async function withWarningsHere(loaded: LoadedConfig): Promise<LoadedConfig> {
  if (loaded.effective === null || loaded.problems.length > 0) return loaded;
  return { ...loaded, warnings: [...loaded.warnings, ...(await warningsHere(loaded.effective, createClock()))] };
}

function printJson(value: unknown): void {
  process.stdout.write(jsonText(value));
}

/** Errors on standard error, one per line, then their count. */
function printProblems({ problems }: Pick<LoadedConfig, 'problems'>): void {
  for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
  process.stderr.write(`${counted(problems.length, 'error')}\n`);
  process.exitCode = BAD_CONFIG;
}

function printCheck(loaded: LoadedConfig, manifests: CheckedManifests, file: string | null): void {
  if (loaded.effective === null) {
    printProblems(loaded);
    return;
  }
  const paint = standardPaint();
  for (const warning of loaded.warnings) process.stdout.write(`${paint('yellow', 'warning')} ${clean(warning)}\n`);
  const name = clean(loaded.effective.file ?? file ?? `no ${DEFAULT_CONFIG_FILE}, all defaults`);
  process.stdout.write(`${name}: ${paint('green', 'valid')}, ${counted(loaded.warnings.length, 'warning')}\n`);
  if (manifests.problems.length > 0) printProblems(manifests);
  else if (manifests.pods > 0) {
    process.stdout.write(
      `${clean(loaded.effective.podManifests)}: ${paint('green', 'valid')}, ${counted(manifests.pods, 'pod')}\n`,
    );
  }
}

function printManifest({ pods, problems }: CheckedManifests, file: string, { output }: Options): void {
  if (output === 'json') printJson({ schema: 1, valid: problems.length === 0, file, problems, warnings: [] });
  if (problems.length > 0) {
    if (output === 'json') process.exitCode = BAD_CONFIG;
    else printProblems({ problems });
  } else if (output === 'text') process.stdout.write(`${clean(file)}: valid, ${counted(pods, 'pod')}\n`);
}

function printCheckJson({ problems, warnings, effective }: LoadedConfig, manifests: CheckedManifests): void {
  const all = [...problems, ...manifests.problems];
  const isValid = effective !== null && all.length === 0;
  printJson({ schema: 1, valid: isValid, file: effective?.file ?? null, problems: all, warnings });
  if (!isValid) process.exitCode = BAD_CONFIG;
}

function printShown(format: Format, { settings, file, kind, ignoredFields }: Effective): void {
  printAs(format, { schema: 1, file, kind, ignoredFields, settings }, () => shownText(settings));
}

function shownText(settings: readonly Setting[]): string {
  const rows = settings.map(({ path, value, origin }) => [
    clean(path),
    clean(sayValue(value)),
    clean(sayOrigin(origin)),
  ]);
  return table(['FIELD', 'VALUE', 'ORIGIN'], rows);
}

function sayValue(value: unknown): string {
  if (value === null) return 'none';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** What a valid configuration would find on this machine at this moment, and is hardly meant. */
async function warningsHere(effective: Effective, clock: Clock): Promise<readonly string[]> {
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
