import { hasNoDirectory, isCutShort, isReliefAtLeast, isUnread } from '../../core/eviction/relief.ts';
import { EVICT_FOR, sayEvictFor } from '../../core/pod/evict-for.ts';
import type { Amounts, ContainerUsage, ContainerView, DiskUsage, PodView } from '../../core/pod/pod.ts';
import { type ContainerSpec, requestsOf, withDefaultRequests } from '../../core/pod/spec.ts';
import type { Reading } from '../../core/reading.ts';
import { priorityOf } from '../../core/shutdown/chain.ts';
import {
  bytesUp,
  decimalOf,
  parseQuantity,
  type Quantity,
  quantityOfBytes,
  sayQuantity,
} from '../../core/units/quantity.ts';

/** A JSON object whose names are those of the scenario format, the kubelet or Kubernetes. */
export type Json = { readonly [key: string]: unknown };

/** A v1 Pod with the effective requests, ranking and messages of the view. */
export function podOf(pod: PodView): Json {
  const containers = containersOf(pod);
  const init = containers.filter(({ kind }) => kind !== 'app');
  const overhead = overheadOf(pod);
  return {
    metadata: {
      name: pod.name,
      namespace: pod.namespace,
      uid: pod.uid,
      ...(pod.startedAtWallMs === null ? {} : { creationTimestamp: new Date(pod.startedAtWallMs).toISOString() }),
      ...annotationsOf(pod),
      ...ownersOf(pod),
    },
    spec: {
      // D16: the priority with which it was ranked.
      priority: priorityOf(pod),
      terminationGracePeriodSeconds: pod.terminationGraceSeconds,
      containers: containers.filter(({ kind }) => kind === 'app').map(containerOf),
      ...(init.length > 0 ? { initContainers: init.map(containerOf) } : {}),
      ...(Object.keys(overhead).length > 0 ? { overhead } : {}),
      ...(pod.podLevelMemoryRequest === null
        ? {}
        : { resources: { requests: { memory: quantityText(pod.podLevelMemoryRequest) } } }),
      volumes: volumesOf(pod),
    },
  };
}

/** Only the key is known of a controller that is not a DaemonSet. */
function ownersOf({ isDaemonSet, ownerKey }: PodView): Json {
  if (!isDaemonSet && ownerKey === null) return {};
  const kind = isDaemonSet ? { apiVersion: 'apps/v1', kind: 'DaemonSet' } : {};
  return { ownerReferences: [{ ...kind, ...(ownerKey === null ? {} : { uid: ownerKey }), controller: true }] };
}

function annotationsOf(pod: PodView): Json {
  const annotations = {
    ...(pod.evictFor === undefined ? {} : { [EVICT_FOR]: sayEvictFor(pod.evictFor) }),
    ...(pod.isProtected ? { 'nodewarden.dev/protect': 'true' } : {}),
    // A critical priority shows in the priority itself; otherwise it is a mirror pod.
    ...(pod.isStaticCritical && priorityOf(pod) < 2_000_000_000 ? { 'kubernetes.io/config.mirror': pod.uid } : {}),
  };
  return Object.keys(annotations).length > 0 ? { annotations } : {};
}

/** C9: no container of an undeclared pod is known, but the format needs one: it gets the request of the pod. */
function containersOf({ containers, requests, usage }: PodView): readonly ContainerView[] {
  if (containers.length > 0) return containers;
  const [first] = usage.containers.known ? usage.containers.value : [];
  const memory = requests.memoryBytes === 0 ? null : quantityOfBytes(requests.memoryBytes, 'binary');
  const amounts = { memory, ephemeralStorage: null };
  return [{ name: first?.name ?? 'unknown', kind: 'app', requests: amounts, limits: amounts }];
}

function containerOf(container: ContainerView): Json {
  return {
    name: container.name,
    ...(container.kind === 'sidecar' ? { restartPolicy: 'Always' } : {}),
    resources: { requests: amountsOf(container.requests), limits: amountsOf(container.limits) },
  };
}

function amountsOf(amounts: Amounts): Json {
  return Object.fromEntries(namedIn(amounts).map(([name, amount]) => [name, quantityText(amount)]));
}

