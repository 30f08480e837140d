import { describe, expect, it } from 'vitest';
import type { MetThreshold, Threshold } from '../../src/core/eviction/threshold.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const bytes = (amount: number) => quantityOfBytes(amount, 'binary');
const none = { memory: null, ephemeralStorage: null };

function met(threshold: Threshold, available: number, limit: number, target = limit): MetThreshold {
  const { id, signal, graceMs } = threshold;
  return { id, signal, isHard: graceMs === 0, limit: bytes(limit), target: bytes(target), available, sinceMs: 0 };
}

const web: PodView = aPod({
  name: 'web',
  namespace: 'shop',
  workingSetBytes: 300 * MI,
  processes: 4,
  priority: 5,
  requests: { memoryBytes: 110 * MI, ephemeralStorageBytes: 0 },
  startedAtWallMs: Date.UTC(2026, 0, 31),
  isProtected: true,
  containers: [
    { name: 'main', kind: 'app', requests: { ...none, memory: bytes(100 * MI) }, limits: none },
    { name: 'prepare', kind: 'init', requests: { ...none, memory: bytes(50 * MI) }, limits: none },
  ],
  volumes: [{ name: 'cache', sizeLimit: bytes(GI) }],
  usage: {
    volumes: known([{ name: 'cache', usedBytes: known(10 * MI) }]),
    disk: known({
      logsBytes: 1,
      rootfsBytes: 2,
      volumesBytes: 12 * MI,
      logsInodes: 3,
      rootfsInodes: 4,
      volumesInodes: 5,
    }),
  },
});

