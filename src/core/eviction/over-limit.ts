import type { StorageLimit } from '../decision.ts';
import { actionWithin, HARD_GRACE_SECONDS } from '../pod/grace.ts';
import { isBeingStopped, type PodView, podName } from '../pod/pod.ts';
import type { Reading } from '../reading.ts';
import type { FsLayout } from '../signal.ts';
import type { LimitSpared } from '../state/state.ts';
import { compareQuantity, isLess, type Quantity, quantityOfBytes } from '../units/quantity.ts';
import { containerLimitMessage, emptyDirMessage, podLimitMessage } from './pod-status.ts';

/** `spares`: its stop would also stop this pod (namespace/name), which must not go for it. Absent: it may be evicted. */
export type OverLimit = {
  readonly pod: PodView;
  readonly limit: StorageLimit;
  readonly message: string;
  readonly spares?: string;
};

/**
 * kubelet-eviction.md 4.6: every pod that exceeds a local storage limit, in the order given; per pod the first rule
 * that matches: emptyDir, pod, container. Unknown usage counts as 0, and so do writable layers whose disk is not known
 * (`layout` null). Protected pods (4.11) never match.
 */
export function overLimits(pods: readonly PodView[], layout: FsLayout | null): readonly OverLimit[] {
  const found: OverLimit[] = [];
  for (const pod of pods) {
    const { limitSpares: spares } = pod;
    const endsMachine = pod.limitedBy === 'ends-machine' || actionWithin(pod.endsMachine, HARD_GRACE_SECONDS) !== null;
    const isExempt = (pod.isStaticCritical && spares === undefined) || endsMachine;
    if (isExempt || isBeingStopped(pod) || !pod.usage.containers.known) continue;
    const over = overEmptyDir(pod) ?? overPod(pod) ?? overContainer(pod, layout);
    if (over === null) continue;
    found.push({ pod, ...over, ...(spares === undefined ? {} : { spares }) });
  }
  return found;
}

export function limitSparedOf(all: readonly OverLimit[]): readonly LimitSpared[] {
  return all.flatMap(({ pod, spares }) => (spares === undefined ? [] : [{ uid: pod.uid, pod: podName(pod), spares }]));
}

type Over = Omit<OverLimit, 'pod' | 'spares'> | null;

function overEmptyDir(pod: PodView): Over {
  const usages = pod.usage.volumes;
  if (!usages.known) return null;
  for (const volume of pod.volumes) {
    const used = usages.value.find(({ name }) => name === volume.name)?.usedBytes;
    if (volume.sizeLimit === null || isZero(volume.sizeLimit) || used === undefined || !used.known) continue;
    if (exceeds(used.value, volume.sizeLimit)) {
      return { limit: 'emptydirfs', message: emptyDirMessage(volume.name, volume.sizeLimit) };
    }
  }
  return null;
}

function overPod(pod: PodView): Over {
  const limit = pod.ephemeralStorageLimit;
  if (limit === null || !exceeds(orZero(pod.usage.ephemeralStorageBytes), limit)) return null;
  return { limit: 'ephemeralpodfs', message: podLimitMessage(limit) };
}

function overContainer(pod: PodView, layout: FsLayout | null): Over {
  if (!pod.usage.containers.known) return null;
  for (const usage of pod.usage.containers.value) {
    const spec = pod.containers.find(({ name, kind }) => name === usage.name && kind === 'app');
    const limit = spec?.limits.ephemeralStorage ?? null;
    if (limit === null || isZero(limit)) continue;
    const rootfsBytes = layout === 'nodefs-only' ? orZero(usage.rootfsBytes) : 0;
    if (exceeds(orZero(usage.logsBytes) + rootfsBytes, limit)) {
      return { limit: 'ephemeralcontainerfs', message: containerLimitMessage(usage.name, limit) };
    }
  }
  return null;
}

const orZero = (reading: Reading<number>): number => (reading.known ? reading.value : 0);
const isZero = (quantity: Quantity): boolean => quantity.nanos === '0';

function exceeds(usedBytes: number, limit: Quantity): boolean {
  return !isLess(usedBytes, limit) && compareQuantity(quantityOfBytes(usedBytes, 'binary'), limit) !== 0;
}
