import type { PodView } from '../core/pod/pod.ts';

/** A pod as an act of the API names it. `uid` is that of the object, which for a mirror pod is not the kubelet's. */
export type PodRef = { readonly namespace: string; readonly name: string; readonly uid: string };
/** What is kept of a v1 Pod of this node (beside-a-kubelet.md D15): no environment, no arguments, no secrets. */
export type ApiPod = {
  /** `uid` is the kubelet's: of a static pod the one of its manifest (D5), which names cgroup, volumes and logs. */
  readonly declared: Omit<PodView, 'usage'>;
  readonly object: PodRef;
  readonly resourceVersion: string;
  readonly phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed' | 'Unknown';
  /** The reflection of a static pod: never deleted (A20). */
  readonly isMirror: boolean;
  readonly restartPolicy: 'Always' | 'OnFailure' | 'Never';
  /** Its controller; null: a bare pod, which a DELETE destroys (B10). */
  readonly owner: { readonly kind: string; readonly name: string; readonly uid: string } | null;
  /** When the grace of its deletion ends, as the API says; null: it is not being deleted. */
  readonly deletionWallMs: number | null;
  /** Of `status.containerStatuses` and `status.initContainerStatuses`; the id is without its scheme, null before a start. */
  readonly containers: readonly { readonly name: string; readonly id: string | null }[];
  /** The names of annotations that would bind it in standalone, which count for nothing here (H7); absent: none. */
  readonly bindings?: readonly string[];
};
