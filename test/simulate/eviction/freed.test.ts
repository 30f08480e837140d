import { describe, expect, it } from 'vitest';
import { known } from '../../../src/core/reading.ts';
import { runEviction } from '../../../src/simulate/eviction/run.ts';
import { aScenario } from '../a-scenario.ts';

/** A recorded leak: 10 MiB less in each step. The recording went on with `a`, which was not evicted then. */
const step = (at: number, availableMi: number, more = ''): string =>
  `  - at: ${at}s\n    summary: {node: {memory: {availableBytes: ${availableMi}Mi, workingSetBytes: ${1000 - availableMi}Mi}}, pods: [${[
    'a',
    'b',
  ]
    .map(
      (name, i) =>
        `{podRef: {namespace: default, name: ${name}, uid: ${name}}, memory: {workingSetBytes: ${i === 0 ? 200 : 20}Mi}, containers: []}`,
    )
    .join(', ')}]}\n${more}`;
const PODS =
  '[{metadata: {name: a, namespace: default, uid: a}, spec: {containers: [{name: c}]}}, {metadata: {name: b, namespace: default, uid: b}, spec: {containers: [{name: c}]}}]';
const RECORDED = `config: {evictionHard: {memory.available: 100Mi}}\npods: ${PODS}\nsteps:\n${step(1, 90)}${step(2, 80, `    pods: ${PODS}\n`)}${step(3, 70)}`;

const evicted = (isReacting: boolean | undefined) =>
  [...runEviction(aScenario(RECORDED), undefined, isReacting)].map(({ result }) =>
    result.evicted.map(({ pod }) => pod),
  );

describe('recorded usage', () => {
  it('of a victim counts as freed in later steps on request, and the victim stays away', () => {
    expect(evicted(true)).toEqual([['default/a'], [], []]);
    const [, second] = runEviction(aScenario(RECORDED), undefined, true);
    expect(second?.observation?.signals['memory.available']).toMatchObject(known({ available: 280 * 2 ** 20 }));
  });

  it('otherwise stays in them, as in a hand-written scenario', () => {
    expect(evicted(undefined)).toEqual([['default/a'], ['default/a'], ['default/b']]);
  });

  it('counts as freed by default in what capture wrote', () => {
    const scenario = { ...aScenario(RECORDED), labels: { recorded: 'capture' } };
    expect([...runEviction(scenario)].map(({ result }) => result.evicted.length)).toEqual([1, 0, 0]);
  });

  it('of files counts as freed also once the pod has ended by itself in the recording', () => {
    const files = (at: number, has: boolean): string =>
      `  - at: ${at}s\n    summary: {node: {fs: {availableBytes: 5Mi, capacityBytes: 100Mi}}, pods: [${has ? '{podRef: {namespace: default, name: a, uid: a}, containers: [{name: c, rootfs: {usedBytes: 60Mi}, logs: {usedBytes: 0}}]}, ' : ''}{podRef: {namespace: default, name: b, uid: b}, containers: [{name: c, rootfs: {usedBytes: 1Mi}, logs: {usedBytes: 0}}]}]}\n    pods: ${PODS}\n`;
    const text = `config: {evictionHard: {nodefs.available: 10Mi}}\npods: ${PODS}\nsteps:\n${files(1, true)}${files(2, true)}${files(3, false)}${files(4, false)}`;
    const looks = [...runEviction(aScenario(text), undefined, true)];
    expect(looks.map(({ result }) => result.evicted.map(({ pod }) => pod))).toEqual([['default/a'], [], [], []]);
    expect(looks[3]?.observation?.signals['nodefs.available']).toMatchObject(known({ available: 65 * 2 ** 20 }));
  });
});
