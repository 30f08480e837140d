/** A v1 Pod as the kubelet sees it: after API defaulting (scenarios.md 2.3.2), with requests and limits by kubelet-eviction.md 5.6 and 5.7. */
import { at, entriesOf, type Json, listOf, numberOf, textOf } from './json.ts';
import { type Amount, add, parseQuantity, zero } from './quantities.ts';

export type Resource = 'memory' | 'ephemeral-storage' | 'cpu';
type Amounts = { readonly [resource: string]: Amount };

export type Container = {
  readonly name: string;
  readonly kind: 'app' | 'init' | 'sidecar';
  readonly requests: Amounts;
  readonly limits: Amounts;
};

export type Pod = {
  /** namespace/name */
  readonly id: string;
  readonly name: string;
  /** null = none given; the pod is then known by its namespace and name. */
  readonly uid: string | null;
  readonly phase: string;
  readonly priority: number;
  readonly termination: number;
  readonly never: boolean;
  readonly protect: boolean;
  readonly daemonSet: boolean;
  /** The controller that owns it, for D6. */
  readonly owner: string | null;
  readonly createdMs: number | null;
  readonly containers: readonly Container[];
  readonly overhead: Amounts;
  /** Set when spec.resources names cpu, memory or hugepages. */
  readonly podLevel: { readonly requests: Amounts } | null;
  readonly volumes: readonly Json[];
};

export function podsOf(list: Json): readonly Pod[] {
  const items = Array.isArray(list) ? listOf(list) : listOf(at(list, 'items'));
  return items.map(podOf);
}

function podOf(json: Json): Pod {
  const meta = at(json, 'metadata');
  const spec = at(json, 'spec');
  const name = textOf(at(meta, 'name'), '');
  const annotations = entriesOf(at(meta, 'annotations'));
  const priority = numberOf(at(spec, 'priority'), priorityOfClass(at(spec, 'priorityClassName')));
  const source = annotations['kubernetes.io/config.source'];
  const containers = [
    ...listOf(at(spec, 'containers')).map((one) => containerOf(one, 'app')),
    ...listOf(at(spec, 'initContainers')).map((one) =>
      containerOf(one, at(one, 'restartPolicy') === 'Always' ? 'sidecar' : 'init'),
    ),
  ];
  const owners = listOf(at(meta, 'ownerReferences'));
  const controller = owners.find((one) => at(one, 'controller') === true);
  const created = at(meta, 'creationTimestamp');
  return {
    id: `${textOf(at(meta, 'namespace'), 'default')}/${name}`,
    name,
    uid: textOf(at(meta, 'uid'), '') || null,
    phase: textOf(at(json, 'status', 'phase'), ''),
    priority,
    termination: numberOf(at(spec, 'terminationGracePeriodSeconds'), 30),
    never:
      priority >= 2_000_000_000 ||
      Object.hasOwn(annotations, 'kubernetes.io/config.mirror') ||
      (source !== undefined && source !== 'api'),
    protect: annotations['nodewarden.dev/protect'] === 'true',
    daemonSet: owners.some((one) => at(one, 'kind') === 'DaemonSet'),
    owner: controller === undefined ? null : textOf(at(controller, 'uid'), ''),
    createdMs: created === null ? null : Date.parse(textOf(created, '')),
    containers,
    overhead: amountsOf(at(spec, 'overhead')),
    podLevel: podLevelOf(at(spec, 'resources'), containers),
    volumes: listOf(at(spec, 'volumes')),
  };
}

function priorityOfClass(name: Json): number {
  if (name === 'system-node-critical') return 2_000_001_000;
  return name === 'system-cluster-critical' ? 2_000_000_000 : 0;
}

function containerOf(json: Json, kind: Container['kind']): Container {
  const limits = amountsOf(at(json, 'resources', 'limits'));
  const requests = { ...limits, ...amountsOf(at(json, 'resources', 'requests')) };
  return { name: textOf(at(json, 'name'), ''), kind, requests, limits };
}

function amountsOf(json: Json): Amounts {
  const amounts: { [resource: string]: Amount } = {};
  for (const [resource, value] of Object.entries(entriesOf(json))) {
    amounts[resource] = amountOf(value);
  }
  return amounts;
}

