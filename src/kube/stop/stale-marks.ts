import type { Clock, Findings } from '../../ports.ts';
import { type ApiPod, isTerminal } from '../api/api-pod.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import { victimOf } from '../api/write-rules.ts';
import { tellRight } from './stop-through-api.ts';

type StaleMarksNeeds = {
  readonly clock: Clock;
  readonly writes: Pick<ApiWrites, 'unmarkDisruption'>;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  readonly pods: () => Iterable<ApiPod>;
  /** The pods are this node's, and match the server's. */
  readonly isCurrent: () => boolean;
};

/**
 * As the disruption controller of Kubernetes 1.26 and later does. Not sooner: a Job does not count the failure of a marked pod, and
 * the kubelet may not have reported yet that a victim, which nobody deletes, has failed.
 */
const STALE_MS = 120_000;
const LOOK_MS = 30_000;

/** Takes back the marks of this agent on pods that live on: their deletion was refused, or never sent. */
export function createStaleMarks({ clock, writes, findings, pods, isCurrent }: StaleMarksNeeds) {
  let cancel: (() => void) | null = null;
  let isClosed = false;
  const marked = (): readonly ApiPod[] =>
    [...pods()].filter(
      (pod) => pod.marked !== undefined && pod.deletionWallMs === null && !isTerminal(pod) && pod.isElsewhere !== true,
    );
  const look = async (): Promise<void> => {
    for (const { marked: mark, resourceVersion, ...pod } of isCurrent() ? marked() : []) {
      const victim = victimOf(pod);
      if (mark === undefined || victim === null || clock.wallMs() - mark.sinceWallMs < STALE_MS) continue;
      const said = await writes.unmarkDisruption(victim, mark.reason, resourceVersion);
      tellRight(findings, 'patch pods/status', said);
    }
  };
  /** Looks from time to time while there are any. */
  const see = (): void => {
    if (cancel !== null || isClosed || marked().length === 0) return;
    cancel = clock.after(LOOK_MS, () => {
      void look().then(() => {
        cancel = null;
        see();
      });
    });
  };
  return {
    see,
    close: (): void => {
      isClosed = true;
      cancel?.();
    },
  };
}
