import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { Heard } from '../../src/core/outcome.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { FsLayout, Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { yamlText } from '../../src/document/yaml-text.ts';
import { type CapturedLook, captureOf } from '../../src/record/scenarios/capture-of.ts';
import { redactLooks } from '../../src/record/scenarios/redact.ts';
import { type EvictionLook, runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { readScenarioFiles } from '../../src/simulate/source.ts';
import { sayReason } from '../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const directory = mkdtempSync(join(tmpdir(), 'nodewarden-capture-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The file as `simulate` reads it, and every look of it. */
async function replayed(capture: unknown, format: 'yaml' | 'json' = 'yaml'): Promise<readonly EvictionLook[]> {
  const file = join(directory, `a.${format}`);
  writeFileSync(file, format === 'yaml' ? `# a comment\n${yamlText(capture)}` : JSON.stringify(capture));
  for await (const item of readScenarioFiles([file], () => (async function* () {})())) {
    expect(item).toMatchObject({ kind: 'document', problems: [] });
    if (item.kind !== 'document') continue;
    const { scenario, problems } = readEvictionScenario(item.yaml);
    expect(problems).toEqual([]);
    if (scenario !== null) return [...runEviction(scenario)];
  }
  throw new Error('no scenario');
}

const few = fc.integer({ min: 0, max: 3 }).map((n) => n * MI);
const podAt = (i: number): fc.Arbitrary<PodView> =>
  fc
    .record({
      namespace: fc.constantFrom('a', 'a-b', 'b', 'yes'),
      name: fc.constantFrom('x', 'x-1', 'x.y', 'no', '1e3'),
      priority: fc.constantFrom(-1, 0, 1, 2_000_000_000),
      request: few,
      used: few,
      volumes: few,
      other: few,
      hasStats: fc.integer({ min: 0, max: 4 }).map((n) => n > 0),
      startedAtWallMs: fc.option(fc.integer({ min: 0, max: 1 })),
      isProtected: fc.boolean(),
      evictFor: fc.constantFrom(null, null, [] as const, ['memory'] as const, ['disk', 'pids'] as const),
      isDaemonSet: fc.boolean(),
      ownerKey: fc.constantFrom(null, 'rs-1'),
      isMirror: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    })
    .map(({ request, used, volumes, other, hasStats, isMirror, evictFor, ...declared }) => {
      const amount = request === 0 ? null : quantityOfBytes(request, 'binary');
      const amounts = { memory: amount, ephemeralStorage: amount };
      return aPod({
        ...declared,
        ...(evictFor === null ? {} : { evictFor }),
        // As in a cluster: one name, another uid.
        uid: `uid.${(i * 3) % 7}`,
        requests: { memoryBytes: request, ephemeralStorageBytes: request },
        containers: [
          { name: 'main', kind: 'app', requests: amounts, limits: { memory: null, ephemeralStorage: null } },
        ],
        volumes: [{ name: 'Cache 1', sizeLimit: null }],
        isStaticCritical: isMirror || declared.priority >= 2_000_000_000,
        usage: {
          workingSetBytes: known(used),
          processes: known(used / MI),
          disk: known({
            logsBytes: used,
            logsInodes: used,
            rootfsBytes: other,
            rootfsInodes: other,
            volumesBytes: volumes + other,
            volumesInodes: volumes,
          }),
          containers: hasStats
            ? known([{ name: 'main', workingSetBytes: known(used), logsBytes: known(used), rootfsBytes: known(other) }])
            : unknown('absent', 'stats', 'none'),
          volumes: known([{ name: 'Cache 1', usedBytes: known(volumes) }]),
        },
      });
    });
const pods = fc
  .integer({ min: 0, max: 7 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => podAt(i))));
const signals: readonly Signal[] = [
  'memory.available',
  'allocatableMemory.available',
  'nodefs.available',
  'nodefs.inodesFree',
  'imagefs.available',
  'pid.available',
];
const layouts: readonly FsLayout[] = ['nodefs-only', 'imagefs-separate', 'containerfs-separate'];

function lookAt(atMs: number, observation: Observation, config: ReturnType<typeof aConfig>): CapturedLook {
  const { decisions } = decide(initialState('b'), { ...observation, atMs }, config);
  return { observation: { ...observation, atMs }, decisions };
}

