import { podName } from '../../core/pod/pod.ts';
import type { Clock, Findings } from '../../ports.ts';
import { deletionRefused, deletionRefusedId } from '../../words/finding-eviction.ts';
import { type ApiPod, isTerminal, type PodRef } from '../api/api-pod.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import type { DeleteAnswer, Over } from '../api/eviction.ts';

/** As long as a deletion is asked for again (C5). */
const KEPT_MS = 300_000;

/**
 * Keeps a finding about each pod whose deletion the server refused, as a webhook or a policy does, until it accepts it, the pod
 * ends in another way, or it has not been asked for 5 minutes. That a right is missing is another finding.
 */
export function tellRefusedDeletions(writes: ApiWrites, clock: Clock, findings: Pick<Findings, 'raise' | 'clear'>) {
  /** What forgets each, by uid. */
  const refused = new Map<string, () => void>();
  const clear = (uid: string): void => {
    refused.get(uid)?.();
    if (refused.delete(uid)) findings.clear(deletionRefusedId(uid));
  };
  const telling = async <A extends DeleteAnswer | Over>(
    pod: PodRef,
    isRehearsal: boolean,
    asked: Promise<A>,
  ): Promise<A> => {
    const answer = await asked;
    const { uid } = pod;
    const isDenied = answer.kind === 'forbidden' && answer.isDenied === true;
    // Not every webhook supports a dry run.
    if (isDenied || (answer.kind === 'rejected' && !isRehearsal)) {
      refused.get(uid)?.();
      refused.set(
        uid,
        clock.after(KEPT_MS, () => clear(uid)),
      );
      findings.raise(deletionRefused(uid, podName(pod), answer.text));
    } else if (answer.kind === 'gone' || answer.kind === 'replaced' || (answer.kind === 'accepted' && !isRehearsal)) {
      clear(uid);
    }
    return answer;
  };
  const deletePod: ApiWrites['deletePod'] = (pod, ...how) => telling(pod, false, writes.deletePod(pod, ...how));
  const rehearseDelete: ApiWrites['rehearseDelete'] = (pod, ...how) =>
    telling(pod, true, writes.rehearseDelete(pod, ...how));
  return {
    writes: { ...writes, deletePod, rehearseDelete },
    /** All that are on this node. */
    see: (pods: Iterable<ApiPod>): void => {
      if (refused.size === 0) return;
      const living = [...pods].filter((pod) => pod.deletionWallMs === null && !isTerminal(pod));
      const uids = new Set(living.map(({ object }) => object.uid));
      for (const uid of refused.keys()) if (!uids.has(uid)) clear(uid);
    },
  };
}
