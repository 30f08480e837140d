/** What the API and the events say: kubelet-eviction.md 7.1 and 7.2. */
import { kindOf } from './eviction-rank.ts';
import type { PodStats } from './eviction-stats.ts';
import type { Pod } from './pods.ts';
import { type Amount, bytes, print, zero } from './quantities.ts';

export type Said = { readonly message: string; readonly annotations: { readonly [key: string]: string } };

export function resourceOf(signal: string): string {
  const kind = kindOf(signal);
  return kind === 'bytes' ? 'ephemeral-storage' : kind;
}

export function sayPressure(
  signal: string,
  threshold: Amount,
  available: Amount,
  pod: Pod,
  stats: PodStats | undefined,
): Said {
  const resource = resourceOf(signal);
  const quantities = `Threshold quantity: ${print(threshold)}, available: ${print(available)}. `;
  const opening = `The node was low on resource: ${resource}. ${quantities}`;
  if (stats === undefined) return { message: opening, annotations: {} };
  const larger = (what: string, use: bigint, request: Amount) =>
    `${what} was using ${print(bytes(use))}, request is ${print(request)}, has larger consumption of ${resource}. `;
  const podRequest = resource === 'memory' ? pod.podLevel?.requests['memory'] : undefined;
  const podUse = podRequest === undefined ? null : stats.memory;
  const podSentence = podRequest === undefined || podUse === null ? '' : larger(`Pod ${pod.name}`, podUse, podRequest);
  const offending = stats.containers.flatMap((container) => {
    const own = pod.containers.find((one) => one.name === container.name);
    const use = containerUse(resource, container);
    if (own === undefined || use === null) return [];
    const request = own.requests[resource] ?? zero;
    return use * 1_000_000_000n > request.nano ? [{ name: container.name, use, request }] : [];
  });
  const sentences = offending.map((one) => larger(`Container ${one.name}`, one.use, one.request));
  return {
    message: opening + podSentence + sentences.join(''),
    annotations: {
      starved_resource: resource,
      offending_containers: offending.map((one) => one.name).join(','),
      offending_containers_usage: offending.map((one) => print(bytes(one.use))).join(','),
      ...(podUse === null ? {} : { offending_pod: pod.name, offending_pod_usage: print(bytes(podUse)) }),
    },
  };
}

function containerUse(resource: string, container: PodStats['containers'][number]): bigint | null {
  if (resource === 'memory') return container.memory;
  if (resource !== 'ephemeral-storage') return null;
  const root = container.rootfs.bytes;
  const logs = container.logs.bytes;
  return root === null || logs === null ? null : root + logs;
}
