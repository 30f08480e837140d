import { Argument, Command } from 'commander';
import type { Effective } from '../config/effective.ts';
import { isGuardFile, type LoadedGuard, loadGuard } from '../config/guard/load.ts';
import { guardJsonSchema } from '../config/guard/schema.ts';
import { DEFAULT_CONFIG_FILE, type LoadedConfig } from '../config/load.ts';
import { jsonSchema } from '../config/schema.ts';
import { type Setting, sayOrigin } from '../config/setting.ts';
import { GUARD_KIND } from '../config/source.ts';
import { loadHere, warningsHere, withThen } from '../doctor/loaded-here.ts';
import { evictedForIt, nobodyToEvict } from '../doctor/who-may-go.ts';
import { problemOfFile, sayProblem } from '../document/problem.ts';
import { createAgents } from '../guard/agents.ts';
import { createClock } from '../host/clock.ts';
import { filesHang } from '../host/disk/hung-disk.ts';
import {
  type CheckedManifests,
  checkManifest,
  checkManifests,
  isManifestFile,
  manifestsHang,
  repeatedBindings,
  repeatedNames,
} from '../standalone/manifests/check-manifests.ts';
import { directoryWarnings } from '../standalone/pods/scratch-places.ts';
import { counted } from '../words/phrases.ts';
import { clean, type Format, formatOption, jsonText, type Paint, printAs, table } from './print.ts';

type Options = { readonly output: Format };

const BAD_CONFIG = 2;
const NO_MANIFESTS: CheckedManifests = { pods: [], problems: [] };
const OWN_KIND = 'NodewardenConfiguration';
const SCHEMAS = { [OWN_KIND]: jsonSchema, [GUARD_KIND]: guardJsonSchema } as const;
const DEFAULT_HELP = `(default: ${DEFAULT_CONFIG_FILE} or all defaults)`;
const CHECK_HELP = `It also warns about valid settings that are probably not intended. It compares manifests by what they name, not by what
runs on this machine: only the agent does.`;

/** `config check|show|schema`. Exit status: 0, or 2 if the configuration has errors. */
export function configCommand(): Command {
  const status = '\n\nExit status: 0, or 2 when there are errors.';
  const check = new Command('check')
    .description('Report every error in a configuration and its pod manifests in one pass')
    .argument('[file]', `Configuration or manifest ${DEFAULT_HELP}`)
    .addOption(formatOption())
    .addHelpText(
      'after',
      `\nExamples:\n  nodewarden config check ./config.yaml\n  nodewarden config check /etc/nodewarden/pods.d/web.yaml\n  nodewarden config check /etc/nodewarden/guard.yaml\n\n${CHECK_HELP}${status}`,
    )
    .action(async (file: string | undefined, { output }: Options) => {
      printChecked(output, await checked(file ?? null));
    });
  const show = new Command('show')
    .description('Show every value in force and where it comes from')
    .argument('[file]', `Configuration file ${DEFAULT_HELP}`)
    .addOption(formatOption())
    .addHelpText('after', `\nExample:\n  nodewarden config show /etc/nodewarden/config.yaml${status}`)
    .action(async (file: string | undefined, { output }: Options) => {
      if (file !== undefined && isGuardFile(file)) await showGuard(output, file);
      else await showConfig(output, file ?? null);
    });
  const schema = new Command('schema')
    .description('Print the JSON Schema, for validation and completion in editors')
    .addArgument(new Argument('[kind]', 'Kind of configuration').choices(Object.keys(SCHEMAS)).default(OWN_KIND))
    .addHelpText('after', '\nExample:\n  nodewarden config schema > nodewarden.schema.json')
    .action((kind: keyof typeof SCHEMAS) => void process.stdout.write(jsonText(SCHEMAS[kind]())));
  return new Command('config')
    .description('Check and show the configuration, and print its JSON Schema')
    .addHelpText('after', '\nExample:\n  nodewarden config check')
    .addCommand(check)
    .addCommand(show)
    .addCommand(schema);
}

/** Errors on standard error, one per line, then their count. */
function printProblems({ problems }: Pick<LoadedConfig, 'problems'>): void {
  for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
  process.stderr.write(`${counted(problems.length, 'error')}\n`);
  process.exitCode = BAD_CONFIG;
}

