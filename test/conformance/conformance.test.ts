import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { isObject } from '../../src/core/shape.ts';
import { textOf } from '../../src/host/text-stream.ts';
import type { Json } from '../../src/simulate/scenario.ts';
import { type ScenarioReport, type StepReport, simulate } from '../../src/simulate/simulate.ts';
import { readScenarioFiles, type SourceItem } from '../../src/simulate/source.ts';
import { configOutcome, runConformance, sayCounts } from './conformance.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));

describe('what kubelet 1.36.2 decided', () => {
  it('is decided here, too: every look, every shutdown, every configuration except those refused on purpose', async () => {
    const failed: string[] = [];
    const counts = await runConformance(HERE, (line) => failed.push(line));
    expect(failed.slice(0, 20)).toEqual([]);
    expect(sayCounts(counts)).toBe(
      'conformance: 3069 eviction scenarios (10404 looks), 802 shutdown scenarios, 1528 config cases: ' +
        '5390 passed, 0 failed, 9 not passed on purpose (test/conformance/exceptions.json)',
    );
  }, 120_000);

  it('is an exception only by its rule: negative seconds that the kubelet accepts', () => {
    const list = (seconds: number): Json => ({
      case: 'shutdownConfig',
      config: { shutdownGracePeriodByPodPriority: [{ priority: 0, shutdownGracePeriodSeconds: seconds }] },
      expect: {},
    });
    expect(configOutcome(list(-1)).kind).toBe('excepted');
    expect(configOutcome(list(1)).kind).toBe('failed');
    expect(configOutcome({ case: 'quantity', input: '1', expect: 'error' }).kind).toBe('failed');
    expect(configOutcome({ case: 'new', input: '1', expect: 'error' }).kind).toBe('failed');
  });
});

/** One expectation turned into what is not so. `at` is where, from the document on. */
type Flip = { readonly at: readonly (string | number)[]; readonly to: unknown };

describe('a wrong expectation', () => {
  let documents: readonly Json[] = [];
  beforeAll(async () => {
    documents = [...(await someOf('eviction.jsonl.gz', 80)), ...(await someOf('shutdown.jsonl.gz', 34))];
  });

  it('makes its scenario fail, and is named with step and path: each key of sixty scenarios, one by one', async () => {
    const flips = documents.flatMap((document) => flipsOf(document).map((flip) => ({ document, flip })));
    const kinds = new Set(flips.map(({ flip }) => flip.at.filter((step) => typeof step === 'string').join('.')));
    expect(flips.length).toBeGreaterThan(1500);
    expect([...kinds].filter((kind) => kind.startsWith('steps')).toSorted()).toEqual(LOOK_KEYS);
    expect([...kinds].filter((kind) => kind.startsWith('expect')).length).toBeGreaterThan(25);
    const reports = await reportsOf(flips.map(({ document, flip }) => flipped(document, flip)));
    expect(reports).toHaveLength(flips.length);
    const missed = flips.flatMap(({ document, flip }, i) => {
      const found = pathsIn(reports[i]);
      return found.some((path) => isAt(path, flip)) ? [] : [{ document: nameOf(document), flip, found }];
    });
    expect(missed).toEqual([]);
  }, 120_000);

  it('is the only reason to fail: unchanged, all these scenarios hold', async () => {
    expect((await reportsOf(documents)).filter(({ ok }) => !ok)).toEqual([]);
  });
});

const LOOK_KEYS = [
  'steps.expect.conditions',
  'steps.expect.evicted',
  'steps.expect.evicted.annotations',
  'steps.expect.evicted.disruptionTarget',
  'steps.expect.evicted.gracePeriodSeconds',
  'steps.expect.evicted.killFailed',
  'steps.expect.evicted.message',
  'steps.expect.evicted.pod',
  'steps.expect.evicted.reason',
  'steps.expect.evicted.signal',
  'steps.expect.nodeReclaim',
  'steps.expect.oneOf',
  'steps.expect.ranking',
  'steps.expect.reclaiming',
  'steps.expect.reclaiming.resource',
  'steps.expect.reclaiming.signal',
  'steps.expect.reclaiming.soft',
  'steps.expect.thresholdsMet',
  'steps.expect.thresholdsObserved',
];

const nameOf = (document: Json): unknown => isObject(document['metadata']) && document['metadata']['name'];

async function someOf(file: string, every: number): Promise<readonly Json[]> {
  const documents: Json[] = [];
  for await (const item of readScenarioFiles([`${HERE}${file}`], () => textOf(Readable.from([]), ''))) {
    if (item.kind === 'document' && item.document % every === 0 && isObject(item.yaml.value))
      documents.push(item.yaml.value);
  }
  return documents;
}