/** The effective requests minus those of the containers, because the view has no field for overhead. */
function overheadOf(pod: PodView): Json {
  const { requests, podLevelMemoryRequest } = pod;
  const spec = { containers: containersOf(pod).map(specOf), podLevel: null, overhead: new Map() };
  const { memoryBytes, ephemeralStorageBytes } = requestsOf(withDefaultRequests(spec));
  const base = podLevelMemoryRequest === null ? memoryBytes : bytesUp(podLevelMemoryRequest);
  const beyond = [
    ['memory', requests.memoryBytes - base],
    ['ephemeral-storage', requests.ephemeralStorageBytes - ephemeralStorageBytes],
  ] as const;
  return Object.fromEntries(beyond.filter(([, bytes]) => bytes > 0).map(([name, bytes]) => [name, String(bytes)]));
}

function specOf({ name, kind, requests, limits }: ContainerView): ContainerSpec {
  return { name, kind, requests: new Map(namedIn(requests)), limits: new Map(namedIn(limits)) };
}

/** By the API's names. */
function namedIn({ memory, ephemeralStorage }: Amounts): readonly (readonly [string, Quantity])[] {
  const named = [
    ['memory', memory],
    ['ephemeral-storage', ephemeralStorage],
  ] as const;
  return named.flatMap(([name, amount]) => (amount === null ? [] : [[name, amount] as const]));
}

/** A mode may count directories that are not declared volumes; they become one additional volume. */
const OTHER_VOLUME = 'other-local-volumes';

function volumesOf(pod: PodView): readonly Json[] {
  const declared = pod.volumes.map(({ name, sizeLimit }) => ({
    name,
    emptyDir: sizeLimit === null ? {} : { sizeLimit: quantityText(sizeLimit) },
  }));
  return hasVolumes(pod.usage.disk) ? [...declared, { name: OTHER_VOLUME, emptyDir: {} }] : declared;
}

/** The pod's entry in the summary; null: it has no statistics, and is ranked accordingly. */
export function statsOf(pod: PodView): Json | null {
  const { usage } = pod;
  if (!usage.containers.known) return null;
  return {
    podRef: { name: pod.name, namespace: pod.namespace, uid: pod.uid },
    ...field('memory', 'workingSetBytes', usage.workingSetBytes),
    ...(usage.swapBytes === undefined ? {} : field('swap', 'swapUsageBytes', usage.swapBytes)),
    ...(pod.isBetweenRuns ? { isBetweenRuns: true } : {}),
    ...(pod.isStalledByOwnLimit ? { isStalledByOwnLimit: true } : {}),
    ...(pod.unsaid === undefined ? {} : { unsaid: pod.unsaid }),
    ...(pod.limitedBy === null ? {} : { limitedBy: pod.limitedBy }),
    ...(pod.endsMachine === undefined ? {} : { endsMachineAfterMs: pod.endsMachine.afterMs }),
    ...(pod.hasSurvived ? { hasSurvived: true } : {}),
    ...(pod.isGuarded ? { isGuarded: true } : {}),
    ...(pod.isDeletedByOthers ? { isDeletedByOthers: true } : {}),
    ...unmeasuredIn(usage),
    ...field('process_stats', 'process_count', usage.processes),
    ...(usage.pidsHeld?.known ? { pidsHeld: usage.pidsHeld.value } : {}),
    ...(usage.deadHeld?.known && usage.deadHeld.value > 0 ? { deadHeld: usage.deadHeld.value } : {}),
    ...field('ephemeral-storage', 'usedBytes', usage.ephemeralStorageBytes),
    containers: containerStats(pod, usage.containers.value),
    volume: volumeStats(pod),
    ...reliefStats(pod),
  };
}

/** D13: the parts that are left out because they could not be read. */
function unmeasuredIn({ workingSetBytes, swapBytes, processes }: PodView['usage']): Json {
  const parts = { memory: workingSetBytes, swap: swapBytes, process_stats: processes };
  const unmeasured = Object.entries(parts).flatMap(([part, used]) => (used && isUnread(used) ? [part] : []));
  return unmeasured.length === 0 ? {} : { unmeasured };
}

