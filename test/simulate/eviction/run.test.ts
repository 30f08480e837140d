import { describe, expect, it } from 'vitest';
import { known } from '../../../src/core/reading.ts';
import { runEviction } from '../../../src/simulate/eviction/run.ts';
import { aConfig, aThreshold, MI } from '../../a.ts';
import { aScenario, looksOf } from '../a-scenario.ts';

const HARD = 'config: {evictionHard: {memory.available: 100Mi}, enforceNodeAllocatable: [none]}\n';
const pod = (name: string, rest = '') => `{metadata: {name: ${name}}, spec: {containers: [{name: c}]${rest}}}`;
const uses = (name: string, mi: number) =>
  `{podRef: {name: ${name}}, memory: {workingSetBytes: ${mi}Mi}, containers: []}`;
const memory = (mi: number, rest = '') => `memory: {availableBytes: ${mi}Mi, workingSetBytes: 900Mi${rest}}`;
const TWO = `pods: [${pod('a')}, ${pod('b')}]\n`;
const SHORT = `{node: {${memory(50)}}, pods: [${uses('a', 10)}, ${uses('b', 20)}]}`;

const evictedOf = (text: string) => looksOf(text).map(({ result }) => result.evicted.map(({ pod }) => pod));

describe('a run', () => {
  it('gives every key of a result, and its basis', () => {
    const [first, second] = looksOf(`${HARD}${TWO}steps: [{at: 1s, summary: ${SHORT}}, {at: 2s}]\n`);
    expect(first).toMatchObject({ step: 1, atMs: 1_000, state: { lastLookMs: null } });
    expect(first?.result).toEqual({
      thresholdsObserved: ['memory.available/hard'],
      thresholdsMet: ['memory.available/hard'],
      conditions: ['MemoryPressure'],
      reclaiming: { signal: 'memory.available', soft: false, resource: 'memory' },
      nodeReclaim: [],
      ranking: ['default/b', 'default/a'],
      evicted: [
        {
          pod: 'default/b',
          signal: 'memory.available',
          gracePeriodSeconds: 1,
          reason: 'Evicted',
          disruptionTarget: true,
          killFailed: false,
          message: 'The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ',
          annotations: { starved_resource: 'memory', offending_containers: '', offending_containers_usage: '' },
        },
      ],
    });
    expect(Object.keys(first?.result ?? {})).toEqual([
      'thresholdsObserved',
      'thresholdsMet',
      'conditions',
      'reclaiming',
      'nodeReclaim',
      'ranking',
      'evicted',
    ]);
    expect(first?.decisions.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
      'set-condition simulate-1',
      'evict simulate-2',
    ]);
    expect(first?.reasons.map(({ code }) => code)).toEqual(['below-threshold']);
    expect(first?.observation?.signals['memory.available']).toEqual(
      known({ available: 50 * MI, capacity: 950 * MI, sampledAtMs: 1_000 }),
    );
    expect(second?.state).toMatchObject({ lastLookMs: 1_000, act: { kind: 'evicting' } });
  });

  it('removes a pod after its kill, until a list names it again', () => {
    const step = (at: number, rest: string) => `{at: ${at}s, ${rest}}`;
    expect(
      evictedOf(
        `${HARD}${TWO}steps: [${[
          step(0, `summary: ${SHORT}`),
          step(10, 'summaryPatch: {}'),
          step(20, 'summaryPatch: {}'),
          step(30, `pods: [${pod('b')}]`),
          step(40, 'pods: []'),
        ].join(', ')}]\n`,
      ),
    ).toEqual([['default/b'], ['default/a'], [], ['default/b'], []]);
  });

  it('keeps a pod whose kill failed, and chooses it again', () => {
    const [first, second, third] = looksOf(
      `${HARD}${TWO}steps: [{at: 0, summary: ${SHORT}, killFails: [default/b]}, {at: 10s, killFails: true}, {at: 20s}]\n`,
    );
    expect(first?.result.evicted).toMatchObject([{ pod: 'default/b', killFailed: true }]);
    expect(second?.result.evicted).toMatchObject([{ pod: 'default/b', killFailed: true }]);
    expect(third?.result.evicted).toMatchObject([{ pod: 'default/b', killFailed: false }]);
  });

  it('repeats the last values if the stats fail, and keeps a given summary for later patches', () => {
    const [, failed, patched] = looksOf(`${HARD}${TWO}steps:
- {at: 0, summary: ${SHORT}}
- {at: 10s, statsFail: true, summary: {node: {${memory(40)}}}}
- {at: 20s, summaryPatch: {node: {memory: {availableBytes: 30Mi}}}}
`);
    expect(failed).toMatchObject({ observation: null, decisions: [], reasons: [] });
    expect(failed?.result).toMatchObject({
      thresholdsMet: ['memory.available/hard'],
      conditions: ['MemoryPressure'],
      reclaiming: null,
      ranking: [],
      evicted: [],
    });
    expect(patched?.observation?.signals['memory.available']).toEqual(
      known({ available: 30 * MI, capacity: 930 * MI, sampledAtMs: 20_000 }),
    );
    expect(patched?.result.ranking).toEqual(['default/a']);
  });

  it('knows the thresholds of containerfs from the second look on, even if the first one had no stats', () => {
    const short = 'summary: {node: {runtime: {containerFs: {availableBytes: 1, capacityBytes: 100}}}}';
    const observed = (first: string) =>
      looksOf(`steps: [{at: 0, ${first}}, {at: 10s}]\n`).map(({ result }) => result.thresholdsObserved);
    expect(observed(short)).toEqual([[], ['containerfs.available/hard']]);
    expect(observed(`statsFail: true, ${short}`)).toEqual([[], ['containerfs.available/hard']]);
  });

  it('acts on stats that are newer than the previous ones, have no time, or are freshly measured', () => {
    const step = (at: number, time: string) =>
      `{at: ${at}s, summaryPatch: {node: {memory: {availableBytes: 50Mi, workingSetBytes: 1Gi, time: ${time}}}}}`;
    const text = (...steps: string[]) =>
      evictedOf(`${HARD}start: "2026-01-01T00:00:00Z"\npods: [${['a', 'b', 'c', 'd'].map((name) => pod(name)).join(', ')}]
steps: [${steps.join(', ')}]\n`).map(({ length }) => length);
    expect(text(step(10, '5s'), step(20, '5000'), step(30, '"2026-01-01T00:00:05.001Z"'))).toEqual([1, 0, 1]);
    expect(text(step(10, '5s'), step(20, '"2026-01-01T00:00:05Z"'))).toEqual([1, 0]);
    expect(text(step(10, 'none'), step(20, '5s'))).toEqual([1, 1]);
    expect(text(step(10, '5s'), '{at: 20s}', step(30, '5s'))).toEqual([1, 1, 0]);
  });

  it('names a threshold by whether it has a grace period, and as met once that is over', () => {
    const soft = 'evictionSoft: {memory.available: 100Mi, pid.available: "10"}';
    const config = `config: {evictionHard: {}, ${soft}, evictionSoftGracePeriod: {memory.available: 30s, pid.available: 0s}}\n`;
    const looks = looksOf(`${config}steps:
- {at: 0, summary: {node: {${memory(50)}, rlimit: {maxpid: 100, curproc: 95}}}}
- {at: 30s}
`);
    expect(looks.map(({ result }) => [result.thresholdsObserved, result.thresholdsMet])).toEqual([
      [['memory.available/soft', 'pid.available/hard'], ['pid.available/hard']],
      [
        ['memory.available/soft', 'pid.available/hard'],
        ['memory.available/soft', 'pid.available/hard'],
      ],
    ]);
    expect(looks[0]?.observation?.wallMs).toBe(0);
    expect(looks[1]?.result.reclaiming).toMatchObject({ signal: 'memory.available', soft: true });
  });

  it('evicts for local storage limits before everything else, unless they are switched off', () => {
    const over = (config: string) => `config: {evictionHard: {}${config}}
pods: [${pod('a', ', volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]')}]
steps: [{at: 0, summary: {pods: [{podRef: {name: a}, containers: [], volume: [{name: v, usedBytes: 2Mi}]}]}}]\n`;
    expect(looksOf(over(''))[0]?.result.evicted).toMatchObject([
      { pod: 'default/a', signal: 'emptydirfs.limit', disruptionTarget: false, annotations: {} },
    ]);
    expect(evictedOf(over(', localStorageCapacityIsolation: false'))).toEqual([[]]);
  });

  it('counts only the local volumes of a pod', () => {
    const volumes = 'volumes: [{name: dir, emptyDir: {}}, {name: claim, persistentVolumeClaim: {claimName: c}}]';
    const [first] = looksOf(`start: "2026-01-01T00:00:00Z"
pods: [${pod('a', `, ${volumes}`)}]
steps:
- at: 1s
  summary:
    pods:
    - podRef: {name: a}
      containers:
      - {name: c, logs: {usedBytes: 1Ki, inodesUsed: 1}, rootfs: {usedBytes: 2Ki, inodesUsed: 2}}
      - {name: d, logs: {usedBytes: 4Ki}}
      volume: [{name: dir, usedBytes: 8Ki, inodesUsed: 4}, {name: claim, usedBytes: 16Ki, inodesUsed: 8}]
`);
    const pods = first?.observation?.pods;
    expect(pods?.known && pods.value[0]?.usage.disk).toEqual(
      known({
        logsBytes: 5 * 1024,
        rootfsBytes: 2 * 1024,
        volumesBytes: 8 * 1024,
        logsInodes: 1,
        rootfsInodes: 2,
        volumesInodes: 4,
      }),
    );
    expect(first?.observation?.wallMs).toBe(Date.UTC(2026, 0, 1, 0, 0, 1));
  });

  it('ranks pods that it may not evict', () => {
    const critical = `pods: [${pod('a', ', priority: 2000000000')}, ${pod('b', ', priority: 2000000001')}]\n`;
    const [first] = looksOf(`${HARD}${critical}steps: [{at: 0, summary: ${SHORT}}]\n`);
    expect(first?.result).toMatchObject({
      reclaiming: { signal: 'memory.available', soft: false, resource: 'memory' },
      ranking: ['default/a', 'default/b'],
      evicted: [],
    });
    const [empty] = looksOf(`${HARD}steps: [{at: 0, summary: ${SHORT}}]\n`);
    expect(empty?.result).toMatchObject({ reclaiming: { signal: 'memory.available' }, ranking: [], evicted: [] });
  });

  it('finds the entry of a pod by its uid, or by its name if the entry has no uid', () => {
    const [first] = looksOf(`${HARD}pods:
- {metadata: {name: a, uid: one}, spec: {containers: [{name: c}]}}
- {metadata: {name: b, uid: two}, spec: {containers: [{name: c}]}}
steps:
- at: 0
  summary:
    pods:
    - {podRef: {name: other, uid: one}, memory: {workingSetBytes: 1}}
    - {podRef: {name: b, uid: other}, memory: {workingSetBytes: 2}}
    - {podRef: {name: b, namespace: other}, memory: {workingSetBytes: 3}}
`);
    const pods = first?.observation?.pods;
    expect(pods?.known && pods.value.map(({ usage }) => usage.workingSetBytes)).toEqual([
      known(1),
      expect.objectContaining({ known: false, why: 'absent' }),
    ]);
  });
});