async function reportsOf(documents: readonly Json[]): Promise<readonly ScenarioReport[]> {
  function* lines(): Generator<Buffer> {
    for (const document of documents) yield Buffer.from(`${JSON.stringify(document)}\n`);
  }
  const items: AsyncIterable<SourceItem> = readScenarioFiles(['-'], () => textOf(Readable.from(lines()), '<stdin>'));
  const reports: ScenarioReport[] = [];
  const asked = { expectations: 'compare', only: null, config: null, keep: (step: StepReport) => step } as const;
  for await (const item of simulate(items, asked)) {
    if (item.kind === 'problems') throw new Error(JSON.stringify(item.problems));
    if (item.kind === 'scenario') reports.push(item.report);
  }
  return reports;
}

/** `steps[2].expect.ranking` of each mismatch. */
function pathsIn(report: ScenarioReport | undefined): readonly string[] {
  if (report === undefined) return [];
  if (report.kind !== 'EvictionScenario') return report.mismatches.map(({ path }) => path);
  return report.steps.flatMap(({ step, mismatches }) => mismatches.map(({ path }) => `steps[${step - 1}].${path}`));
}

/** Lists are compared as a whole, and so may be who was evicted: the key of `expect` must be named at least. */
function isAt(path: string, { at }: Flip): boolean {
  const end = at.indexOf('expect') + 2;
  const key = at
    .slice(0, end)
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
  return path === key || path.startsWith(`${key}.`) || path.startsWith(`${key}[`);
}

function flipped(document: Json, { at, to }: Flip): Json {
  const set = (value: unknown, [step, ...rest]: readonly (string | number)[]): unknown => {
    if (step === undefined) return to;
    if (Array.isArray(value)) return value.map((entry, i) => (i === step ? set(entry, rest) : entry));
    return { ...Object(value), [step]: set(Reflect.get(Object(value), step), rest) };
  };
  return Object(set(document, at));
}

function flipsOf(document: Json): readonly Flip[] {
  const { steps, expect: whole } = document;
  const looks = Array.isArray(steps) ? steps.map((step: unknown, i) => [['steps', i, 'expect'], step] as const) : [];
  return [
    ...looks.flatMap(([at, step]) => (isObject(step) ? flipsBelow(step['expect'], at) : [])),
    ...(whole === undefined ? [] : flipsBelow(whole, ['expect'])),
  ];
}

function flipsBelow(value: unknown, at: Flip['at']): readonly Flip[] {
  const key = at.filter((step) => typeof step === 'string').at(-1) ?? '';
  // Any of these will do, so one of them less says nothing.
  if (key === 'signal' && Array.isArray(value)) return [];
  if (key === 'oneOf') return [{ at, to: [{ evicted: [{ pod: 'nobody/here' }] }, { conditions: ALL_CONDITIONS }] }];
  if (key === 'annotations') return [{ at, to: { ...Object(value), other: 'x' } }];
  if (Array.isArray(value)) {
    const inner = value.flatMap((entry: unknown, i) => (isObject(entry) ? flipsBelow(entry, [...at, i]) : []));
    return [{ at, to: value.length > 0 ? value.slice(0, -1) : (ONE_OF[key] ?? ['nobody/here']) }, ...inner];
  }
  if (isObject(value)) {
    const inner = Object.entries(value).flatMap(([name, entry]) => flipsBelow(entry, [...at, name]));
    return key === 'reclaiming' ? [{ at, to: null }, ...inner] : inner;
  }
  return [{ at, to: otherThan(value, key) }];
}
const ALL_CONDITIONS = ['DiskPressure', 'MemoryPressure', 'PIDPressure'];
const ONE_OF: { readonly [key: string]: readonly unknown[] } = {
  thresholdsObserved: ['pid.available/soft'],
  thresholdsMet: ['pid.available/soft'],
  conditions: ALL_CONDITIONS,
  nodeReclaim: ['images'],
  evicted: [{ pod: 'nobody/here' }],
  configErrors: ['bothForms'],
  groups: [{ priority: 77 }],
  phases: [{ priority: 77 }],
};

function otherThan(value: unknown, key: string): unknown {
  if (typeof value === 'number') return value + 1;
  if (typeof value === 'boolean') return !value;
  if (key === 'signal') return value === 'pid.available' ? 'memory.available' : 'pid.available';
  if (key === 'resource') return value === 'pids' ? 'memory' : 'pids';
  if (key === 'endedBy') return value === 'done' ? 'period' : 'done';
  if (typeof value === 'string') return `${value}x`;
  if (key === 'reclaiming') return { signal: 'pid.available' };
  return key === 'status' || key.includes('/') ? {} : 7;
}
