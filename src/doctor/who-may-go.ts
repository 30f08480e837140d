import { evictResourceOf, mayGoFor, sayEvictFor } from '../core/pod/evict-for.ts';
import { actionWithin, HARD_GRACE_SECONDS } from '../core/pod/grace.ts';
import { type PodView, podName } from '../core/pod/pod.ts';
import type { Signal } from '../core/signal.ts';
import { compareQuantity } from '../core/units/quantity.ts';
import * as say from '../words/doctor.ts';

/** Who may be evicted according to the manifests, and what follows from `evict-for`. */

type Declared = Omit<PodView, 'usage'>;

/** A protected pod may, if no other is left (D7). */
export const mayBeEvicted = (pod: Declared, signals: readonly Signal[]): boolean =>
  !pod.isStaticCritical &&
  actionWithin(pod.endsMachine, HARD_GRACE_SECONDS) === null &&
  signals.some((signal) => mayGoFor(pod, signal));

/** Null: a pod may be evicted, or there is no threshold, which is a separate finding. */
export function nobodyToEvict(pods: readonly Declared[], signals: readonly Signal[], directory: string): string | null {
  if (pods.length === 0) return say.noManifest(directory);
  if (signals.length === 0 || pods.some((pod) => mayBeEvicted(pod, signals))) return null;
  return say.allExcluded(pods.length);
}

/**
 * For a pod that is never evicted for memory but may use more than it requests: others are evicted for it. Null if that is not
 * so. `limitBytes`: the limit that the kernel enforces; null: none; undefined: it is not running, and its manifest counts.
 */
export function evictedForIt(
  pod: Declared,
  pods: readonly Declared[],
  signals: readonly Signal[],
  limitBytes?: number | null,
): string | null {
  const { evictFor, requests } = pod;
  if (evictFor === undefined || evictFor.includes('memory')) return null;
  const memory = signals.filter((signal) => evictResourceOf(signal) === 'memory');
  if (!pods.some((other) => mayBeEvicted(other, memory))) return null;
  const isBounded =
    limitBytes === undefined ? isLimitedToRequest(pod) : limitBytes !== null && limitBytes <= requests.memoryBytes;
  return isBounded ? null : say.othersGoFor(podName(pod), sayEvictFor(evictFor), requests.memoryBytes);
}

/** A pod-level limit is not known here. */
const isLimitedToRequest = ({ containers }: Declared): boolean =>
  containers.every(
    ({ requests, limits }) =>
      limits.memory !== null && requests.memory !== null && compareQuantity(limits.memory, requests.memory) <= 0,
  );