describe('a node-level reclaim', () => {
  const disk = (gi: number) => `fs: {availableBytes: ${gi}Gi, capacityBytes: 100Gi}`;
  const text = (node: string, rest: string, signal = 'nodefs.available') =>
    `config: {evictionHard: {${signal}: 10Gi}}\nnode: {${node}}\n${TWO}
steps: [{at: 0, summary: {node: {${disk(5)}, runtime: {imageFs: {availableBytes: 5Gi, capacityBytes: 100Gi}}}}${rest}}]\n`;
  const reclaimOf = (node: string, signal?: string) => looksOf(text(node, '', signal))[0]?.result.nodeReclaim;

  it('that is enough ends the look', () => {
    const [first] = looksOf(text('', `, afterReclaim: {node: {${disk(20)}}}`));
    expect(first?.result).toMatchObject({
      reclaiming: { signal: 'nodefs.available', soft: false, resource: 'ephemeral-storage' },
      nodeReclaim: ['containers', 'images'],
      ranking: [],
      evicted: [],
    });
    expect(first?.reasons.map(({ code }) => code)).toEqual(['below-threshold', 'reclaim-sufficed']);
  });

  it('that changed nothing, or cannot be judged, is followed by an eviction', () => {
    for (const rest of ['', ', afterReclaimFails: true', ', reclaimFails: [containers, images]']) {
      const [first] = looksOf(text('', rest));
      expect(first?.result).toMatchObject({ nodeReclaim: ['containers', 'images'], evicted: [{ pod: 'default/a' }] });
      expect(first?.decisions.map(({ kind }) => kind)).toEqual(['set-condition', 'reclaim', 'evict']);
    }
    const [, next] = looksOf(text('', '}, {at: 10s'));
    expect(next?.state.act.kind).toBe('evicting');
    expect(next?.decisions.map(({ id }) => id)).toEqual(['simulate-4', 'simulate-5']);
  });

  it('makes the calls of its layout', () => {
    const split = 'dedicatedImageFs: true, splitImageFs: true';
    expect(reclaimOf('dedicatedImageFs: true')).toEqual([]);
    expect(reclaimOf('dedicatedImageFs: true', 'imagefs.available')).toEqual(['containers', 'images']);
    expect(reclaimOf(split)).toEqual(['containers']);
    expect(reclaimOf(split, 'imagefs.available')).toEqual(['images']);
  });

  it('is that of the layout, also under another configuration', () => {
    const config = aConfig([aThreshold('nodefs.available', 10 * 1024 * MI)]);
    const [first] = runEviction(aScenario(text('', '')), config);
    expect(first?.result.nodeReclaim).toEqual(['containers', 'images']);
  });
});