function amountOf(value: Json): Amount {
  const amount = parseQuantity(typeof value === 'number' ? String(value) : textOf(value, '').trim());
  if (amount === null) throw new Error(`not a quantity: ${JSON.stringify(value)}`);
  return amount;
}

function podLevelOf(json: Json, containers: readonly Container[]): Pod['podLevel'] {
  const supported = ([resource]: readonly [string, Amount]) =>
    resource === 'cpu' || resource === 'memory' || resource.startsWith('hugepages-');
  const given = Object.entries(amountsOf(at(json, 'requests'))).filter(supported);
  const limits = Object.entries(amountsOf(at(json, 'limits'))).filter(supported);
  if (given.length + limits.length === 0) return null;
  const requests: { [resource: string]: Amount } = Object.fromEntries(given);
  if (limits.length === 0) return { requests };
  for (const resource of ['cpu', 'memory'] as const) {
    const missing = effective(containers, resource, 'requests') ?? Object.fromEntries(limits)[resource];
    if (missing !== undefined) requests[resource] ??= missing;
  }
  return { requests };
}

/** max(S, I) of 5.6.2; null if no container names the resource. */
function effective(containers: readonly Container[], resource: Resource, which: 'requests' | 'limits'): Amount | null {
  let sum: Amount | null = null;
  let sidecars: Amount | null = null;
  let largestInit: Amount | null = null;
  for (const container of containers) {
    const own = container[which][resource] ?? null;
    if (container.kind !== 'init') sum = plus(sum, own);
    if (container.kind === 'sidecar') sidecars = plus(sidecars, own);
    if (container.kind === 'app') continue;
    const now = container.kind === 'sidecar' ? sidecars : plus(own, sidecars);
    if (now !== null && (largestInit === null || now.nano > largestInit.nano)) largestInit = now;
  }
  if (sum === null || (largestInit !== null && largestInit.nano > sum.nano)) return largestInit;
  return sum;
}

function plus(a: Amount | null, b: Amount | null): Amount | null {
  if (a === null || b === null) return a ?? b;
  return add(a, b);
}

function withOverhead(pod: Pod, amount: Amount, resource: Resource): Amount {
  const overhead = pod.overhead[resource];
  return amount.nano === 0n || overhead === undefined ? amount : add(amount, overhead);
}

/** 5.6. */
export function requestOf(pod: Pod, resource: Resource): Amount {
  const own =
    pod.podLevel === null
      ? (effective(pod.containers, resource, 'requests') ?? zero)
      : (pod.podLevel.requests[resource] ?? zero);
  return withOverhead(pod, own, resource);
}

/** 5.7; null if no container sets one. */
export function ephemeralLimitOf(pod: Pod): Amount | null {
  const limit = effective(pod.containers, 'ephemeral-storage', 'limits');
  return limit === null ? null : withOverhead(pod, limit, 'ephemeral-storage');
}

/** Volumes whose files count as the pod's local disk use (5.8): hostPath, gitRepo, configMap, emptyDir on disk. */
export function localVolumes(pod: Pod): readonly string[] {
  const local = pod.volumes.filter((volume) => {
    if (at(volume, 'hostPath') !== null || at(volume, 'gitRepo') !== null || at(volume, 'configMap') !== null) {
      return true;
    }
    // API defaulting makes a volume without a source an emptyDir.
    const isEmptyDir = at(volume, 'emptyDir') !== null || Object.keys(entriesOf(volume)).every((key) => key === 'name');
    return isEmptyDir && textOf(at(volume, 'emptyDir', 'medium'), '') === '';
  });
  return local.map((volume) => textOf(at(volume, 'name'), ''));
}

/** emptyDir volumes with a limit above 0, in order (4.6.1). */
export function limitedEmptyDirs(pod: Pod): readonly { readonly name: string; readonly limit: Amount }[] {
  return pod.volumes.flatMap((volume) => {
    const sizeLimit = at(volume, 'emptyDir', 'sizeLimit');
    const limit = sizeLimit === null ? null : amountOf(sizeLimit);
    return limit === null || limit.nano <= 0n ? [] : [{ name: textOf(at(volume, 'name'), ''), limit }];
  });
}
