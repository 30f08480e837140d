import { addQuantity, bytesUp, compareQuantity, type Quantity } from '../units/quantity.ts';
import type { ContainerView, PodView } from './pod.ts';

/** Amounts by the API's resource name (`cpu`, `memory`, `ephemeral-storage`, `hugepages-2Mi`). */
export type ResourceList = ReadonlyMap<string, Quantity>;
export type Resources = { readonly requests: ResourceList; readonly limits: ResourceList };
export type ContainerSpec = Resources & { readonly name: string; readonly kind: ContainerView['kind'] };
/** What a v1 Pod says about resources. */
export type PodSpec = {
  /** App, init and sidecar containers; the last two in their order. */
  readonly containers: readonly ContainerSpec[];
  /** Pod-level resources; null = `spec.resources` is absent. */
  readonly podLevel: Resources | null;
  readonly overhead: ResourceList;
};

/** kubelet-eviction.md 8.4. */
const CRITICAL_PRIORITY = 2_000_000_000;
export const PRIORITY_CLASSES: ReadonlyMap<string, number> = new Map([
  ['system-cluster-critical', CRITICAL_PRIORITY],
  ['system-node-critical', CRITICAL_PRIORITY + 1_000],
]);
const QOS_RESOURCES = ['cpu', 'memory'] as const;

/** Whether its priority makes a pod static-critical (kubelet-eviction.md 4.11); the mode knows the static pods. */
export function isCriticalPriority(priority: number): boolean {
  return priority >= CRITICAL_PRIORITY;
}

/**
 * What the API server fills in before anybody else reads the pod (kubelet-eviction.md 8.1, scenarios.md 2.3.2): a
 * missing request of a container is its limit; with pod-level limits, a missing pod-level request for cpu or memory is
 * what the containers request, else the pod-level limit.
 */
export function withDefaultRequests(spec: PodSpec): PodSpec {
  const containers = spec.containers.map((container) => ({
    ...container,
    requests: new Map([...container.limits, ...container.requests]),
  }));
  if (spec.podLevel === null || spec.podLevel.limits.size === 0) return { ...spec, containers };
  const requests = new Map(spec.podLevel.requests);
  for (const resource of QOS_RESOURCES) {
    if (requests.has(resource)) continue;
    const ofContainers = aggregate(containers, (container) => container.requests.get(resource) ?? null);
    const request = ofContainers ?? spec.podLevel.limits.get(resource);
    if (request !== undefined) requests.set(resource, request);
  }
  return { ...spec, containers, podLevel: { requests, limits: spec.podLevel.limits } };
}

/** kubelet-eviction.md 5.6, on a spec with default requests. */
function requestOf(spec: PodSpec, resource: string): Quantity {
  const base =
    spec.podLevel !== null && isPodLevelSet(spec.podLevel)
      ? (spec.podLevel.requests.get(resource) ?? ZERO)
      : (aggregate(spec.containers, ({ requests }) => requests.get(resource) ?? null) ?? ZERO);
  return withOverhead(base, spec, resource);
}

/** For the ranking: whole bytes, rounded up. */
export function requestsOf(spec: PodSpec): PodView['requests'] {
  return {
    memoryBytes: bytesUp(requestOf(spec, 'memory')),
    ephemeralStorageBytes: bytesUp(requestOf(spec, 'ephemeral-storage')),
  };
}

/** As the message names it (kubelet-eviction.md 7.1); null: no pod-level request for memory. */
export function podLevelMemoryRequestOf(spec: PodSpec): Quantity | null {
  return spec.podLevel?.requests.get('memory') ?? null;
}

/** kubelet-eviction.md 5.7: null = no container sets one. A limit of 0 exists. */
export function ephemeralStorageLimitOf(spec: PodSpec): Quantity | null {
  const limit = aggregate(spec.containers, ({ limits }) => limits.get('ephemeral-storage') ?? null);
  return limit === null ? null : withOverhead(limit, spec, 'ephemeral-storage');
}

