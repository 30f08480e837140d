import type { PodView } from '../pod/pod.ts';
import { known, type Reading } from '../reading.ts';
import { SIGNAL_FACTS } from '../signal.ts';
import { compareQuantity, type Quantity, quantityOfBytes, sayQuantity } from '../units/quantity.ts';
import { type MetThreshold, ZERO_QUANTITY } from './threshold.ts';

/** kubelet-eviction.md 7.3: the status of an evicted pod in the API. */
export type PodStatus = {
  readonly phase: 'Failed';
  readonly reason: 'Evicted';
  readonly message: string;
  readonly conditions: readonly {
    readonly type: 'DisruptionTarget';
    readonly status: 'True';
    readonly reason: 'TerminationByKubelet';
    readonly message: string;
  }[];
};

/** DisruptionTarget belongs to node pressure only, not to local storage limits. */
export function evictedStatus(message: string, cause: 'node-pressure' | 'over-limit'): PodStatus {
  const condition = { type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet', message } as const;
  return { phase: 'Failed', reason: 'Evicted', message, conditions: cause === 'node-pressure' ? [condition] : [] };
}

/** kubelet-eviction.md 7.1 and 7.2: the kubelet's own words. The message ends in a blank, as there. */
export function evictionMessage(
  threshold: MetThreshold,
  pod: PodView,
): { readonly message: string; readonly annotations: { readonly [key: string]: string } } {
  const { resource, unit } = SIGNAL_FACTS[threshold.signal];
  const available = quantityOfBytes(threshold.available, unit === 'bytes' ? 'binary' : 'decimal');
  const first =
    `The node was low on resource: ${resource}. ` +
    `Threshold quantity: ${sayQuantity(threshold.limit)}, available: ${sayQuantity(available)}. `;
  if (!pod.usage.containers.known || pod.unsaid?.requests) return { message: first, annotations: {} };
  const offenders = offendersOf(pod, resource);
  const annotations: { [key: string]: string } = { starved_resource: resource };
  let message = first;
  if (resource === 'memory' && pod.podLevelMemoryRequest !== null && pod.usage.workingSetBytes.known) {
    const usage = quantityOfBytes(pod.usage.workingSetBytes.value, 'binary');
    message += larger('Pod', { name: pod.name, usage, request: pod.podLevelMemoryRequest }, resource);
    annotations['offending_pod'] = pod.name;
    annotations['offending_pod_usage'] = sayQuantity(usage);
  }
  annotations['offending_containers'] = offenders.map(({ name }) => name).join(',');
  annotations['offending_containers_usage'] = offenders.map(({ usage }) => sayQuantity(usage)).join(',');
  for (const offender of offenders) message += larger('Container', offender, resource);
  return { message, annotations };
}
type Offender = { readonly name: string; readonly usage: Quantity; readonly request: Quantity };

/** Containers of the specification above their own request, in the order of the statistics. */
function offendersOf(pod: PodView, resource: string): readonly Offender[] {
  if (!pod.usage.containers.known) return [];
  return pod.usage.containers.value.flatMap((usage) => {
    const spec = pod.containers.find(({ name }) => name === usage.name);
    if (spec === undefined) return [];
    const isMemory = resource === 'memory';
    const used: Reading<number> | null = isMemory
      ? usage.workingSetBytes
      : resource === 'ephemeral-storage'
        ? sum(usage.rootfsBytes, usage.logsBytes)
        : null;
    if (used === null || !used.known) return [];
    const request = (isMemory ? spec.requests.memory : spec.requests.ephemeralStorage) ?? ZERO_QUANTITY;
    const amount = quantityOfBytes(used.value, 'binary');
    return compareQuantity(amount, request) > 0 ? [{ name: usage.name, usage: amount, request }] : [];
  });
}

function sum(a: Reading<number>, b: Reading<number>): Reading<number> {
  if (!a.known) return a;
  return b.known ? known(a.value + b.value) : b;
}

function larger(kind: 'Pod' | 'Container', offender: Offender, resource: string): string {
  const usage = sayQuantity(offender.usage);
  const request = sayQuantity(offender.request);
  return `${kind} ${offender.name} was using ${usage}, request is ${request}, has larger consumption of ${resource}. `;
}

export function emptyDirMessage(volume: string, sizeLimit: Quantity): string {
  return `Usage of EmptyDir volume "${volume}" exceeds the limit "${sayQuantity(sizeLimit)}". `;
}

export function podLimitMessage(limit: Quantity): string {
  return `Pod ephemeral local storage usage exceeds the total limit of containers ${sayQuantity(limit)}. `;
}

export function containerLimitMessage(container: string, limit: Quantity): string {
  return `Container ${container} exceeded its local ephemeral storage limit "${sayQuantity(limit)}". `;
}
