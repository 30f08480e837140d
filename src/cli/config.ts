import { Command, Option } from 'commander';
import type { Effective, Setting } from '../config/effective.ts';
import { readHostSizes, withDisks } from '../config/host-sizes.ts';
import { DEFAULT_CONFIG_FILE, type LoadedConfig, loadConfig } from '../config/load.ts';
import { jsonSchema } from '../config/schema.ts';
import { sayOrigin } from '../config/setting.ts';
import { sayProblem } from '../document/problem.ts';
import { createClock } from '../host/clock.ts';
import { type CheckedManifests, checkManifest, checkManifests, isManifestFile } from '../standalone/check-manifests.ts';
import { warningsHere } from './config-here.ts';
import { clean, jsonText, painter, standardPaper, table } from './print.ts';

type Options = { readonly output: 'text' | 'json' };

const BAD_CONFIG = 2;
const NO_MANIFESTS: CheckedManifests = { pods: 0, problems: [] };
const FILE_HELP = `configuration (default: ${DEFAULT_CONFIG_FILE}, or all defaults where there is none)`;

/** `config check|show|schema`. Exit status: 0, or 2 where the configuration has mistakes. */
export function configCommand(): Command {
  const output = () => new Option('-o, --output <format>', 'how to print').choices(['text', 'json']).default('text');
  const status = '\n\nExit status: 0, or 2 when there are mistakes.';
  const check = new Command('check')
    .description(
      'tells all mistakes in a configuration and in each of its pod manifests in one pass, and what is valid but hardly meant; what manifests want of this machine and of each other, only the agent finds',
    )
    .argument('[file]', `${FILE_HELP}; or one pod manifest`)
    .addOption(output())
    .addHelpText(
      'after',
      `\nExample:\n  nodewarden config check ./config.yaml\n  nodewarden config check /etc/nodewarden/pods.d/web.yaml${status}`,
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
    .description('every value in force and where it comes from')
    .argument('[file]', FILE_HELP)
    .addOption(output())
    .addHelpText('after', `\nExample:\n  nodewarden config show /etc/nodewarden/config.yaml${status}`)
    .action(async (file: string | undefined, options: Options) => {
      const loaded = await loadHere(file ?? null);
      if (loaded.effective === null) printProblems(loaded);
      else if (options.output === 'json') printJson(shownJson(loaded.effective));
      else standardPaper().write(shownText(loaded.effective.settings));
    });
  const schema = new Command('schema')
    .description('the JSON Schema of NodewardenConfiguration, so that editors check and complete')
    .addHelpText('after', '\nExample:\n  nodewarden config schema > nodewarden.schema.json')
    .action(() => printJson(jsonSchema()));
  return new Command('config')
    .description('check and show the configuration, and its JSON Schema')
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
  standardPaper().write(jsonText(value));
}

/** Mistakes on standard error, one per line, then their count. */
function printProblems({ problems }: Pick<LoadedConfig, 'problems'>): void {
  for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
  process.stderr.write(`${counted(problems.length, 'mistake')}\n`);
  process.exitCode = BAD_CONFIG;
}

function printCheck(loaded: LoadedConfig, manifests: CheckedManifests, file: string | null): void {
  if (loaded.effective === null) {
    printProblems(loaded);
    return;
  }
  const paper = standardPaper();
  const paint = painter(paper.hasColour);
  for (const warning of loaded.warnings) paper.write(`${paint('yellow', 'warning')} ${clean(warning)}\n`);
  const name = clean(loaded.effective.file ?? file ?? `no ${DEFAULT_CONFIG_FILE}, so all defaults`);
  paper.write(`${name}: ${paint('green', 'valid')}, ${counted(loaded.warnings.length, 'warning')}\n`);
  if (manifests.problems.length > 0) printProblems(manifests);
  else if (manifests.pods > 0) {
    paper.write(
      `${clean(loaded.effective.podManifests)}: ${paint('green', 'valid')}, ${counted(manifests.pods, 'pod')}\n`,
    );
  }
}

function printManifest({ pods, problems }: CheckedManifests, file: string, { output }: Options): void {
  if (output === 'json') printJson({ schema: 1, valid: problems.length === 0, file, problems, warnings: [] });
  if (problems.length > 0) {
    if (output === 'json') process.exitCode = BAD_CONFIG;
    else printProblems({ problems });
  } else if (output === 'text') standardPaper().write(`${clean(file)}: valid, ${counted(pods, 'pod')}\n`);
}

function printCheckJson({ problems, warnings, effective }: LoadedConfig, manifests: CheckedManifests): void {
  const all = [...problems, ...manifests.problems];
  const isValid = effective !== null && all.length === 0;
  printJson({ schema: 1, valid: isValid, file: effective?.file ?? null, problems: all, warnings });
  if (!isValid) process.exitCode = BAD_CONFIG;
}

function shownJson({ settings, file, kind, ignoredFields }: Effective): unknown {
  return { schema: 1, file, kind, ignoredFields, settings };
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

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
