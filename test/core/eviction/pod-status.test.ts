import { describe, expect, it } from 'vitest';
import {
  containerLimitMessage,
  emptyDirMessage,
  evictedStatus,
  evictionMessage,
  podLimitMessage,
} from '../../../src/core/eviction/pod-status.ts';
import type { MetThreshold } from '../../../src/core/eviction/threshold.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { aPod, MI } from '../../a.ts';

const quantity = (bytes: number) => quantityOfBytes(bytes, 'binary');
const absent = unknown('absent', 'stats', 'not there');
const met = (signal: Signal, limit: number, available: number): MetThreshold => ({
  id: `${signal}/evictionHard`,
  signal,
  isHard: true,
  limit: quantity(limit),
  target: quantity(limit),
  available,
  sinceMs: 0,
});
const container = (name: string, memory: number | null, ephemeralStorage: number | null): PodView['containers'][0] => ({
  name,
  kind: 'app',
  requests: {
    memory: memory === null ? null : quantity(memory),
    ephemeralStorage: ephemeralStorage === null ? null : quantity(ephemeralStorage),
  },
  limits: { memory: null, ephemeralStorage: null },
});
/** Three containers and one that no specification names. */
const pod = aPod({
  name: 'web',
  workingSetBytes: 60 * MI,
  containers: [container('app', 20 * MI, 20 * MI), container('helper', null, null), container('exact', 10 * MI, MI)],
  usage: {
    containers: known(
      [
        ['app', 30],
        ['helper', 5],
        ['exact', 10],
        ['stranger', 90],
      ].map(([name, mib]) => ({
        name: String(name),
        workingSetBytes: known(Number(mib) * MI),
        logsBytes: known(MI),
        rootfsBytes: known(Number(mib) * MI),
      })),
    ),
  },
});

describe("the status of an evicted pod in the API, in the kubelet's words", () => {
  it('names the containers above their own memory request', () => {
    expect(evictionMessage(met('memory.available', 100 * MI, 50 * MI), pod)).toEqual({
      message:
        'The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ' +
        'Container app was using 30Mi, request is 20Mi, has larger consumption of memory. ' +
        'Container helper was using 5Mi, request is 0, has larger consumption of memory. ',
      annotations: {
        starved_resource: 'memory',
        offending_containers: 'app,helper',
        offending_containers_usage: '30Mi,5Mi',
      },
    });
  });

  it('counts logs and writable layers for a disk', () => {
    expect(evictionMessage(met('nodefs.available', 100 * MI, 50 * MI), pod)).toEqual({
      message:
        'The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi. ' +
        'Container app was using 31Mi, request is 20Mi, has larger consumption of ephemeral-storage. ' +
        'Container helper was using 6Mi, request is 0, has larger consumption of ephemeral-storage. ' +
        'Container exact was using 11Mi, request is 1Mi, has larger consumption of ephemeral-storage. ',
      annotations: {
        starved_resource: 'ephemeral-storage',
        offending_containers: 'app,helper,exact',
        offending_containers_usage: '31Mi,6Mi,11Mi',
      },
    });
  });

  it.each([
    ['pid.available', 'pids'],
    ['nodefs.inodesFree', 'inodes'],
  ] as const)('names no container for %s, and gives the available amount as a plain number', (signal, resource) => {
    expect(evictionMessage(met(signal, 2_048, 1_024), pod)).toEqual({
      message: `The node was low on resource: ${resource}. Threshold quantity: 2Ki, available: 1024. `,
      annotations: { starved_resource: resource, offending_containers: '', offending_containers_usage: '' },
    });
  });

  it('names the pod first if it has a memory request of its own, only for memory', () => {
    const own = { ...pod, podLevelMemoryRequest: quantity(40 * MI) };
    const { message, annotations } = evictionMessage(met('memory.available', 100 * MI, 50 * MI), own);
    expect(message).toContain(
      'available: 50Mi. Pod web was using 60Mi, request is 40Mi, has larger consumption of memory. Container app ',
    );
    expect(annotations).toMatchObject({ offending_pod: 'web', offending_pod_usage: '60Mi' });
    const disk = evictionMessage(met('nodefs.available', 100 * MI, 50 * MI), own);
    expect(disk).toEqual(evictionMessage(met('nodefs.available', 100 * MI, 50 * MI), pod));
    const unmeasured = { ...own, usage: { ...own.usage, workingSetBytes: absent } };
    expect(evictionMessage(met('memory.available', 100 * MI, 50 * MI), unmeasured).annotations).not.toHaveProperty(
      'offending_pod',
    );
  });

  it('names nothing that was not measured', () => {
    const first = 'The node was low on resource: ephemeral-storage. Threshold quantity: 100Mi, available: 50Mi. ';
    const disk = met('nodefs.available', 100 * MI, 50 * MI);
    expect(evictionMessage(disk, { ...pod, usage: { ...pod.usage, containers: absent } })).toEqual({
      message: first,
      annotations: {},
    });
    const half = [
      { name: 'app', workingSetBytes: absent, logsBytes: absent, rootfsBytes: known(90 * MI) },
      { name: 'helper', workingSetBytes: absent, logsBytes: known(90 * MI), rootfsBytes: absent },
    ];
    const unmeasured = { ...pod, usage: { ...pod.usage, containers: known(half) } };
    expect(evictionMessage(disk, unmeasured).message).toBe(first);
  });

  it('names the limit that was exceeded', () => {
    expect(emptyDirMessage('cache', quantity(MI))).toBe('Usage of EmptyDir volume "cache" exceeds the limit "1Mi". ');
    expect(podLimitMessage(quantity(MI))).toBe(
      'Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ',
    );
    expect(containerLimitMessage('app', quantity(MI))).toBe(
      'Container app exceeded its local ephemeral storage limit "1Mi". ',
    );
  });

  it("adds DisruptionTarget for node pressure, not for the pod's own limit", () => {
    const common = { phase: 'Failed', reason: 'Evicted', message: 'why' };
    expect(evictedStatus('why', 'node-pressure')).toEqual({
      ...common,
      conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet', message: 'why' }],
    });
    expect(evictedStatus('why', 'over-limit')).toEqual({ ...common, conditions: [] });
  });
});
