import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { configOf } from '../../src/config/load.ts';
import { UNKNOWN_SIZES } from '../../src/config/margin.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { textOf } from '../../src/host/text-stream.ts';
import type { Json } from '../../src/simulate/scenario.ts';
import {
  type EvictionReport,
  type SimulateAsked,
  type Simulated,
  type StepReport,
  simulate,
} from '../../src/simulate/simulate.ts';
import { readScenarioFiles } from '../../src/simulate/source.ts';

const HEAD = { apiVersion: 'nodewarden.dev/v1alpha1', kind: 'EvictionScenario' };
const pod = (name: string): Json => ({ metadata: { name }, spec: { containers: [{ name: 'main' }] } });
const usage = (name: string, mebibytes: number): Json => ({
  podRef: { name },
  memory: { workingSetBytes: `${mebibytes}Mi` },
});
const memory = (mebibytes: number): Json => ({ memory: { availableBytes: `${mebibytes}Mi`, workingSetBytes: '6Gi' } });

/** Two pods; short of memory at 10 s, and still at 20 s. */
function leak(name: string, more: Json = {}): Json {
  return {
    ...HEAD,
    metadata: { name, labels: { profile: `of-${name}` } },
    config: { evictionHard: { 'memory.available': '500Mi' } },
    pods: [pod('small'), pod('large')],
    steps: [
      { at: 0, summary: { node: memory(2000), pods: [usage('small', 100), usage('large', 900)] } },
      { at: '10s', summaryPatch: { node: memory(400) }, expect: { evicted: [{ pod: 'default/large' }] } },
      { at: '20s' },
    ],
    ...more,
  };
}
const reboot: Json = {
  ...HEAD,
  kind: 'ShutdownScenario',
  metadata: { name: 'reboot' },
  config: { shutdownGracePeriod: '30s', shutdownGracePeriodCriticalPods: '10s' },
  pods: [pod('web')],
  behaviour: { default: { never: true } },
  expect: { armed: true },
};

async function simulated(
  documents: readonly (Json | string)[],
  asked: Partial<SimulateAsked> = {},
): Promise<readonly Simulated[]> {
  const text = documents.map((each) => (typeof each === 'string' ? each : JSON.stringify(each))).join('\n');
  const items = readScenarioFiles(['-'], () => textOf(Readable.from([Buffer.from(text)]), '<stdin>'));
  const all: Simulated[] = [];
  const defaults = { expectations: 'ignore', only: null, config: null, keep: (step: StepReport) => step } as const;
  for await (const item of simulate(items, { ...defaults, ...asked })) all.push(item);
  return all;
}
const namesOf = (all: readonly Simulated[]) =>
  all.flatMap((item) => (item.kind === 'scenario' ? [item.report.name] : []));
const saidIn = (all: readonly Simulated[]) =>
  all.flatMap((item) => (item.kind === 'problems' ? item.problems.map(sayProblem) : []));
const summaryOf = (all: readonly Simulated[]) => all.flatMap((item) => (item.kind === 'summary' ? [item.summary] : []));
function reportOf(all: readonly Simulated[], index = 0): EvictionReport {
  const reports = all.flatMap((item) => (item.kind === 'scenario' ? [item.report] : []));
  const report = reports[index];
  if (report?.kind !== 'EvictionScenario') throw new Error('no report of an eviction scenario');
  return report;
}

