import { Command, InvalidArgumentError, Option } from 'commander';
import { type ExplainedLook, signalOf } from '../core/explain.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';
import { isDisk, isSignal, SIGNALS, type Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { nearestName } from '../document/nearest.ts';
import { sayProblem } from '../document/problem.ts';
import { createClock } from '../host/clock.ts';
import { textOf } from '../host/text-stream.ts';
import { explainReport, type LookSource } from '../serve/explain-report.ts';
import { headOf } from '../simulate/envelope.ts';
import { type EvictionLook, runEviction } from '../simulate/eviction/run.ts';
import type { EvictionScenario } from '../simulate/scenario.ts';
import { readScenario } from '../simulate/simulate.ts';
import { readScenarioFiles, type SourceItem } from '../simulate/source.ts';
import { askMeasuredLook, fail, ofAnswer } from './daemon-answer.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { explainText } from './explain-text.ts';
import { clean, type Format, formatOption, printAs, sayNames } from './print.ts';
import { type Only, parseOnly } from './simulate.ts';

type Options = {
  readonly config?: string;
  readonly signal?: Signal;
  readonly scenario?: string;
  readonly step?: number;
  readonly only?: Only;
  readonly output: Format;
};

const BAD_USAGE = 2;
const HELP = `
Examples:
  nodewarden explain                                       the current or next victim on this node, and why
  nodewarden explain shop/web --signal nodefs.available    one pod, and what would have to change
  nodewarden explain --scenario leak.yaml --step 3         the same for a sample of a scenario

It prints the ranking with every value that was compared. The default signal is the one that the agent acts on, else the
first whose threshold is met, else memory.available. Without --step, it explains the first sample that evicts a pod, else
the last one.
Exit status: 0, 2 for a pod, sample or scenario that does not exist, or 3 when the agent is not running.`;

export function explainCommand(): Command {
  return new Command('explain')
    .description('Show which pod is evicted next and why, and what would change that')
    .argument('[pod]', 'Pod as namespace/name, name or uid (default: the current or next victim)')
    .option('-c, --config <file>', 'Configuration file that names the socket')
    .option('-s, --signal <signal>', 'Rank the pods for this signal', parseSignal)
    .addOption(
      new Option(
        '--scenario <file>',
        'Explain a sample of this scenario, not of the running agent (-: stdin)',
      ).conflicts('config'),
    )
    .option('--step <n>', 'Explain this sample of the scenario, counted from 1', parseStep)
    .option('--only <pattern>', 'Pick a scenario of the file: a glob on the name (*, ?), or LABEL=GLOB', parseOnly)
    .addOption(formatOption())
    .addHelpText('after', HELP)
    .action(async (pod: string | undefined, options: Options) => {
      process.exitCode = await run(pod ?? null, options);
    });
}

async function run(pod: string | null, options: Options): Promise<number> {
  const { scenario, step, only } = options;
  if (scenario === undefined) {
    if (step !== undefined || only !== undefined) return refuse('--step and --only need --scenario FILE');
    return await live(pod, options);
  }
  const found = await stepOf(scenario, { step: step ?? null, only: only ?? null });
  if (found.kind === 'refused') return refuse(...found.lines);
  return print(found.look, found.source, pod, options);
}

async function live(pod: string | null, options: Options): Promise<number> {
  const { config } = options;
  const { socket } = daemonPathsOf(config ?? null);
  const of = { socket, config };
  const look = await askMeasuredLook(socket, createClock(), (asked) => {
    const signal = options.signal ?? signalOf(asked);
    return signal !== null && isDisk(signal);
  });
  if ('kind' in look) return fail(look, of);
  const told = ofAnswer(of, () => {
    const { node, observation } = look;
    const { name, mode, dryRun } = node;
    const source = { kind: 'live', node: name, mode, dryRun, atWallMs: observation.wallMs } as const;
    return print(look, source, pod, options);
  });
  return told ?? 1;
}

function print(look: ExplainedLook, source: LookSource, pod: string | null, options: Options): number {
  const found = pod === null ? null : findPod(look, pod);
  if (found !== null && !found.ok) return refuse(found.text);
  const report = explainReport(look, source, { signal: options.signal ?? null, of: found?.uid ?? null });
  printAs(options.output, report, (paint) => explainText(report, paint));
  return 0;
}

type FoundPod = { readonly ok: true; readonly uid: PodUid } | { readonly ok: false; readonly text: string };

/** By uid, namespace/name, or a unique name. */
function findPod({ observation }: ExplainedLook, asked: string): FoundPod {
  const { pods } = observation;
  if (!pods.known) return { ok: false, text: `the pods are unknown: ${pods.where}: ${pods.detail}` };
  const all = pods.value;
  const matching = all.filter((pod) => pod.uid === asked || podName(pod) === asked);
  const named = matching.length > 0 ? matching : all.filter(({ name }) => name === asked);
  const [only, ...others] = named;
  if (only !== undefined && others.length === 0) return { ok: true, uid: only.uid };
  if (only !== undefined)
    return { ok: false, text: `several pods are named ${asked}: ${named.map(podName).join(', ')}` };
  const nearest = nearestName(asked, asked.includes('/') ? all.map(podName) : all.map(({ name }) => name));
  const hint = nearest === null ? `the pods are: ${sayNames(all.map(podName))}` : `did you mean ${nearest}?`;
  return { ok: false, text: `no pod ${asked} in this sample, which has only pods with running processes; ${hint}` };
}

function refuse(...lines: readonly string[]): number {
  for (const line of lines) process.stderr.write(`${clean(line)}\n`);
  return BAD_USAGE;
}

function parseSignal(text: string): Signal {
  if (isSignal(text)) return text;
  const nearest = nearestName(text, SIGNALS);
  throw new InvalidArgumentError(nearest === null ? `Use one of ${SIGNALS.join(', ')}.` : `Did you mean ${nearest}?`);
}

function parseStep(text: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Use a number from 1, for example 3.');
}

type Refused = { readonly kind: 'refused'; readonly lines: readonly string[] };
type Found = { readonly kind: 'look'; readonly look: ExplainedLook; readonly source: LookSource };

/** Decides one step of the file's scenario again. `step` null: the first one that evicts a pod, else the last one. */
async function stepOf(
  file: string,
  asked: { readonly step: number | null; readonly only: Only | null },
): Promise<Found | Refused> {
  const said = file === '-' ? STDIN : file;
  const items = readScenarioFiles([file], () => textOf(process.stdin, STDIN));
  const scenario = await scenarioIn(items, said, asked.only);
  return 'lines' in scenario ? scenario : lookOf(said, scenario, asked.step);
}
const STDIN = '<stdin>';

async function scenarioIn(
  items: AsyncIterable<SourceItem>,
  file: string,
  only: Only | null,
): Promise<EvictionScenario | Refused> {
  const names: string[] = [];
  let found: EvictionScenario | null = null;
  let others = 0;
  for await (const item of items) {
    if (item.kind === 'problems') return refused(...item.problems.map(sayProblem));
    const read = readScenario(item, only);
    if (read === null) {
      names.push(headOf(item.yaml)?.name ?? '(unnamed)');
      continue;
    }
    if (read.scenario === null) return refused(...read.problems.map(sayProblem));
    const { scenario } = read;
    names.push(scenario.name);
    if (scenario.kind !== 'EvictionScenario') {
      if (only !== null)
        return refused(`${file}: ${scenario.name} is a ${scenario.kind}: it has no samples to explain`);
      continue;
    }
    if (found !== null) others += 1;
    found ??= scenario;
  }
  if (others > 0) return refused(`${file} contains several scenarios; pick one with --only: ${sayNames(names)}`);
  return found ?? refused(sayNone(file, names, only));
}

function sayNone(file: string, names: readonly string[], only: Only | null): string {
  if (only === null) return `${file} contains no EvictionScenario`;
  return `${file}: --only matches none of ${sayNames(names)}`;
}

function lookOf(file: string, scenario: EvictionScenario, step: number | null): Found | Refused {
  let last: EvictionLook | null = null;
  for (const look of runEviction(scenario)) {
    last = look;
    if (step === null ? look.decisions.some(({ kind }) => kind === 'evict') : look.step === step) break;
  }
  if (last === null || (step !== null && last.step !== step)) {
    return refused(`${scenario.name} has no sample ${step}: its samples are 1 to ${scenario.steps.length}`);
  }
  const { observation, atMs } = last;
  const at = `step ${last.step} of ${scenario.name} at ${sayDuration(atMs)}`;
  if (observation === null) return refused(`${at}: the stats could not be read (statsFail), and nothing was decided`);
  const source = { kind: 'scenario', file, name: scenario.name, step: last.step, at: atMs } as const;
  return { kind: 'look', look: { ...last, observation }, source };
}

function refused(...lines: readonly string[]): Refused {
  return { kind: 'refused', lines };
}