/** `good`: lines about what is valid. */
type Checked = Pick<LoadedConfig, 'problems'> & {
  readonly warnings: readonly string[];
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

async function checked(file: string | null): Promise<Checked> {
  const hangs = file === null ? undefined : (await filesHang([file])).get(file);
  if (file !== null && hangs !== undefined)
    return { file, problems: [problemOfFile(file, hangs.detail)], warnings: [], good: () => [] };
  if (file !== null && isManifestFile(file)) return checkedManifest(file);
  return file !== null && isGuardFile(file) ? await checkedGuard(file) : await checkedConfig(file);
}

async function checkedGuard(file: string): Promise<Checked> {
  const loaded = await loadGuardHere(file);
  const warnings = loaded.warnings.map(sayProblem);
  const valid = (paint: Paint) => [sayValid(file, counted(warnings.length, 'warning'), paint)];
  const good = (paint: Paint) => [...warningLines(warnings, paint), ...(loaded.effective === null ? [] : valid(paint))];
  return { file, problems: loaded.problems, warnings, good };
}

async function checkedManifest(file: string): Promise<Checked> {
  const { pods, problems } = checkManifest(file);
  const warnings = problems.length > 0 ? [] : await manifestWarnings(pods);
  const valid = (paint: Paint) => sayValid(file, counted(pods.length, 'pod'), paint);
  const good = (paint: Paint) => [...warningLines(warnings, paint), ...(problems.length > 0 ? [] : [valid(paint)])];
  return { file, problems, warnings, good };
}

async function manifestWarnings(pods: CheckedManifests['pods']): Promise<readonly string[]> {
  const doubts = pods.flatMap((pod) => pod.doubts.map(sayProblem));
  return [...doubts, ...repeatedNames(pods), ...repeatedBindings(pods), ...(await directoryWarnings(pods))];
}

async function checkedConfig(named: string | null): Promise<Checked> {
  const clock = createClock();
  const loaded = await loadHere(named, clock);
  const { effective, problems } = loaded;
  if (effective === null) {
    const warnings = loaded.warnings.map(({ text }) => text);
    return { file: named ?? DEFAULT_CONFIG_FILE, problems, warnings, good: (paint) => warningLines(warnings, paint) };
  }
  const { file, mode, podManifests } = effective;
  const isUsed = mode === 'standalone';
  const hung = isUsed && !loaded.hung.has(podManifests) ? await manifestsHang(podManifests) : loaded.hung;
  const manifests = isUsed ? checkManifests(podManifests, hung) : NO_MANIFESTS;
  const { warnings: here } = await warningsHere(effective, loaded.hung, clock);
  const areUsed = isUsed && manifests.problems.length === 0;
  const ofPods = areUsed ? [...podWarnings(effective, manifests), ...(await manifestWarnings(manifests.pods))] : [];
  const warnings = [...loaded.warnings.map(({ text }) => text), ...here.map(withThen), ...ofPods];
  const good = (paint: Paint) => [
    ...warningLines(warnings, paint),
    sayValid(file ?? `no ${DEFAULT_CONFIG_FILE}, all defaults`, counted(warnings.length, 'warning'), paint),
    ...(manifests.problems.length > 0 || manifests.pods.length === 0
      ? []
      : [sayValid(podManifests, counted(manifests.pods.length, 'pod'), paint)]),
  ];
  return { file, problems: [...problems, ...manifests.problems], warnings, good };
}

function podWarnings({ thresholds, podManifests, dryRun }: Effective, manifests: CheckedManifests): readonly string[] {
  const pods = manifests.pods.map(({ declared }) => declared);
  const signals = thresholds.map(({ signal }) => signal);
  // A dry run evicts nobody anyway.
  const nobody = dryRun ? null : nobodyToEvict(pods, signals, podManifests);
  return [nobody, ...pods.map((pod) => evictedForIt(pod, pods, signals))].filter((text) => text !== null);
}

const warningLines = (warnings: readonly string[], paint: Paint): readonly string[] =>
  warnings.map((warning) => `${paint('yellow', 'warning')} ${clean(warning)}`);

function sayValid(what: string, count: string, paint: Paint): string {
  return `${clean(what)}: ${paint('green', 'valid')}, ${count}`;
}

async function showConfig(format: Format, file: string | null): Promise<void> {
  const loaded = await loadHere(file, createClock());
  if (loaded.effective === null) printProblems(loaded);
  else printShown(format, loaded.effective);
}

async function showGuard(format: Format, file: string): Promise<void> {
  const { effective, problems } = await loadGuardHere(file);
  if (effective === null) return printProblems({ problems });
  const { settings, hash } = effective;
  const agreed = `\nHash ${hash}: two guards of one cluster must have the same.\n`;
  printAs(format, { schema: 1, file, kind: GUARD_KIND, hash, settings }, () => `${shownText(settings)}${agreed}`);
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

/** Agents are programs in Python, which start slowly on a busy machine. */
const DEADLINE_MS = 20_000;

/** A configuration of the guard, its agents asked for their parameters where they are installed. Nothing else is asked. */
function loadGuardHere(file: string): Promise<LoadedGuard> {
  const settings = () => ({ deadlineMs: DEADLINE_MS, secretDirectory: '/nonexistent' });
  return loadGuard(file, createAgents({ clock: createClock(), settings }).metadata);
}