describe('a capture', () => {
  it('is decided by simulate like the look itself, redacted or not', async () => {
    await fc.assert(
      fc.asyncProperty(
        pods,
        fc.constantFrom(...signals),
        fc.constantFrom(...layouts),
        fc.boolean(),
        fc.boolean(),
        async (list, signal, layout, isRedacted, isSoft) => {
          const config = aConfig([aThreshold(signal, 10 * MI, isSoft ? { graceMs: 30_000 } : {})], {
            guard: { kills: 3, windowMs: 90_000 },
          });
          const observation = anObservation(
            77_000.25,
            { [signal]: { available: MI, capacity: 100 * MI } },
            { pods: known(list), fsLayout: known(layout) },
          );
          const given = [lookAt(77_000.25, observation, config)];
          const looks = isRedacted ? redactLooks(given) : given;
          const [look] = await replayed(captureOf('x', looks, config));
          const shown = looks[0]?.observation.pods;
          const nameOf = new Map(
            list.map(({ uid }, i) => {
              const pod = shown?.known ? shown.value[i] : undefined;
              return [uid, `${pod?.namespace}/${pod?.name}`];
            }),
          );
          const evicted = given[0]?.decisions.find(({ kind }) => kind === 'evict');
          const simulated = look?.decisions.find(({ kind }) => kind === 'evict');
          if (evicted?.kind !== 'evict' || simulated?.kind !== 'evict') {
            expect(simulated?.kind).toBe(evicted?.kind);
            return;
          }
          expect(look?.result.ranking).toEqual(evicted.ranking.map(({ uid }) => nameOf.get(uid)));
          expect(`${simulated.victim.namespace}/${simulated.victim.name}`).toBe(nameOf.get(evicted.victim.uid));
          expect(simulated.ranking.map(({ decidedBy }) => decidedBy)).toEqual(
            evicted.ranking.map(({ decidedBy }) => decidedBy),
          );
          expect(simulated.graceSeconds).toBe(evicted.graceSeconds);
        },
      ),
      { numRuns: 200 },
    );
  });

  const config = aConfig([aThreshold('memory.available', 100 * MI, { graceMs: 30_000 })]);
  const web = aPod({ name: 'web', namespace: 'shop', workingSetBytes: 500 * MI });
  const db = aPod({ name: 'db', namespace: 'shop', workingSetBytes: 100 * MI });
  const seen = (atMs: number, availableBytes: number, list: readonly PodView[]): Observation =>
    anObservation(atMs, { 'memory.available': { available: availableBytes, capacity: GI } }, { pods: known(list) });

  it('has a step for each look, and a list of pods if it differs', async () => {
    const looks = [
      { observation: seen(5_000.9, GI, [web, db]), decisions: [] },
      // Within the same millisecond as the first one.
      { observation: seen(5_001.1, GI, [web, db]), decisions: [] },
      { observation: seen(6_000.9, 50 * MI, [web, db]), decisions: [] },
      { observation: { ...seen(7_000, GI, []), pods: unknown('timed-out', 'x', 'y') }, decisions: [] },
      { observation: seen(36_000.9, 50 * MI, [{ ...web, isTerminating: true }, db]), decisions: [] },
    ];
    const capture = captureOf('x', looks, config);
    expect(capture?.steps.map(({ at, pods: list }) => [at, list?.length ?? null])).toEqual([
      [0, null],
      [1_000, null],
      [31_000, 1],
    ]);
    expect(capture).toMatchObject({ start: '2023-11-14T22:13:25.000Z', node: {} });
    const run = await replayed(capture, 'json');
    expect(run.map(({ result }) => [result.thresholdsObserved, result.evicted.map(({ pod }) => pod)])).toEqual([
      [[], []],
      [['memory.available/soft'], []],
      [['memory.available/soft'], ['shop/db']],
    ]);
  });

  it('names whom the agent waited for, and simulate chooses nobody else until that is over', async () => {
    const hard = aConfig([aThreshold('memory.available', 100 * MI)], { isLive: true });
    const looks: CapturedLook[] = [];
    let state = initialState('b');
    // The recording begins while the agent waits.
    for (const atMs of [0, 1_000, 2_000, 3_000]) {
      const outcomes: Heard[] = atMs === 3_000 ? [{ of: 'b-2', atMs, kind: 'dropped', because: 'gone' }] : [];
      const pods = known(atMs === 0 ? [web, db] : [{ ...web, isTerminating: true }, db]);
      const observation = { ...seen(atMs, 50 * MI, []), pods, outcomes };
      const { decisions, state: after } = decide(state, observation, hard);
      if (atMs > 0) looks.push({ observation, decisions, state });
      state = after;
    }
    const capture = captureOf('x', looks, hard);
    const awaited = [{ pod: 'shop/web', for: ['memory.available'] }];
    expect(capture?.steps.map(({ stopping }) => stopping)).toEqual([awaited, awaited, undefined]);
    const run = await replayed(capture);
    expect(run.map(({ result }) => result.evicted.map(({ pod }) => pod))).toEqual([[], [], ['shop/db']]);
    expect(run[0]?.reasons.map((reason) => sayReason(reason, String))).toContain(
      'eviction of shop/web is in progress: no other pod is chosen until its resources are free, 10s at most',
    );
    const redacted = JSON.stringify(captureOf('x', redactLooks(looks), hard));
    expect(redacted).not.toMatch(/web|shop/);
    expect(redacted).toContain('"stopping":[{"pod":"ns-1/pod-2"');
  });

  it('lists the pods again after an eviction, because they may still exist', () => {
    const hard = aConfig([aThreshold('memory.available', 100 * MI)]);
    const looks = [0, 1_000, 2_000].map((atMs) => lookAt(atMs, seen(atMs, 50 * MI, [web, db]), hard));
    const steps = captureOf('x', [{ ...looks[0], decisions: [] } as CapturedLook, ...looks.slice(1)], hard)?.steps;
    expect(steps?.map(({ pods: list }) => list?.length ?? null)).toEqual([null, null, 2]);
  });

  it('is empty if no look knew the pods', () => {
    expect(captureOf('x', [{ observation: anObservation(1, {}), decisions: [] }], config)).toBeNull();
  });

  it('contains no negative number, although the reclaimable amount may be negative', async () => {
    const capture = captureOf('x', [{ observation: seen(0, -5 * MI, [web]), decisions: [] }], config);
    const [look] = await replayed(capture);
    expect(look?.observation?.signals['memory.available']).toEqual(
      known({ available: 0, capacity: GI, sampledAtMs: 0 }),
    );
  });
});

