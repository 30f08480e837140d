import { Command, InvalidArgumentError, Option } from 'commander';
import { entryOf } from '../config/field.ts';
import { guardConfigOf } from '../config/guard/load.ts';
import { configOf } from '../config/load.ts';
import { UNKNOWN_SIZES } from '../config/margin.ts';
import { GUARD_KIND } from '../config/source.ts';
import { MAX_DOCUMENT_BYTES, parseDocuments } from '../document/document.ts';
import { type Problem, problemOfFile, sayProblem } from '../document/problem.ts';
import { listDirectory } from '../host/files.ts';
import { openText, type TextPieces, textOf, wholeText } from '../host/text-stream.ts';
import type { ScenarioHead } from '../simulate/scenario.ts';
import {
  type ScenarioReport,
  type SimulateAsked,
  type Simulated,
  type StepReport,
  simulate,
} from '../simulate/simulate.ts';
import { isScenarioFile, readScenarioFiles, STDIN_NAME, sayUnreadable } from '../simulate/source.ts';
import { clean, standardPaint } from './print.ts';
import { createLookText, type LookText, scenarioText, summaryText } from './simulate-text.ts';

export type Only = (head: ScenarioHead) => boolean;
type Options = {
  readonly check?: true;
  readonly only?: Only;
  readonly config?: string;
  readonly react?: boolean;
  readonly output: 'text' | 'json' | 'jsonl';
};

const EXPECTATION_FAILED = 1;
const BAD_INPUT = 2;

const HELP = `
Examples:
  nodewarden simulate /usr/share/nodewarden/scenarios/memory-leak.yaml
  nodewarden simulate --check --only 'profile=memory-*' scenarios.jsonl.gz
  nodewarden simulate --config stricter.yaml node.yaml    what another configuration would change

It changes nothing on this machine.
Files: .yaml, .yml, .json, .jsonl, each also with .gz; - is standard input.
Exit status: 0 if all went well, 1 if an expectation failed, 2 for a usage error, an unreadable file, a malformed
document, a directory without scenario files, or if --only matched nothing.`;

export function simulateCommand(): Command {
  return withOptions(new Command('simulate'))
    .description('Run scenarios in virtual time through the code that decides on live nodes')
    .option('--react', "Subtract a victim's usage from later samples (default for files made by capture)")
    .option('--no-react', "Keep a victim's usage in later samples (default for all other files)")
    .addHelpText('after', HELP)
    .action(async (files: readonly string[], options: Options) => {
      process.exitCode = await run(files, options);
    });
}

const GUARD_HELP = `
Examples:
  nodewarden guard simulate /usr/share/nodewarden/scenarios/guard/one-machine-dies.yaml
  nodewarden guard simulate --check /usr/share/nodewarden/scenarios/guard
  nodewarden guard simulate --config guard.yaml outage.yaml    what another configuration would have done

Nothing is touched: no cluster, no device. A directory stands for the scenario files in it.
Exit status: 0 if all went well, 1 if an expectation failed or something happened that must never happen, 2 for a usage
error, an unreadable file, a malformed document, a directory without scenario files, or if --only matched nothing.`;

/** `nodewarden guard simulate`: the same, for scenarios of a cluster. */
export function guardSimulateCommand(): Command {
  return withOptions(new Command('simulate'))
    .description('Run scenarios of a cluster in virtual time through the real decisions')
    .addHelpText('after', GUARD_HELP)
    .action(async (files: readonly string[], options: Options) => {
      process.exitCode = await run(files, options);
    });
}

function withOptions(command: Command): Command {
  return command
    .argument('<file...>', 'Scenario files, or directories of them')
    .option('--check', 'Compare the results with what the scenarios expect')
    .option('--only <pattern>', 'Run only scenarios that match a glob on the name (*, ?), or LABEL=GLOB', parseOnly)
    .addOption(
      new Option(
        '-c, --config <file>',
        "Replace each scenario's own configuration, and show what that changes",
      ).conflicts('check'),
    )
    .addOption(new Option('-o, --output <format>', 'Output format').choices(['text', 'json', 'jsonl']).default('text'));
}

async function run(files: readonly string[], options: Options): Promise<number> {
  if (options.config === '-' && files.includes('-')) {
    process.stderr.write('standard input cannot be both the configuration and the scenarios\n');
    return BAD_INPUT;
  }
  const [empty] = files.filter((name) => scenarioFiles([name]).length === 0);
  if (empty !== undefined) {
    process.stderr.write(`${clean(empty)}: no scenario file (.yaml, .json, .jsonl) in this directory\n`);
    return BAD_INPUT;
  }
  const other = await loadOther(options.config ?? null);
  if (other === 'refused') return BAD_INPUT;
  const asked = {
    expectations: options.check === true ? 'compare' : 'ignore',
    only: options.only ?? null,
    ...other,
    isReacting: options.react ?? null,
  } as const;
  return options.output === 'text'
    ? await runThrough(files, asked, textPrinter())
    : await runThrough(files, asked, jsonPrinter(options.output));
}

type Printed<Step> = Exclude<Simulated<Step>, { kind: 'problems' }>;
/** `print` yields the text of one item in pieces, from what `keep` retained of its looks. */
type Printer<Step> = {
  readonly keep: (step: StepReport) => Step;
  readonly print: (item: Printed<Step>) => Iterable<string>;
};

