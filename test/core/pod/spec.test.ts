import { describe, expect, it } from 'vitest';
import {
  type ContainerSpec,
  derivedUid,
  ephemeralStorageLimitOf,
  type PodSpec,
  podLevelMemoryRequestOf,
  qosOf,
  type ResourceList,
  requestsOf,
  withDefaultRequests,
} from '../../../src/core/pod/spec.ts';
import { parseQuantity } from '../../../src/core/units/quantity.ts';

const MI = 2 ** 20;
type Amounts = { readonly [resource: string]: string };

function list(amounts: Amounts = {}): ResourceList {
  return new Map(
    Object.entries(amounts).map(([name, text]) => {
      const parsed = parseQuantity(text);
      if (!parsed.ok) throw new Error(parsed.text);
      return [name, parsed.quantity];
    }),
  );
}

function container(kind: ContainerSpec['kind'], requests?: Amounts, limits?: Amounts): ContainerSpec {
  return { name: kind, kind, requests: list(requests), limits: list(limits) };
}

function spec(containers: readonly ContainerSpec[], more: Partial<PodSpec> = {}): PodSpec {
  return withDefaultRequests({ containers, podLevel: null, overhead: list(), ...more });
}

const memory = (of: PodSpec): number => requestsOf(of).memoryBytes / MI;

describe('what a pod requests', () => {
  it('is the sum of its app containers, whole bytes rounded up', () => {
    expect(memory(spec([container('app', { memory: '64Mi' }), container('app', { memory: '32Mi' })]))).toBe(96);
    expect(requestsOf(spec([container('app', { memory: '100.5' })])).memoryBytes).toBe(101);
  });

  it('is filled from the limits, container by container and resource by resource', () => {
    const pod = spec([
      container('app', {}, { memory: '64Mi' }),
      container('app', { memory: '1Mi' }, { memory: '9Mi' }),
    ]);
    expect(memory(pod)).toBe(65);
  });

  it('is that of the neediest init container if that is more, including sidecars before it', () => {
    const app = container('app', { memory: '10Mi' });
    const init = container('init', { memory: '50Mi' });
    const sidecar = container('sidecar', { memory: '20Mi' });
    expect(memory(spec([init, app]))).toBe(50);
    expect(memory(spec([sidecar, init, app]))).toBe(70);
    expect(memory(spec([init, sidecar, app]))).toBe(50);
    expect(memory(spec([app, init]))).toBe(50);
    expect(memory(spec([sidecar, container('init', { memory: '1Mi' }), app]))).toBe(30);
  });

  it('includes the overhead only if something is requested', () => {
    const overhead = list({ memory: '64Mi' });
    expect(memory(spec([container('app')], { overhead }))).toBe(0);
    expect(memory(spec([container('app', { memory: '1Mi' })], { overhead }))).toBe(65);
  });

  it('is what the pod level says if that is set, and nothing for what it does not name', () => {
    const podLevel = { requests: list({ memory: '5Mi' }), limits: list() };
    const pod = spec([container('app', { memory: '64Mi', 'ephemeral-storage': '1Gi' })], { podLevel });
    expect(requestsOf(pod)).toEqual({ memoryBytes: 5 * MI, ephemeralStorageBytes: 0 });
    expect(podLevelMemoryRequestOf(pod)?.text).toBe('5Mi');
  });

  it('at pod level defaults to what the containers request, else to the pod-level limit', () => {
    const podLevel = { requests: list(), limits: list({ memory: '100Mi', cpu: '1' }) };
    expect(memory(spec([container('app', { memory: '64Mi' })], { podLevel }))).toBe(64);
    expect(memory(spec([container('app')], { podLevel }))).toBe(100);
  });

  it('at pod level stays as written, whatever the containers request', () => {
    const podLevel = { requests: list({ memory: '5Mi' }), limits: list({ memory: '100Mi' }) };
    expect(memory(spec([container('app', { memory: '64Mi' })], { podLevel }))).toBe(5);
  });

  it.each([
    [64, { 'ephemeral-storage': '1Gi' }],
    [0, { cpu: '1' }],
    [0, { 'hugepages-2Mi': '2Mi' }],
    [5, { memory: '5Mi', 'ephemeral-storage': '1Gi' }],
  ])('is %d Mi if the containers request 64 and the pod level names %j', (expected, amounts) => {
    const podLevel = { requests: list(amounts), limits: list() };
    expect(memory(spec([container('app', { memory: '64Mi' })], { podLevel }))).toBe(expected);
  });

  it('ignores a pod level that limits other resources', () => {
    const podLevel = { requests: list(), limits: list({ 'ephemeral-storage': '9Mi' }) };
    const pod = spec([container('app', { 'ephemeral-storage': '3Mi' })], { podLevel });
    expect(requestsOf(pod)).toEqual({ memoryBytes: 0, ephemeralStorageBytes: 3 * MI });
    expect(podLevelMemoryRequestOf(pod)).toBeNull();
    expect(podLevelMemoryRequestOf(spec([container('app', { memory: '1Mi' })]))).toBeNull();
  });
});

