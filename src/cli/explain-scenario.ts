import type { ExplainedLook } from '../core/explain.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayProblem } from '../document/problem.ts';
import { textOf } from '../host/text-stream.ts';
import type { LookSource } from '../serve/explain-report.ts';
import { headOf } from '../simulate/envelope.ts';
import { type EvictionLook, runEviction } from '../simulate/eviction/run.ts';
import type { EvictionScenario } from '../simulate/scenario.ts';
import { readScenario } from '../simulate/simulate.ts';
import { readScenarioFiles, type SourceItem } from '../simulate/source.ts';
import { sayNames } from './print.ts';
import type { Only } from './simulate.ts';

type Refused = { readonly kind: 'refused'; readonly lines: readonly string[] };
type Found = { readonly kind: 'look'; readonly look: ExplainedLook; readonly source: LookSource };

/** Decides one step of the file's scenario again. `step` null: the first one that evicts a pod, else the last one. */
export async function stepOf(
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