describe('a look as a scenario', () => {
  it('contains node, pods and configuration, so that the ranking can be re-derived', () => {
    const hard = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 20 * MI });
    const percent: Threshold = {
      ...aThreshold('nodefs.available', 0),
      value: { kind: 'fraction', fraction: Math.fround(Math.fround(12.5) / 100) },
    };
    const observation = anObservation(
      5_000,
      {
        'memory.available': { available: 92 * MI, capacity: GI },
        'nodefs.available': known({ available: 40 * GI, capacity: 100 * GI, sampledAtMs: 4_000 }),
        'nodefs.inodesFree': known({ available: 900, capacity: 1_000, sampledAtMs: 4_000 }),
        'pid.available': { available: 700, capacity: 1_000 },
      },
      { pods: known([web]) },
    );
    const scenario = scenarioOf({
      name: 'b-1',
      observation,
      config: aConfig([hard, percent]),
      acted: met(hard, 92 * MI, 100 * MI),
    });
    expect(scenario).toEqual({
      apiVersion: 'nodewarden.dev/v1alpha1',
      kind: 'EvictionScenario',
      metadata: { name: 'b-1', labels: { acted: 'memory.available/evictionHard' } },
      config: {
        evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '12.5%' },
        evictionSoft: {},
        evictionSoftGracePeriod: {},
        evictionMinimumReclaim: { 'memory.available': '20Mi' },
        evictionMaxPodGracePeriod: 0,
        evictionPressureTransitionPeriod: '5m0s',
        enforceNodeAllocatable: [],
        localStorageCapacityIsolation: true,
      },
      node: {},
      pods: [
        {
          metadata: {
            name: 'web',
            namespace: 'shop',
            uid: 'uid-web',
            creationTimestamp: '2026-01-31T00:00:00.000Z',
            annotations: { 'nodewarden.dev/protect': 'true' },
          },
          spec: {
            priority: 5,
            terminationGracePeriodSeconds: 30,
            containers: [{ name: 'main', resources: { requests: { memory: '100Mi' }, limits: {} } }],
            initContainers: [{ name: 'prepare', resources: { requests: { memory: '50Mi' }, limits: {} } }],
            overhead: { memory: String(10 * MI) },
            volumes: [
              { name: 'cache', emptyDir: { sizeLimit: '1Gi' } },
              { name: 'other-local-volumes', emptyDir: {} },
            ],
          },
        },
      ],
      steps: [
        {
          at: 0,
          summary: {
            node: {
              memory: { time: 0, availableBytes: 92 * MI, workingSetBytes: GI - 92 * MI },
              fs: { time: -1_000, availableBytes: 40 * GI, capacityBytes: 100 * GI, inodesFree: 900, inodes: 1_000 },
              runtime: {},
              rlimit: { time: 0, maxpid: 1_000, curproc: 300 },
            },
            pods: [
              {
                podRef: { name: 'web', namespace: 'shop', uid: 'uid-web' },
                memory: { workingSetBytes: 300 * MI },
                process_stats: { process_count: 4 },
                'ephemeral-storage': { usedBytes: 0 },
                containers: [
                  {
                    name: 'main',
                    memory: { workingSetBytes: 300 * MI },
                    rootfs: { usedBytes: 2, inodesUsed: 4 },
                    logs: { usedBytes: 1, inodesUsed: 3 },
                  },
                ],
                volume: [
                  { name: 'cache', usedBytes: 10 * MI },
                  { name: 'other-local-volumes', usedBytes: 2 * MI, inodesUsed: 5 },
                ],
              },
            ],
          },
        },
      ],
    });
  });

  it('writes the threshold that was acted on as it was: its grace period over, its min reclaim counted', () => {
    const soft = aThreshold('memory.available', 200 * MI, { graceMs: 30_000, minReclaimBytes: 50 * MI });
    const other = aThreshold('nodefs.available', GI, { graceMs: 60_000 });
    const observation = anObservation(1, {}, { pods: known([]) });
    const config = aConfig([soft, other]);
    const acted = met(soft, 220 * MI, 200 * MI, 250 * MI);
    expect(scenarioOf({ name: 'x', observation, config, acted })?.config).toMatchObject({
      evictionSoft: { 'memory.available': '250Mi', 'nodefs.available': '1Gi' },
      evictionSoftGracePeriod: { 'memory.available': '0s', 'nodefs.available': '1m0s' },
    });
  });

  it('leaves out pods that could not be chosen, and gives a pod without statistics none', () => {
    const gone = aPod({ name: 'gone', isTerminating: true });
    const limited = aPod({ name: 'limited', limitedBy: 'not-stoppable' });
    const silent = aPod({ name: 'silent', usage: { containers: unknown('absent', 'stats', 'none') } });
    const observation = anObservation(1, {}, { pods: known([gone, limited, silent]) });
    const scenario = scenarioOf({ name: 'x', observation, config: aConfig([]), acted: null });
    expect(scenario?.pods.map(({ metadata }) => metadata)).toMatchObject([{ name: 'silent' }]);
    expect(scenario?.steps[0].summary['pods']).toEqual([]);
  });

  it('keeps the chosen pods even if the mode had excluded them', () => {
    const overridden = aPod({ name: 'overridden', limitedBy: 'not-stoppable' });
    const waiting = aPod({ name: 'waiting', limitedBy: 'not-stoppable' });
    const observation = anObservation(1, {}, { pods: known([waiting, overridden]) });
    const scenario = scenarioOf({
      ...{ name: 'x', observation, config: aConfig([]), acted: null },
      victims: [overridden.uid],
    });
    expect(scenario?.pods.map(({ metadata }) => metadata)).toMatchObject([{ name: 'overridden' }]);
  });

  it('keeps all pods while a manifest is not read', () => {
    const beside = ['web', 'db'].map((name) => aPod({ name, limitedBy: 'manifest-unread' }));
    const observation = anObservation(1, {}, { pods: known(beside) });
    const scenario = scenarioOf({ name: 'x', observation, config: aConfig([]), acted: null });
    expect(scenario?.pods.map(({ metadata }) => metadata)).toMatchObject([{ name: 'web' }, { name: 'db' }]);
    expect(scenario?.steps[0].summary['pods']).toHaveLength(2);
  });

  it('is empty if the pods were unknown', () => {
    expect(scenarioOf({ name: 'x', observation: anObservation(1, {}), config: aConfig([]), acted: null })).toBeNull();
  });

  it.each([10, 5, 15, 12.5, 0.1, 33.3, 100, 99.99, 1 / 3])(
    'writes %d %% so that it is read as the same share',
    (percent) => {
      const fraction = Math.fround(Math.fround(percent) / 100);
      const threshold: Threshold = { ...aThreshold('memory.available', 0), value: { kind: 'fraction', fraction } };
      const observation = anObservation(1, {}, { pods: known([]) });
      const said = scenarioOf({ name: 'x', observation, config: aConfig([threshold]), acted: null })?.config[
        'evictionHard'
      ];
      const text = Object(said)['memory.available'];
      expect(text).toMatch(/%$/);
      expect(Math.fround(Math.fround(Number(text.slice(0, -1))) / 100)).toBe(fraction);
    },
  );
});