/** D14, for the requested file system, in keys of our own; unknown values are left out. */
function reliefStats(pod: PodView): Json {
  const { diskRelief, usage } = pod;
  const disk = usage.disk.known ? usage.disk.value : null;
  const { unattributedBytes: bytes = 0, unattributedInodes: inodes = 0 } = disk ?? {};
  const atLeast = {
    ...(disk?.isOfFileSystem ? { diskIsOfFileSystem: true } : {}),
    ...(isCutShort(pod) ? { diskIsAtLeast: true } : {}),
    ...(hasNoDirectory(pod) ? { hasNoDirectory: true } : {}),
    ...(bytes + inodes > 0 ? { diskUnattributed: { bytes, inodes } } : {}),
  };
  if (diskRelief === undefined) return atLeast;
  if (!diskRelief.known) return { diskRelief: { isAtLeast: true }, ...atLeast };
  const { scratch, deletedOpen, grownLastMinute, writtenBytes, unattributed } = diskRelief.value;
  const amounts: { readonly [key: string]: Reading<number> } = {
    scratchBytes: scratch.bytes,
    scratchInodes: scratch.inodes,
    deletedOpenBytes: deletedOpen.bytes,
    deletedOpenInodes: deletedOpen.inodes,
    grownBytes: grownLastMinute.bytes,
    grownInodes: grownLastMinute.inodes,
    writtenBytes,
    ...(unattributed && { unattributedBytes: unattributed.bytes, unattributedInodes: unattributed.inodes }),
  };
  const known = Object.entries(amounts).flatMap(([key, amount]) =>
    amount.known ? [[key, amount.value] as const] : [],
  );
  return {
    diskRelief: { ...Object.fromEntries(known), ...(isReliefAtLeast(pod) ? { isAtLeast: true } : {}) },
    ...atLeast,
  };
}

/** Only bytes are known per container: inodes, and bytes of no container, are assigned to the first one. */
function containerStats(pod: PodView, containers: readonly ContainerUsage[]): readonly Json[] {
  const disk = pod.usage.disk.known ? pod.usage.disk.value : null;
  const sum = (part: 'logsBytes' | 'rootfsBytes'): number =>
    containers.reduce((bytes, container) => bytes + orZero(container[part]), 0);
  return containers.map((container, i) => {
    const own = (part: 'logsBytes' | 'rootfsBytes', inodes: 'logsInodes' | 'rootfsInodes'): Json => {
      const first = i === 0 && disk !== null ? { bytes: rest(disk[part], sum(part)), inodes: disk[inodes] } : null;
      const hasBytes = container[part].known || (first !== null && first.bytes > 0);
      return {
        ...(hasBytes ? { usedBytes: orZero(container[part]) + (first?.bytes ?? 0) } : {}),
        ...(first === null ? {} : { inodesUsed: first.inodes }),
      };
    };
    return {
      name: container.name,
      ...field('memory', 'workingSetBytes', container.workingSetBytes),
      rootfs: own('rootfsBytes', 'rootfsInodes'),
      logs: own('logsBytes', 'logsInodes'),
    };
  });
}

function volumeStats({ usage }: PodView): readonly Json[] {
  const volumes = usage.volumes.known ? usage.volumes.value : [];
  const named = volumes.map(({ name, usedBytes }) => ({
    name,
    ...(usedBytes.known ? { usedBytes: usedBytes.value } : {}),
  }));
  if (!hasVolumes(usage.disk)) return named;
  const { volumesBytes, volumesInodes } = usage.disk.value;
  const sum = volumes.reduce((bytes, volume) => bytes + orZero(volume.usedBytes), 0);
  return [...named, { name: OTHER_VOLUME, usedBytes: rest(volumesBytes, sum), inodesUsed: volumesInodes }];
}

function hasVolumes(disk: Reading<DiskUsage>): disk is { readonly known: true; readonly value: DiskUsage } {
  return disk.known && disk.value.volumesBytes + disk.value.volumesInodes > 0;
}

const orZero = (reading: Reading<number>): number => (reading.known ? reading.value : 0);
const rest = (total: number, parts: number): number => Math.max(0, total - parts);

function field(section: string, name: string, reading: Reading<number>): Json {
  return reading.known ? { [section]: { [name]: reading.value } } : {};
}

/**
 * A text that parses to the same amount: above 999E, which the kubelet prints without its suffix, digits are written
 * out.
 */
export function quantityText(quantity: Quantity): string {
  const said = quantity.text ?? sayQuantity(quantity);
  const parsed = parseQuantity(said);
  return parsed.ok && parsed.quantity.nanos === quantity.nanos ? said : decimalOf(quantity);
}
