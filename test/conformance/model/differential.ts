/**
 * Random scenarios through the model and through the program, side by side. Every difference is a defect of one of
 * the two, or a place where the texts leave something open.
 *
 *     npx tsx test/conformance/model/differential.ts --scenarios 50000 --seed 1 [--kind eviction|shutdown]
 *
 * With `--recorded` first the model alone against all of the kubelet's recorded answers.
 * Scenario i of seed s has the seed s * 1,000,003 + i, so that one alone can be had again: `--scenarios 1 --seed N --one`.
 */
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { parseJsonDocument } from '../../../src/document/json.ts';
import type { Problem } from '../../../src/document/problem.ts';
import { runEviction } from '../../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../../src/simulate/eviction/scenario.ts';
import { runShutdown } from '../../../src/simulate/shutdown/run.ts';
import { readShutdownScenario } from '../../../src/simulate/shutdown/scenario.ts';
import { evictionModel } from './eviction-model.ts';
import { canonical } from './expect.ts';
import { generateEviction } from './generate-eviction.ts';
import { generateShutdown } from './generate-shutdown.ts';
import { at, entriesOf, type Json, listOf } from './json.ts';
import { recordedDisagreements } from './recorded.ts';
import { shutdownModel } from './shutdown-model.ts';
import { smallest } from './smallest.ts';

export type Kind = 'eviction' | 'shutdown';
export type Difference = {
  readonly kind: Kind;
  readonly seed: number;
  /** What differs in the scenario as generated, and in the smallest one that still differs. */
  readonly where: string;
  readonly scenario: Json;
};

const SEED_STEP = 1_000_003;

/** Seeds of `count` scenarios. */
export function seedsOf(seed: number, count: number): readonly number[] {
  return Array.from({ length: count }, (_, index) => seed * SEED_STEP + index);
}

export function differenceOf(kind: Kind, seed: number): Difference | null {
  const scenario = kind === 'eviction' ? generateEviction(seed) : generateShutdown(seed);
  const compare = kind === 'eviction' ? compareEviction : compareShutdown;
  const first = compare(scenario);
  if (first === null) return null;
  const least = smallest(scenario, (smaller) => sort(compare(smaller)) === sort(first));
  return { kind, seed, where: compare(least) ?? '', scenario: least };
}

/** What kind of difference it is, so that making it smaller does not end at another one: the key, or the refusal. */
function sort(where: string | null): string | null {
  if (where === null) return null;
  return where.startsWith('Error')
    ? where.replace(/^Error: refused: \S* /, '')
    : where.replace(/^step \d+ /, '').replace(/:.*/s, '');
}

function told<T>(read: { readonly scenario: T | null; readonly problems: readonly Problem[] }): T {
  const [problem] = read.problems;
  if (read.scenario === null || problem !== undefined) throw new Error(`refused: ${problem?.path} ${problem?.text}`);
  return read.scenario;
}

function documentOf(scenario: Json) {
  const [document] = parseJsonDocument(JSON.stringify(scenario), 'random.json').documents;
  if (document === undefined) throw new Error('not a document');
  return document;
}

/** The first step and key where the two differ; null = none. What the program refuses counts as a difference. */
function compareEviction(scenario: Json): string | null {
  const expected = evictionModel(scenario);
  let actual: readonly unknown[];
  try {
    actual = [...runEviction(told(readEvictionScenario(documentOf(scenario))))].map((look) => look.result);
  } catch (cause) {
    return String(cause);
  }
  for (const [index, result] of expected.entries()) {
    const other = actual[index] as { readonly [key: string]: unknown } | undefined;
    for (const [key, value] of Object.entries(result)) {
      const [model, program] = [canonical(value), canonical(other?.[key])];
      if (model !== program) return `step ${index + 1} ${key}: model ${model}, program ${program}`;
    }
  }
  return null;
}

function compareShutdown(scenario: Json): string | null {
  const { result, open } = shutdownModel(scenario);
  if (open.length > 0) return null;
  let actual: Json;
  try {
    actual = JSON.parse(JSON.stringify(runShutdown(told(readShutdownScenario(documentOf(scenario)))).result)) as Json;
  } catch (cause) {
    return String(cause);
  }
  for (const key of new Set([...Object.keys(result ?? {}), ...Object.keys(actual ?? {})])) {
    const [model, program] = [at(result, key), at(actual, key)];
    if (comparable(key, model) !== comparable(key, program)) {
      return `${key}: model ${canonical(model)}, program ${canonical(program)}`;
    }
  }
  return null;
}

/** As text, with the order of sets taken out (shutdown-scenarios.md 4.1). */
function comparable(key: string, value: Json): string {
  const asSet = (set: Json) => listOf(set).map(canonical).sort();
  if (key === 'configErrors') return canonical(asSet(value));
  if (key !== 'phases') return canonical(value);
  return canonical(
    listOf(value).map((phase) => ({
      ...entriesOf(phase),
      stillRunning: asSet(at(phase, 'stillRunning')),
      volumesPending: asSet(at(phase, 'volumesPending')),
    })),
  );
}

function checkRecorded(): number {
  const { compared, wrong } = recordedDisagreements(1);
  process.stdout.write(
    `${wrong.map((line) => `${line}\n`).join('')}recorded: ${compared} scenarios, ${wrong.length} wrong\n`,
  );
  return wrong.length;
}

function main(): void {
  const { values } = parseArgs({
    options: {
      scenarios: { type: 'string', default: '1000' },
      seed: { type: 'string', default: '1' },
      kind: { type: 'string' },
      one: { type: 'boolean', default: false },
      recorded: { type: 'boolean', default: false },
      stop: { type: 'string', default: '20' },
    },
  });
  const seeds = values.one ? [Number(values.seed)] : seedsOf(Number(values.seed), Number(values.scenarios));
  const kinds = (['eviction', 'shutdown'] as const).filter((kind) => values.kind === undefined || values.kind === kind);
  let differences = values.recorded ? checkRecorded() : 0;
  for (const kind of kinds) {
    for (const seed of seeds) {
      const difference = differenceOf(kind, seed);
      if (difference === null) continue;
      differences += 1;
      process.stdout.write(`${kind} seed ${seed}: ${difference.where}\n${JSON.stringify(difference.scenario)}\n\n`);
      if (differences >= Number(values.stop)) break;
    }
  }
  process.stdout.write(
    `seed ${values.seed}: ${seeds.length} scenarios of ${kinds.join(' and ')}, ${differences} differences\n`,
  );
  process.exitCode = differences === 0 ? 0 : 1;
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) main();