describe('merged stats', () => {
  it('follow RFC 7386', () => {
    const [, second, third] = looksOf(`${HARD}steps:
- {at: 0, summary: {node: {${memory(500)}, fs: {availableBytes: 1, capacityBytes: 2, inodes: 3, inodesFree: 3}}, pods: [{podRef: {name: a}}]}}
- {at: 1, summaryPatch: {node: {memory: {availableBytes: 400Mi}, fs: {availableBytes: null}}, pods: []}}
- {at: 2, summaryPatch: {node: {memory: null, fs: {"__proto__": {availableBytes: 9}}}}}
`);
    expect(second?.observation?.signals['memory.available']).toMatchObject({ value: { available: 400 * MI } });
    expect(second?.observation?.signals['nodefs.available'].known).toBe(false);
    expect(second?.observation?.signals['nodefs.inodesFree'].known).toBe(true);
    expect(third?.observation?.signals['memory.available'].known).toBe(false);
    expect(third?.observation?.signals['nodefs.available'].known).toBe(false);
  });

  it('are not read again if a patch did not change them', () => {
    const looks = looksOf(`${HARD}${TWO}steps:
- {at: 0, summary: {node: {${memory(500)}}, pods: [${uses('a', 1)}]}}
- {at: 1, summaryPatch: {node: {memory: {availableBytes: 40Mi}}}}
- {at: 2, summaryPatch: {node: {memory: {availableBytes: 400Mi}}}}
`);
    const [before, after, fewer] = looks.map(({ observation }) =>
      observation?.pods.known ? observation.pods.value : [],
    );
    expect(before).toHaveLength(2);
    expect(after).toBe(before);
    // The one that was evicted had no statistics.
    expect(fewer).toHaveLength(1);
    expect(fewer?.[0]).toBe(before?.[0]);
  });
});