describe('the ephemeral-storage limit of a pod', () => {
  const limit = (of: PodSpec): string | null => ephemeralStorageLimitOf(of)?.nanos ?? null;
  const disk = (amount: string): Amounts => ({ 'ephemeral-storage': amount });

  it('exists if any container sets one, even one of 0', () => {
    expect(limit(spec([container('app')]))).toBeNull();
    expect(limit(spec([container('app', {}, disk('0'))]))).toBe('0');
    expect(limit(spec([container('app', {}, disk('5Mi')), container('app')]))).toBe(`${5 * MI}000000000`);
  });

  it('includes the overhead unless it is 0', () => {
    const overhead = list(disk('1Mi'));
    expect(limit(spec([container('app', {}, disk('5Mi'))], { overhead }))).toBe(`${6 * MI}000000000`);
    expect(limit(spec([container('app', {}, disk('0'))], { overhead }))).toBe('0');
    expect(limit(spec([container('app')], { overhead }))).toBeNull();
  });
});

describe('the QoS class', () => {
  const both = { cpu: '1', memory: '64Mi' };
  it.each([
    ['BestEffort', [container('app')]],
    ['BestEffort', [container('app', { memory: '0' }), container('app', { 'ephemeral-storage': '1Gi' })]],
    ['Burstable', [container('app', { memory: '1Mi' })]],
    ['Burstable', [container('app', both, { memory: '64Mi' })]],
    ['Burstable', [container('app', both, both), container('app')]],
    ['Burstable', [container('app', both, both), container('init', {}, { memory: '1Mi' })]],
    ['Burstable', [container('app', { cpu: '500m', memory: '64Mi' }, both)]],
    ['Burstable', [container('app', { cpu: '500m', memory: '64Mi' }, both), container('app', both, both)]],
    ['Burstable', [container('app', { cpu: '0', memory: '0' }, both)]],
    ['Guaranteed', [container('app', both, both)]],
    ['Guaranteed', [container('app', {}, both), container('sidecar', { cpu: '1000m', memory: '65536Ki' }, both)]],
  ] as const)('is %s', (expected, containers) => {
    expect(qosOf(spec(containers))).toBe(expected);
  });

  it('is that of the pod level if there is one', () => {
    const resources = { requests: list(both), limits: list(both) };
    expect(qosOf(spec([container('app')], { podLevel: resources }))).toBe('Guaranteed');
    expect(qosOf(spec([container('app', both, both)], { podLevel: { requests: list(both), limits: list() } }))).toBe(
      'Burstable',
    );
    expect(qosOf(spec([container('app', both, both)], { podLevel: { requests: list(), limits: list() } }))).toBe(
      'BestEffort',
    );
  });
});

describe('the uid of a pod that declares none', () => {
  it('is the same each time, looks like a UUID, and differs by namespace and by name', () => {
    const uid = derivedUid('shop', 'web');
    // Also after an upgrade: files on disk name pods by it.
    expect(uid).toBe('409aba7e-9c5a-8597-853f-bfead947bce2');
    const uids = new Set(Array.from({ length: 20_000 }, (_, i) => derivedUid(`ns-${i % 7}`, `web-${i}`)));
    expect(uids.size).toBe(20_000);
    const isUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/;
    expect([...uids].filter((one) => !isUuid.test(one))).toEqual([]);
  });
});