async function runThrough<Step>(
  files: readonly string[],
  asked: Omit<SimulateAsked<Step>, 'keep'>,
  { keep, print }: Printer<Step>,
): Promise<number> {
  for await (const item of simulate(readScenarioFiles(scenarioFiles(files), textOfStdin), { ...asked, keep })) {
    if (item.kind === 'problems') {
      for (const problem of item.problems) process.stderr.write(`${sayProblem(problem)}\n`);
      continue;
    }
    await put(print(item));
    if (item.kind === 'summary') return statusOf(item, asked.only !== null);
  }
  throw new Error('the summary is the last of a simulation');
}

function statusOf(
  { summary, isUnreadable, isFound }: Extract<Simulated<unknown>, { kind: 'summary' }>,
  isFiltered: boolean,
): number {
  if (isFiltered && !isFound && !isUnreadable) {
    process.stderr.write('--only matched nothing: use a glob on the whole name, or LABEL=GLOB\n');
    return BAD_INPUT;
  }
  if (isUnreadable || summary.malformed > 0) return BAD_INPUT;
  return summary.failed > 0 ? EXPECTATION_FAILED : 0;
}

/** The file may belong to anybody and be of either kind, because nothing is acted on. */
async function loadOther(name: string | null): Promise<Pick<SimulateAsked, 'config' | 'guardRules'> | 'refused'> {
  if (name === null) return { config: null };
  const file = name === '-' ? STDIN_NAME : name;
  const text = await wholeText(name === '-' ? textOfStdin() : openText(name), MAX_DOCUMENT_BYTES);
  if (!text.known) {
    process.stderr.write(`${sayProblem(problemOfFile(file, sayUnreadable(text)))}\n`);
    return 'refused';
  }
  if (isGuardConfig(text.value, file)) {
    const { effective, problems } = guardConfigOf(text.value, file, undefined, 'anybody');
    tell(problems);
    return effective === null ? 'refused' : { config: null, guardRules: effective.core };
  }
  // The sizes of this machine say nothing about the node of a scenario.
  const { effective, problems } = configOf(text.value, file, UNKNOWN_SIZES, 'anybody');
  tell(problems);
  return effective === null ? 'refused' : { config: effective };
}

function tell(problems: readonly Problem[]): void {
  for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
}

const isGuardConfig = (text: string, file: string): boolean =>
  parseDocuments(text, file, 'ours').documents.some(({ value }) => entryOf(value, 'kind') === GUARD_KIND);

const MAX_FILES = 10_000;

/** A directory stands for the scenario files in it, by name. */
function scenarioFiles(names: readonly string[]): readonly string[] {
  return names.flatMap((name) => {
    const entries = name === '-' ? null : listDirectory(name, MAX_FILES);
    if (entries?.known !== true) return [name];
    const files = entries.value.filter((entry) => isScenarioFile(entry)).toSorted();
    return files.map((entry) => `${name.replace(/\/$/, '')}/${entry}`);
  });
}

function textOfStdin(): TextPieces {
  return textOf(process.stdin, STDIN_NAME);
}

function textPrinter(): Printer<LookText> {
  const paint = standardPaint();
  return {
    keep: createLookText(paint),
    print: (item) => [item.kind === 'summary' ? summaryText(item.summary, paint) : scenarioText(item, paint)],
  };
}

function jsonPrinter(output: 'json' | 'jsonl'): Printer<string> {
  let before = '{"scenarios":[';
  return {
    keep: (step) => JSON.stringify(step),
    print: (item) => {
      if (output === 'jsonl') {
        return item.kind === 'summary'
          ? [`${JSON.stringify({ summary: item.summary })}\n`]
          : [...reportJson(item.report), '\n'];
      }
      const between = before;
      before = ',';
      if (item.kind === 'scenario') return [between, ...reportJson(item.report), '\n'];
      return [between === ',' ? '' : between, `],"summary":${JSON.stringify(item.summary)}}\n`];
    },
  };
}

/** The output of JSON.stringify in pieces: a whole report may exceed the maximum length of a string. */
function* reportJson(report: ScenarioReport<string>): Generator<string> {
  if (report.kind !== 'EvictionScenario') {
    yield JSON.stringify(report);
    return;
  }
  const { steps, comparison, ...head } = report;
  yield `${JSON.stringify(head).slice(0, -1)},"steps":[`;
  for (const [i, step] of steps.entries()) yield i === 0 ? step : `,${step}`;
  yield `]${comparison === undefined ? '' : `,"comparison":${JSON.stringify(comparison)}`}}`;
}

const CHUNK_LENGTH = 64 * 1024;

/** In large pieces, and no faster than the reader takes them. */
async function put(pieces: Iterable<string>): Promise<void> {
  let chunk = '';
  for (const piece of pieces) {
    chunk += piece;
    if (chunk.length < CHUNK_LENGTH) continue;
    await write(chunk);
    chunk = '';
  }
  if (chunk !== '') await write(chunk);
}

async function write(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  await new Promise<void>((resolve) => process.stdout.once('drain', () => resolve()));
}

/** A glob of `*` and `?` on the whole name, or on one label's value. */
export function parseOnly(pattern: string): Only {
  if (pattern === '') throw new InvalidArgumentError("Use a glob on the name, or LABEL=GLOB; for example 'memory-*'.");
  const at = pattern.indexOf('=');
  const glob = globOf(pattern.slice(at + 1));
  if (at === -1) return ({ name }) => glob.test(name);
  const key = pattern.slice(0, at);
  return ({ labels }) => Object.hasOwn(labels, key) && glob.test(labels[key] ?? '');
}

function globOf(pattern: string): RegExp {
  const source = pattern.replace(/[\\^$.|+()[\]{}*?]/g, (char) =>
    char === '*' ? '.*' : char === '?' ? '.' : `\\${char}`,
  );
  return new RegExp(`^${source}$`, 'su');
}
