import { podName } from '../core/pod/pod.ts';
import { sayDuration } from '../core/units/duration.ts';

/** What a shutdown beside a kubelet has said to the API server, and what of it cannot be taken back. */

export const API_AWAY = 'the API server is away: the node is not cordoned, and no pod is deleted until it answers';

export const sayGoingDown = (totalMs: number): string => `the node is shutting down, within ${sayDuration(totalMs)}`;

const CORDONS = {
  ours: 'the node is cordoned and tainted',
  others: 'the node is tainted; someone else had cordoned it',
  autoscaler: 'the node is tainted; an autoscaler is removing it',
} as const;
/** Who has cordoned the node now. */
export const sayCordon = (by: keyof typeof CORDONS): string => CORDONS[by];

export const sayUndone = (isUncordoned: boolean): string =>
  `the shutdown is cancelled: ${isUncordoned ? 'the node accepts pods again' : 'no cordon is lifted'}`;

export const notCordoned = (why: string): string => `the node could not be cordoned: ${why}`;

/** E18: what cannot be undone. `owner`: the controller that creates another pod; null: none. */
export function sayDeleted(
  pod: Parameters<typeof podName>[0] & { readonly owner: string | null; readonly isAccepted?: true },
): string {
  const then = pod.owner === null ? 'nothing recreates it' : `its ${pod.owner} recreates it`;
  return `${podName(pod)} ${pod.isAccepted ? 'was' : 'may have been'} deleted: ${then}`;
}

export const cordonLeft = (why: string): string => `the cordon of the node (retrying): ${why}`;
