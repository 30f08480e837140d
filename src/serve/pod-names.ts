import type { Observation } from '../core/observation.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';

/** namespace/name as tenants chose it: escape before printing. `before`: names of pods that are not in the look. */
export function namesOf(
  { pods }: Observation,
  before: (uid: PodUid) => string | undefined = () => undefined,
): (uid: PodUid) => string {
  const names = new Map(pods.known ? pods.value.map((pod) => [pod.uid, podName(pod)]) : []);
  return (uid) => names.get(uid) ?? before(uid) ?? uid;
}

const MAX_NAMES = 10_000;

/** Names from all looks, so that a pod that is being stopped or that a look did not read keeps its name. */
export function createPodNames(): {
  readonly learn: (observation: Observation) => void;
  readonly nameOf: (uid: PodUid) => string | undefined;
} {
  const names = new Map<PodUid, string>();
  return {
    learn: ({ pods }) => {
      if (!pods.known) return;
      if (names.size > MAX_NAMES) names.clear();
      for (const pod of pods.value) if (!names.has(pod.uid)) names.set(pod.uid, podName(pod));
    },
    nameOf: (uid) => names.get(uid),
  };
}
