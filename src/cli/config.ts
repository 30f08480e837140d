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
import { counted, sayAmount, sayLimit } from '../words/phrases.ts';
import { clean, type Format, formatOption, jsonText, type Paint, printAs, table } from './print.ts';

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
    .action(async (file: string | undefined, { output }: Options) => {
      const isManifest = file !== undefined && isManifestFile(file);
      printChecked(output, isManifest ? checkedManifest(file) : await checkedConfig(file ?? null));
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
    .action(() => void process.stdout.write(jsonText(jsonSchema())));
  return new Command('config')
    .description('Check and show the configuration, and print its JSON Schema')
    .addHelpText('after', '\nExample:\n  nodewarden config check')
    .addCommand(check)
    .addCommand(show)
    .addCommand(schema);
}

/** Adds the sizes of this host's file systems, which can be read only once the paths are known. */
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

/** Errors on standard error, one per line, then their count. */
function printProblems({ problems }: Pick<LoadedConfig, 'problems'>): void {
  for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
  process.stderr.write(`${counted(problems.length, 'error')}\n`);
  process.exitCode = BAD_CONFIG;
}

/** `good`: lines about what is valid. */
type Checked = Pick<LoadedConfig, 'problems' | 'warnings'> & {
  readonly file: string | null;
  readonly good: (paint: Paint) => readonly string[];
};

function printChecked(format: Format, { file, problems, warnings, good }: Checked): void {
  const valid = problems.length === 0;
  printAs(format, { schema: 1, valid, file, problems, warnings }, (paint) =>
    good(paint)
      .map((line) => `${line}\n`)
      .join(''),
  );
  if (!valid && format === 'text') printProblems({ problems });
  if (!valid) process.exitCode = BAD_CONFIG;
}

function checkedManifest(file: string): Checked {
  const { pods, problems } = checkManifest(file);
  const good = (paint: Paint) => (problems.length > 0 ? [] : [sayValid(file, counted(pods, 'pod'), paint)]);
  return { file, problems, warnings: [], good };
}

async function checkedConfig(named: string | null): Promise<Checked> {
  const { effective, problems, warnings } = await withWarningsHere(await loadHere(named));
  if (effective === null) return { file: null, problems, warnings, good: () => [] };
  const { file, mode, podManifests } = effective;
  const manifests = mode === 'standalone' ? checkManifests(podManifests) : NO_MANIFESTS;
  const good = (paint: Paint) => [
    ...warnings.map((warning) => `${paint('yellow', 'warning')} ${clean(warning)}`),
    sayValid(file ?? `no ${DEFAULT_CONFIG_FILE}, all defaults`, counted(warnings.length, 'warning'), paint),
    ...(manifests.problems.length > 0 || manifests.pods === 0
      ? []
      : [sayValid(podManifests, counted(manifests.pods, 'pod'), paint)]),
  ];
  return { file, problems: [...problems, ...manifests.problems], warnings, good };
}

function sayValid(what: string, count: string, paint: Paint): string {
  return `${clean(what)}: ${paint('green', 'valid')}, ${count}`;
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

/** Warnings about what a valid configuration would meet on this machine now, and that is probably not intended. */
async function warningsHere(effective: Effective, clock: Clock): Promise<readonly string[]> {
  return [...missingPaths(effective), ...(await metAlready(effective, clock))];
}

/** Only for paths that the configuration names; the installation creates the default ones. */
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
