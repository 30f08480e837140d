// Everything in a folder of conformance data, through the code of `simulate --check` and the configuration's.
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { isObject } from '../../src/core/shape.ts';
import { sayProblem } from '../../src/document/problem.ts';
import type { Json, Mismatch } from '../../src/simulate/scenario.ts';
import { type ScenarioReport, type StepReport, simulate } from '../../src/simulate/simulate.ts';
import { readScenarioFiles, type SourceItem } from '../../src/simulate/source.ts';
import { configAnswer, inKeyOrder, withSets } from './config-cases.ts';
import exceptions from './exceptions.json' with { type: 'json' };

export type Counts = {
  readonly evictions: number;
  readonly looks: number;
  readonly shutdowns: number;
  readonly configs: number;
  readonly passed: number;
  readonly failed: number;
  /** Not passed on purpose: exceptions.json. */
  readonly excepted: number;
};

/** Every *.jsonl and *.jsonl.gz of the folder, told by what is in them. `failed` gets a line for each that fails. */
export async function runConformance(directory: string, failed: (line: string) => void): Promise<Counts> {
  const files = readdirSync(directory)
    .filter((name) => /\.jsonl(\.gz)?$/.test(name))
    .sort();
  const counts = { evictions: 0, looks: 0, shutdowns: 0, configs: 0, passed: 0, failed: 0, excepted: 0 };
  const fail = (line: string): void => {
    counts.failed += 1;
    failed(line);
  };
  const count = (outcome: ConfigOutcome): void => {
    counts.configs += 1;
    if (outcome.kind === 'failed') fail(outcome.line);
    else counts[outcome.kind] += 1;
  };
  const none = (): never => {
    throw new Error('conformance data are read from files');
  };
  const items = scenariosOf(
    readScenarioFiles(
      files.map((name) => path.join(directory, name)),
      none,
    ),
    count,
  );
  const asked = { expectations: 'compare', only: null, config: null, keep: (step: StepReport) => step } as const;
  for await (const item of simulate(items, asked)) {
    if (item.kind === 'problems') for (const problem of item.problems) fail(sayProblem(problem));
    if (item.kind !== 'scenario') continue;
    const { report } = item;
    if (report.kind !== 'EvictionScenario') counts.shutdowns += 1;
    else {
      counts.evictions += 1;
      counts.looks += report.steps.length;
    }
    if (report.ok) counts.passed += 1;
    else fail(`${report.file}:${report.line}: ${report.name}: ${mismatchesIn(report).map(sayMismatch).join('; ')}`);
  }
  return counts;
}

export function sayCounts(counts: Counts): string {
  const what = `${counts.evictions} eviction scenarios (${counts.looks} looks), ${counts.shutdowns} shutdown scenarios, ${counts.configs} config cases`;
  const excepted = `${counts.excepted} not passed on purpose (test/conformance/exceptions.json)`;
  return `conformance: ${what}: ${counts.passed} passed, ${counts.failed} failed, ${excepted}`;
}

type Told = { readonly mismatch: Mismatch; readonly step: number | null };

function mismatchesIn(report: ScenarioReport): readonly Told[] {
  if (report.kind !== 'EvictionScenario') return report.mismatches.map((mismatch) => ({ mismatch, step: null }));
  return report.steps.flatMap(({ step, mismatches }) => mismatches.map((mismatch) => ({ mismatch, step })));
}

function sayMismatch({ mismatch: { path: at, expected, actual }, step }: Told): string {
  const look = step === null ? '' : `step ${step}: `;
  return `${look}${at}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`;
}

/** The documents that are scenarios; cases of a configuration are answered on the way. */
async function* scenariosOf(
  items: AsyncIterable<SourceItem>,
  count: (outcome: ConfigOutcome) => void,
): AsyncGenerator<SourceItem> {
  for await (const item of items) {
    const value = item.kind === 'document' ? item.yaml.value : null;
    if (isObject(value) && typeof value['case'] === 'string' && value['kind'] === undefined) {
      const outcome = configOutcome(value);
      const line = item.kind === 'document' ? item.line : 1;
      count(outcome.kind === 'failed' ? { ...outcome, line: `${item.file}:${line}: ${outcome.line}` } : outcome);
    } else yield item;
  }
}

export type ConfigOutcome =
  | { readonly kind: 'passed' | 'excepted' }
  | { readonly kind: 'failed'; readonly line: string };

export function configOutcome(entry: Json): ConfigOutcome {
  const answered = configAnswer(entry);
  const { expect, ...asked } = entry;
  const name = JSON.stringify(asked);
  if (answered === null) return { kind: 'failed', line: `${name}: no such kind of case` };
  const said = (value: unknown): string => JSON.stringify(inKeyOrder(value));
  const [expected, got] = [said(withSets(expect)), said(answered.answer)];
  if (expected === got) return { kind: 'passed' };
  const isMeant = exceptions.some(
    (rule) =>
      rule.case === entry['case'] &&
      rule.answer === answered.answer &&
      valuesAt(entry, rule.path.split(/(?=\[\])|\./)).some((value) => typeof value === 'number' && value < rule.below),
  );
  return isMeant ? { kind: 'excepted' } : { kind: 'failed', line: `${name}: expected ${expected}, got ${got}` };
}

/** Every value at a path in which `[]` stands for each entry of a list. */
function valuesAt(value: unknown, steps: readonly string[]): readonly unknown[] {
  const [step, ...rest] = steps;
  if (step === undefined) return [value];
  if (step === '[]') return Array.isArray(value) ? value.flatMap((entry) => valuesAt(entry, rest)) : [];
  return isObject(value) ? valuesAt(value[step], rest) : [];
}