describe('simulate', () => {
  it('gives one report per scenario in the order of input, its keys always in the same order, then the counts', async () => {
    const all = await simulated([leak('a'), reboot, leak('b')], { expectations: 'compare' });
    expect(namesOf(all)).toEqual(['a', 'reboot', 'b']);
    const [first, second] = all.flatMap((item) => (item.kind === 'scenario' ? [item.report] : []));
    expect(Object.keys(first ?? {})).toEqual(['name', 'kind', 'file', 'document', 'line', 'ok', 'steps']);
    expect(Object.keys(second ?? {})).toEqual([
      'name',
      'kind',
      'file',
      'document',
      'line',
      'ok',
      'result',
      'reasons',
      'mismatches',
    ]);
    expect(second).toMatchObject({ file: '<stdin>', document: 2, line: 2, ok: true });
    const [, look] = reportOf(all).steps;
    expect(Object.keys(look ?? {})).toEqual(['step', 'at', 'result', 'reasons', 'decisions', 'mismatches']);
    expect(Object.keys(look?.result ?? {})).toEqual([
      'thresholdsObserved',
      'thresholdsMet',
      'conditions',
      'reclaiming',
      'nodeReclaim',
      'ranking',
      'evicted',
    ]);
    expect(look).toMatchObject({ step: 2, at: 10_000, mismatches: [] });
    expect(look?.decisions.map(({ kind }) => kind)).toEqual(['set-condition', 'evict']);
    expect(look?.reasons[0]).toMatchObject({
      code: 'below-threshold',
      text: 'memory.available 400 MiB is below 500 MiB',
    });
    expect(summaryOf(all)).toEqual([{ scenarios: 3, steps: 6, checked: 3, failed: 0, malformed: 0 }]);
  });

  it('gives results that hold as expectations of the same scenario', async () => {
    const report = reportOf(await simulated([leak('a')]));
    const { steps } = leak('a');
    const pasted = (Array.isArray(steps) ? steps : []).map((step, i) => ({ ...step, expect: report.steps[i]?.result }));
    const [summary] = summaryOf(await simulated([leak('a', { steps: pasted })], { expectations: 'compare' }));
    expect(summary).toMatchObject({ checked: 1, failed: 0, malformed: 0 });
  });

  it('keeps nothing of one scenario for the next: the same document has the same report', async () => {
    const all = await simulated([leak('a'), leak('a')]);
    expect(reportOf(all, 1)).toEqual({ ...reportOf(all, 0), document: 2, line: 2 });
  });

  it('compares only on request, and names what differs with its line', async () => {
    const wrong = leak('a', {
      steps: [{ at: 0, summary: { node: memory(2000) }, expect: { conditions: ['PIDPressure'] } }],
    });
    expect(reportOf(await simulated([wrong]))).toMatchObject({ ok: true, steps: [{ mismatches: [] }] });
    const all = await simulated(['', wrong], { expectations: 'compare' });
    const mismatch = { path: 'expect.conditions', expected: ['PIDPressure'], actual: [] };
    expect(reportOf(all)).toMatchObject({ ok: false, steps: [{ mismatches: [mismatch] }] });
    expect(all[0]?.kind === 'scenario' && all[0].lineOf(mismatch, 1)).toBe(2);
    expect(summaryOf(all)).toEqual([{ scenarios: 1, steps: 1, checked: 1, failed: 1, malformed: 0 }]);
  });

  it('continues after a malformed document, and reports its mistakes, at most 20 and that there are more', async () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`wrong${i}`, i]));
    const all = await simulated([
      leak('a'),
      '{"kind": }',
      leak('b', many),
      { ...leak('c'), kind: 'EvictionScenari' },
      leak('d'),
    ]);
    expect(namesOf(all)).toEqual(['a', 'd']);
    const said = saidIn(all);
    expect(said[0]).toBe(
      '<stdin>:2:10: not valid JSON: expected a value: text in double quotes, a number, true, false, null, { or [',
    );
    const ofThird = said.filter((line) => line.startsWith('<stdin>:3:'));
    expect(ofThird).toHaveLength(21);
    expect(ofThird[19]).toMatch(/wrong19: unknown key/);
    expect(ofThird[20]).toMatch(/^<stdin>:3:\d+: there are more errors that are not shown$/);
    expect(said.at(-1)).toMatch(
      /^<stdin>:4:48: kind: must be one of EvictionScenario, ShutdownScenario, GuardScenario, not "EvictionScenari"; did you mean EvictionScenario\?$/,
    );
    expect(summaryOf(all)).toEqual([{ scenarios: 2, steps: 6, checked: 0, failed: 0, malformed: 3 }]);
  });

  it('does not mention more mistakes if there are exactly 20', async () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`wrong${i}`, i]));
    expect(saidIn(await simulated([leak('b', many)]))).toHaveLength(20);
  });

  it('does not count an empty expectation as checked', async () => {
    const steps = [{ at: 0, summary: { node: memory(2000) }, expect: {} }];
    const all = await simulated([leak('a', { steps }), { ...reboot, expect: {} }], { expectations: 'compare' });
    expect(summaryOf(all)[0]).toMatchObject({ scenarios: 2, checked: 0, failed: 0 });
  });

  it('refuses a time that is not a whole number of milliseconds', async () => {
    const steps = [{ at: '1.5ms', summary: { node: memory(2000) } }];
    expect(saidIn(await simulated([leak('a', { steps })]))).toEqual([
      expect.stringMatching(/steps\[0\]\.at: must be whole milliseconds, not "1\.5ms"$/),
    ]);
  });

  it('refuses a duplicate key, wherever it is', async () => {
    const twice = JSON.stringify(leak('a')).replace('"at":"20s"', '"at":"20s","at":"30s"');
    const all = await simulated([twice]);
    expect(saidIn(all)).toEqual([
      expect.stringMatching(/^<stdin>:1:\d+: steps\[2\]\.at: appears twice in this mapping$/),
    ]);
    expect(namesOf(all)).toEqual([]);
  });

  it('reports at most 20 duplicate keys, too', async () => {
    const twice = JSON.stringify(leak('a')).replace('"at":"20s"', Array(30).fill('"at":"20s"').join(','));
    expect(saidIn(await simulated([twice]))).toHaveLength(21);
  });

  it('reads only the metadata of what is not requested', async () => {
    const only = ({ name, labels }: { name: string; labels: { [key: string]: string } }) =>
      name === 'b' || labels['profile'] === 'of-c';
    const twice = JSON.stringify(leak('a')).replace('"at":"20s"', '"at":"20s","at":"30s"');
    const all = await simulated([leak('x', { wrong: 1 }), twice, leak('b'), leak('c')], { only });
    expect(namesOf(all)).toEqual(['b', 'c']);
    expect(saidIn(all)).toEqual([]);
    expect(summaryOf(all)[0]).toMatchObject({ scenarios: 2, malformed: 0 });
  });
});