describe('a redacted capture', () => {
  const secret = aPod({
    name: 'payroll',
    namespace: 'board',
    uid: 'acquisition',
    ownerKey: 'merger',
    containers: [{ name: 'bonus', kind: 'app', requests: noAmounts(), limits: noAmounts() }],
    volumes: [{ name: 'salaries', sizeLimit: null }],
    isStaticCritical: true,
    usage: {
      containers: known([
        { name: 'bonus', workingSetBytes: known(1), logsBytes: known(0), rootfsBytes: known(0) },
        { name: 'sidecar-of-legal', workingSetBytes: known(1), logsBytes: known(0), rootfsBytes: known(0) },
      ]),
      volumes: known([{ name: 'salaries', usedBytes: known(7) }]),
    },
  });
  function noAmounts() {
    return { memory: null, ephemeralStorage: null };
  }

  it('contains none of the names, consistent pseudonyms, and every amount', () => {
    const other = aPod({ name: 'a', namespace: 'board', uid: 'zzz', priority: 7, workingSetBytes: 123 });
    const looks = [[secret], [secret, other]].map((list, i) => ({
      observation: anObservation(i * 1_000, {}, { pods: known(list) }),
      decisions: [],
    }));
    const capture = captureOf('capture', redactLooks(looks), aConfig([]));
    const text = JSON.stringify(capture);
    expect(text).not.toMatch(/payroll|board|acquisition|merger|bonus|salaries|legal|zzz/);
    expect(capture?.pods).toMatchObject([
      {
        metadata: {
          name: 'pod-2',
          namespace: 'ns-1',
          uid: 'uid-1',
          annotations: { 'kubernetes.io/config.mirror': 'uid-1' },
          ownerReferences: [{ uid: 'owner-1' }],
        },
        spec: { containers: [{ name: 'container-1' }], volumes: [{ name: 'volume-1' }] },
      },
    ]);
    expect(capture?.steps[1]?.summary).toMatchObject({
      pods: [
        {
          podRef: { name: 'pod-2' },
          containers: [{ name: 'container-1' }, { name: 'container-2' }],
          volume: [{ name: 'volume-1' }],
        },
        { podRef: { name: 'pod-1', uid: 'uid-2' }, memory: { workingSetBytes: 123 } },
      ],
    });
    expect(capture?.steps[1]?.pods).toMatchObject([{}, { spec: { priority: 7 } }]);
  });

  it('sorts like the original, even if one namespace is a prefix of another, and beyond ten of them', () => {
    const names = ['a/z', 'a-b/c', 'a-b/a', 'b/a', ...Array.from({ length: 12 }, (_, i) => `n${i}/p`)];
    const list = names.map((full, i) => {
      const [namespace = '', name = ''] = full.split('/');
      return aPod({ namespace, name, uid: `u${i}` });
    });
    const [look] = redactLooks([{ observation: anObservation(0, {}, { pods: known(list) }), decisions: [] }]);
    const redacted = look?.observation.pods.known ? look.observation.pods.value : [];
    const orderOf = (views: readonly PodView[]) =>
      views
        .map(({ namespace, name }, i) => ({ full: `${namespace}/${name}`, i }))
        .toSorted((a, b) => (a.full < b.full ? -1 : 1))
        .map(({ i }) => i);
    expect(orderOf(redacted)).toEqual(orderOf(list));
  });
});
