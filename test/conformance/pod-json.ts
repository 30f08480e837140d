// v1 Pods and kubelet statistics, as recorded, to the pods that the core ranks.
import type { ContainerUsage, DiskUsage, PodView } from '../../src/core/pod.ts';
import {
  type ContainerSpec,
  containerViewOf,
  derivedUid,
  ephemeralStorageLimitOf,
  isCriticalPriority,
  type PodSpec,
  PRIORITY_CLASSES,
  podLevelMemoryRequestOf,
  qosOf,
  type ResourceList,
  requestsOf,
  withDefaultRequests,
} from '../../src/core/pod-spec.ts';
import { bytesUp, parseQuantity, type Quantity } from '../../src/core/quantity.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';

// biome-ignore lint/suspicious/noExplicitAny: recorded JSON; a wrong shape fails the case, which is what it is for
export type Json = any;
export type List = readonly Json[];

const absent = unknown('absent', 'summary', 'not there');

export function quantityOf(value: Json): Quantity {
  const parsed = parseQuantity(String(value).trim());
  if (!parsed.ok) throw new Error(`no quantity: ${value}`);
  return parsed.quantity;
}
export const bytesOf = (value: Json): number | null =>
  value === undefined || value === null ? null : bytesUp(quantityOf(value));
export const numberOf = bytesOf;
const reading = (value: Json): Reading<number> => {
  const bytes = bytesOf(value);
  return bytes === null ? absent : known(bytes);
};
const orZero = (value: Json): number => bytesOf(value) ?? 0;

const namespaceOf = (metadata: Json): string => metadata.namespace ?? 'default';
export const uidOf = ({ metadata }: Json): string => metadata.uid ?? derivedUid(namespaceOf(metadata), metadata.name);

export function podViewOf(pod: Json, summary: Json): PodView {
  const { metadata, spec } = pod;
  const uid = uidOf(pod);
  const namespace = namespaceOf(metadata);
  const described = withDefaultRequests(specOf(spec));
  const priority = spec.priority ?? PRIORITY_CLASSES.get(spec.priorityClassName) ?? 0;
  const annotations = metadata.annotations ?? {};
  const source = annotations['kubernetes.io/config.source'];
  const isStatic =
    (source !== undefined && source !== 'api') || annotations['kubernetes.io/config.mirror'] !== undefined;
  const entries: List = (summary.pods ?? []).filter(({ podRef }: Json) =>
    podRef.uid === undefined ? podRef.name === metadata.name && namespaceOf(podRef) === namespace : podRef.uid === uid,
  );
  return {
    uid,
    namespace,
    name: metadata.name,
    qos: qosOf(described),
    priority,
    requests: requestsOf(described),
    podLevelMemoryRequest: podLevelMemoryRequestOf(described),
    ephemeralStorageLimit: ephemeralStorageLimitOf(described),
    containers: described.containers.map(containerViewOf),
    volumes: (spec.volumes ?? []).flatMap((volume: Json) =>
      volume.emptyDir === undefined
        ? []
        : [
            {
              name: volume.name,
              sizeLimit: volume.emptyDir?.sizeLimit === undefined ? null : quantityOf(volume.emptyDir.sizeLimit),
            },
          ],
    ),
    tolerations: [],
    terminationGraceSeconds: spec.terminationGracePeriodSeconds ?? 30,
    startedAtWallMs: null,
    ownerKey: null,
    isDaemonSet: false,
    isStaticCritical: isStatic || isCriticalPriority(priority),
    isProtected: false,
    isTerminating: false,
    limitedBy: null,
    usage: usageOf(entries.at(-1), spec),
  };
}

function specOf(spec: Json): PodSpec {
  const container = (kind: ContainerSpec['kind'], { name, resources }: Json): ContainerSpec => ({
    name,
    kind,
    requests: resourcesOf(resources?.requests),
    limits: resourcesOf(resources?.limits),
  });
  return {
    containers: [
      ...spec.containers.map((c: Json) => container('app', c)),
      ...(spec.initContainers ?? []).map((c: Json) => container(c.restartPolicy === 'Always' ? 'sidecar' : 'init', c)),
    ],
    podLevel:
      spec.resources === undefined || spec.resources === null
        ? null
        : { requests: resourcesOf(spec.resources.requests), limits: resourcesOf(spec.resources.limits) },
    overhead: resourcesOf(spec.overhead),
  };
}

function resourcesOf(list: Json): ResourceList {
  return new Map(Object.entries(list ?? {}).map(([name, value]) => [name, quantityOf(value)]));
}

function usageOf(entry: Json | undefined, spec: Json): PodView['usage'] {
  if (entry === undefined) {
    return {
      workingSetBytes: absent,
      processes: absent,
      disk: absent,
      ephemeralStorageBytes: absent,
      containers: absent,
      volumes: absent,
    };
  }
  const containers: List = entry.containers ?? [];
  const volumes: List = entry.volume ?? [];
  const isLocal = (name: string): boolean => {
    const volume = (spec.volumes ?? []).find((candidate: Json) => candidate.name === name);
    if (volume === undefined) return false;
    const medium = volume.emptyDir?.medium ?? '';
    return (
      volume.hostPath !== undefined ||
      volume.gitRepo !== undefined ||
      volume.configMap !== undefined ||
      (volume.emptyDir !== undefined && medium === '')
    );
  };
  const sum = (list: List, of: (item: Json) => Json): number =>
    list.reduce((total, item) => total + orZero(of(item)), 0);
  const local = volumes.filter(({ name }) => isLocal(name));
  const disk: DiskUsage = {
    logsBytes: sum(containers, (c) => c.logs?.usedBytes),
    rootfsBytes: sum(containers, (c) => c.rootfs?.usedBytes),
    volumesBytes: sum(local, (v) => v.usedBytes),
    logsInodes: sum(containers, (c) => c.logs?.inodesUsed),
    rootfsInodes: sum(containers, (c) => c.rootfs?.inodesUsed),
    volumesInodes: sum(local, (v) => v.inodesUsed),
  };
  return {
    // The kubelet takes a memory section without a number for 0 in the message too, an absent section for unknown.
    workingSetBytes: entry.memory === undefined ? absent : known(orZero(entry.memory.workingSetBytes)),
    processes: reading(entry.process_stats?.process_count),
    disk: known(disk),
    ephemeralStorageBytes: reading(entry['ephemeral-storage']?.usedBytes),
    containers: known(
      containers.map(
        (c): ContainerUsage => ({
          name: c.name,
          workingSetBytes: reading(c.memory?.workingSetBytes),
          logsBytes: reading(c.logs?.usedBytes),
          rootfsBytes: reading(c.rootfs?.usedBytes),
        }),
      ),
    ),
    volumes: known(volumes.map(({ name, usedBytes }) => ({ name, usedBytes: reading(usedBytes) }))),
  };
}
