import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import { configOf } from '../../src/config/load.ts';
import { parseJsonDocument } from '../../src/document/json.ts';
import { textOf } from '../../src/host/text-stream.ts';
import { compareLook } from '../../src/simulate/eviction/expect.ts';
import { compareGuard } from '../../src/simulate/guard/expect.ts';
import { compareShutdown } from '../../src/simulate/shutdown/expect.ts';
import { type ScenarioReport, type SimulateAsked, simulate } from '../../src/simulate/simulate.ts';
import { readScenarioFiles } from '../../src/simulate/source.ts';
import { NO_SIZES } from '../config/a-config.ts';
import { blocksOf, filesIn, linesOf } from './corpus.ts';
import { Complaint, lineCount, must, placed, same } from './oracle.ts';
import { type Attempt, type Example, example, type Target, type Workplace } from './target.ts';

/** scenarios.md 7.2, and that there are more. */
const MAX_PROBLEMS = 21;

const recordedIn =
  (...names: readonly string[]) =>
  ({ root }: Workplace): readonly Example[] =>
    names.flatMap((name) => linesOf(join(root, 'test/conformance', name), 60).map((line) => example(`${line}\n`)));
const recorded = recordedIn('eviction.jsonl.gz', 'shutdown.jsonl.gz');

const written = ({ root }: Workplace): readonly Example[] => [
  ...filesIn(join(root, 'config/scenarios'), '.yaml'),
  ...blocksOf(join(root, 'docs/simulate.md'), 'yaml'),
];

const jsonDocuments: Target = {
  name: 'json',
  syntax: 'json',
  isOffline: true,
  examples: recorded,
  open: () => (input) => {
    const text = input.toString();
    const { documents, problems } = parseJsonDocument(text, 'd.json');
    placed(problems, text, Number.POSITIVE_INFINITY);
    const [document] = documents;
    const isTooDeep = problems.some((problem) => problem.text.startsWith('nested deeper'));
    must(document !== undefined || problems.length > 0, 'refused without a problem');
    must(isJson(text) === (document !== undefined || isTooDeep), 'JSON.parse takes it otherwise');
    if (document !== undefined) placed([document.problemAt(['pods', 0, 'metadata', 'name'], 'here')], text);
    return document !== undefined && problems.length === 0;
  },
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

type Asked = Pick<SimulateAsked, 'expectations' | 'config'>;
const CHECK: Asked = { expectations: 'compare', config: null };

/** Reads a file of that name as `simulate` does, and plays every scenario in it. */
function scenarios(
  name: string,
  file: string,
  syntax: Target['syntax'],
  rest: Pick<Target, 'examples'> & { readonly asked?: Asked },
): Target {
  return {
    name,
    syntax,
    isOffline: true,
    examples: rest.examples,
    open: ({ scratch }): Attempt => {
      const path = file === '-' ? '-' : join(scratch, file);
      return async (input) => {
        if (file !== '-') writeFileSync(path, input);
        const items = readScenarioFiles([path], () => textOf(Readable.from([input]), '<stdin>'));
        return played(items, rest.asked ?? CHECK, file.endsWith('.gz') ? 1_000_000 : lineCount(input.toString()));
      };
    },
  };
}

async function played(items: ReturnType<typeof readScenarioFiles>, asked: Asked, lines: number): Promise<boolean> {
  let accepted = 0;
  let refused = 0;
  for await (const one of simulate(items, { ...asked, only: null, keep: (step) => step })) {
    if (one.kind === 'problems') {
      refused += 1;
      must(one.problems.length > 0, 'refused without a problem');
      placed(one.problems, lines, MAX_PROBLEMS);
    } else if (one.kind === 'scenario') {
      accepted += 1;
      numbers(one.report);
      repeats(one.report);
      for (const mismatch of one.report.kind === 'EvictionScenario' ? [] : one.report.mismatches) {
        must(one.lineOf(mismatch, null) >= 1, 'a mismatch without a line');
      }
    }
  }
  must(accepted + refused > 0, 'neither accepted nor refused');
  return accepted > 0 && refused === 0;
}

/** scenarios.md 6.3: a result can be pasted back as an expectation, and then holds. */
function repeats(report: ScenarioReport): void {
  if (report.kind === 'ShutdownScenario') {
    same(
      compareShutdown(JSON.parse(JSON.stringify(report.result)), report.result),
      [],
      'a result is not its own expectation',
    );
    return;
  }
  if (report.kind === 'GuardScenario') {
    const { result } = report;
    same(compareGuard(JSON.parse(JSON.stringify(result)), result), [], 'a result is not its own expectation');
    return;
  }
  for (const { result } of report.steps) {
    same(compareLook(JSON.parse(JSON.stringify(result)), result), [], 'a result is not its own expectation');
  }
}

function numbers(report: ScenarioReport): void {
  JSON.stringify(report, (key, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value))
      throw new Complaint('a number that is none in a report', key);
    return value;
  });
}

const OTHER = configOf(
  'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nevictionHard: {memory.available: 1Gi}\n',
  'other.yaml',
  NO_SIZES,
).effective;

export const SCENARIO_TARGETS: readonly Target[] = [
  jsonDocuments,
  scenarios('scenario-yaml', 's.yaml', 'yaml', { examples: written }),
  scenarios('scenario-json', 's.json', 'json', {
    examples: recordedIn('eviction.jsonl.gz'),
    asked: { expectations: 'ignore', config: OTHER },
  }),
  scenarios('scenario-lines', 's.jsonl', 'jsonl', { examples: recorded }),
  scenarios('shutdown-lines', 's.jsonl', 'jsonl', { examples: recordedIn('shutdown.jsonl.gz') }),
  scenarios('scenario-stdin', '-', 'jsonl', { examples: (place) => [...written(place), ...recorded(place)] }),
  scenarios('scenario-gz', 's.jsonl.gz', 'text', {
    examples: (place) => recorded(place).map(({ body }) => example(gzipSync(body))),
  }),
];
