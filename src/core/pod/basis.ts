import type { CoreConfig } from '../core-config.ts';
import type { Reading } from '../reading.ts';
import type { PodUid, PodView } from './pod.ts';

/**
 * What the choice of a pod rests on besides measurements, as one text: while it is the same, nobody has said anything else.
 * Ages and ties are left out, because what systemd or the runtime reports of them later changes no declaration.
 */
export function basisOf(
  config: CoreConfig,
  pods: Reading<readonly { readonly declared: Omit<PodView, 'usage'> }[]>,
  uid: PodUid,
): string {
  const pod = pods.known ? pods.value.find(({ declared }) => declared.uid === uid) : undefined;
  return JSON.stringify([config, pod === undefined ? null : saidOf(pod.declared)]);
}

const saidOf = (pod: Omit<PodView, 'usage'>): readonly unknown[] => [
  pod.boundTo,
  pod.qos,
  pod.priority,
  pod.inherited?.priority,
  pod.requests,
  // Of a pod that others have deleted, it is what is left, which falls by itself.
  pod.isDeletedByOthers ? null : pod.terminationGraceSeconds,
  pod.isDaemonSet,
  pod.isStaticCritical,
  pod.isProtected,
  pod.evictFor,
  pod.limitedBy,
  pod.endsMachine,
  pod.unsaid,
];