describe('another configuration', () => {
  const ours = 'apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n';
  const underConfig = (text: string, head = ours): SimulateAsked['config'] => {
    return configOf(head + text, 'other.yaml', UNKNOWN_SIZES).effective;
  };
  const comparisonUnder = async (text: string, document = leak('a')) => {
    const [item] = await simulated([document], { config: underConfig(text) });
    return item?.kind === 'scenario' ? item.report.comparison : null;
  };
  const large = { pod: 'default/large', signal: 'memory.available' };
  const small = { pod: 'default/small', signal: 'memory.available' };

  it('that is the same changes nothing', async () => {
    expect(await comparisonUnder('evictionHard: {memory.available: 500Mi}')).toEqual({
      avoided: [],
      added: [],
      earlier: [],
      later: [],
      changedSteps: [],
    });
  });

  it('with a lower threshold avoids evictions, with a higher one makes them earlier, with a soft one later', async () => {
    expect(await comparisonUnder('evictionHard: {memory.available: 300Mi}')).toMatchObject({
      avoided: [
        { ...large, at: 10_000 },
        { ...small, at: 20_000 },
      ],
      added: [],
      changedSteps: [2, 3],
    });
    expect(await comparisonUnder('evictionHard: {memory.available: 3Gi}')).toMatchObject({
      avoided: [],
      added: [],
      earlier: [
        { ...large, at: 0 },
        { ...small, at: 10_000 },
      ],
    });
    const soft =
      'evictionHard: {}\nevictionSoft: {memory.available: 500Mi}\nevictionSoftGracePeriod: {memory.available: 10s}';
    expect(await comparisonUnder(soft)).toMatchObject({
      avoided: [{ ...small, at: 20_000 }],
      later: [{ ...large, at: 20_000 }],
    });
  });

  it('adds evictions where there were none', async () => {
    const calm = leak('a', { config: { evictionHard: {} } });
    expect(await comparisonUnder('evictionHard: {memory.available: 500Mi}', calm)).toMatchObject({
      added: [
        { ...large, at: 10_000 },
        { ...small, at: 20_000 },
      ],
    });
  });

  it("keeps the reclaim of the layout, and has its own kind's loop guard, which a kubelet does not have", async () => {
    const disk = leak('a', {
      steps: [
        {
          at: 0,
          summary: { node: { fs: { availableBytes: '1Gi', capacityBytes: '100Gi' } } },
          afterReclaim: { node: { fs: { availableBytes: '50Gi' } } },
        },
      ],
    });
    const [item] = await simulated([disk], { config: underConfig('evictionHard: {nodefs.available: 10%}') });
    expect(
      item?.kind === 'scenario' && item.report.kind === 'EvictionScenario' && item.report.steps[0]?.result,
    ).toMatchObject({
      nodeReclaim: ['containers', 'images'],
      evicted: [],
    });
    const owner = { kind: 'ReplicaSet', name: 'rs', uid: 'rs', controller: true };
    const names = ['large', 'large2', 'large3', 'large4'];
    const owned = names.map((name) => ({ ...pod(name), metadata: { name, ownerReferences: [owner] } }));
    const summary = {
      node: memory(100),
      pods: [...names.map((name, i) => usage(name, 900 - i)), usage('small', 100)],
    };
    const steps = [{ at: 0, summary }, { at: 1 }, { at: 2 }, { at: 3 }];
    const evictedUnder = async (text: string, head?: string) => {
      const config = underConfig(`evictionHard: {memory.available: 500Mi}\n${text}`, head);
      const report = reportOf(await simulated([leak('a', { pods: [...owned, pod('small')], steps })], { config }));
      return report.steps.flatMap(({ result }) => result.evicted.map((evicted) => evicted.pod));
    };
    const all = names.map((name) => `default/${name}`);
    const kubelet = 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n';
    expect(await evictedUnder('', kubelet)).toEqual(all);
    expect(await evictedUnder('guard: {sameOwnerKills: 0}')).toEqual(all);
    expect(await evictedUnder('')).toEqual([...all.slice(0, 3), 'default/small']);
    expect(await evictedUnder('guard: {sameOwnerKills: 1, window: 10m}')).toContain('default/small');
  });

  it('counts a failed and retried kill as one eviction, at its first attempt', async () => {
    const { steps } = leak('a');
    const failing = (Array.isArray(steps) ? steps : []).map((step) => ({ ...step, killFails: true }));
    expect(
      await comparisonUnder('evictionHard: {memory.available: 100Mi}', leak('a', { steps: failing })),
    ).toMatchObject({
      avoided: [{ ...large, at: 10_000 }],
    });
  });

  it('of a shutdown is compared by the pods that are killed', async () => {
    const periods = 'shutdownGracePeriod: 60s\nshutdownGracePeriodCriticalPods: 10s';
    expect(await comparisonUnder(periods, reboot)).toEqual({
      avoided: [],
      added: [],
      earlier: [],
      later: [{ pod: 'default/web', at: 30_000, signal: 'SIGKILL' }],
    });
  });

  it('that leaves a shutdown unarmed avoids nothing', async () => {
    const [item] = await simulated([reboot], { config: underConfig('evictionHard: {}') });
    expect(item?.kind === 'scenario' && item.report.comparison?.avoided).toEqual([]);
    expect(item?.kind === 'scenario' && item.ownResult).toMatchObject({ armed: true, phases: [{ end: 20_000 }] });
  });
});