/** kubelet-eviction.md 8.2: cpu and memory only, amounts above 0 only. */
export function qosOf(spec: PodSpec): PodView['qos'] {
  const lists: readonly Resources[] = spec.podLevel === null ? spec.containers : [spec.podLevel];
  const requests = sumOf(lists.map((list) => list.requests));
  const limits = sumOf(lists.map((list) => list.limits));
  if (requests.size === 0 && limits.size === 0) return 'BestEffort';
  const isLimited = lists.every((list) => QOS_RESOURCES.every((resource) => isPositive(list.limits.get(resource))));
  const isEqual = [...requests].every(([resource, request]) => {
    const limit = limits.get(resource);
    return limit !== undefined && compareQuantity(request, limit) === 0;
  });
  return isLimited && isEqual && requests.size === limits.size ? 'Guaranteed' : 'Burstable';
}

export function containerViewOf({ name, kind, requests, limits }: ContainerSpec): ContainerView {
  return { name, kind, requests: amountsOf(requests), limits: amountsOf(limits) };
}

/**
 * The uid of a pod that declares none: a UUID that is the same for the same namespace and name on every machine. Four 32-bit
 * FNV-1a sums with different seeds are enough: security does not depend on it, and duplicate uids are refused.
 */
export function derivedUid(namespace: string, name: string): string {
  const text = `${namespace}/${name}`;
  const hex = [0x811c9dc5, 0x01000193, 0x9e3779b9, 0x7feb352d].map((seed) => hashOf(text, seed)).join('');
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20)].join('-');
}

function hashOf(text: string, seed: number): string {
  let sum = seed;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
  // FNV barely mixes its last bytes; this is the finalizer of murmur3.
  sum = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b);
  sum = Math.imul(sum ^ (sum >>> 13), 0xc2b2ae35);
  return ((sum ^ (sum >>> 16)) >>> 0).toString(16).padStart(8, '0');
}

const ZERO: Quantity = { nanos: '0', format: 'binary', text: null };

/**
 * All app containers and sidecars together, or the neediest init container with the sidecars before it; null = none is
 * declared.
 */
function aggregate(
  containers: readonly ContainerSpec[],
  amountOf: (container: ContainerSpec) => Quantity | null,
): Quantity | null {
  let running: Quantity | null = null;
  let starting: Quantity | null = null;
  let sidecars: Quantity | null = null;
  for (const container of containers) {
    const amount = amountOf(container);
    if (container.kind === 'init') {
      starting = larger(starting, plus(amount, sidecars));
      continue;
    }
    running = plus(running, amount);
    if (container.kind === 'sidecar') sidecars = plus(sidecars, amount);
  }
  return larger(running, starting);
}

function plus(a: Quantity | null, b: Quantity | null): Quantity | null {
  if (a === null || b === null) return a ?? b;
  return addQuantity(a, b);
}

function larger(a: Quantity | null, b: Quantity | null): Quantity | null {
  if (a === null || b === null) return a ?? b;
  return compareQuantity(a, b) >= 0 ? a : b;
}

function withOverhead(amount: Quantity, { overhead }: PodSpec, resource: string): Quantity {
  const more = overhead.get(resource);
  return more === undefined || amount.nanos === '0' ? amount : addQuantity(amount, more);
}

/** kubelet-eviction.md 5.6.1: whether cpu, memory or hugepages are set; nothing else counts at pod level. */
function isPodLevelSet({ requests, limits }: Resources): boolean {
  const names = [...requests.keys(), ...limits.keys()];
  return names.some((name) => name === 'cpu' || name === 'memory' || name.startsWith('hugepages-'));
}

function sumOf(lists: readonly ResourceList[]): ResourceList {
  const sum = new Map<string, Quantity>();
  for (const list of lists) {
    for (const resource of QOS_RESOURCES) {
      const amount = list.get(resource);
      if (amount === undefined || !isPositive(amount)) continue;
      const before = sum.get(resource);
      sum.set(resource, before === undefined ? amount : addQuantity(before, amount));
    }
  }
  return sum;
}

function isPositive(amount: Quantity | undefined): boolean {
  return amount !== undefined && compareQuantity(amount, ZERO) > 0;
}

function amountsOf(list: ResourceList): ContainerView['requests'] {
  return { memory: list.get('memory') ?? null, ephemeralStorage: list.get('ephemeral-storage') ?? null };
}
