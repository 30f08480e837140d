import { podName } from '../core/pod/pod.ts';
import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { BootEndSaid, InhibitorStatus } from '../ports.ts';

/** What the conditions of the node say besides pressure. `reason`: one word in CamelCase, for programs. */
type NodeFact = {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
};

/** Null: it is off and not reported. Undefined: unchanged. */
export function sayArmed({ lock, isPreparing }: InhibitorStatus): NodeFact | null | undefined {
  if (isPreparing && lock.kind !== 'off') return SHUTTING_DOWN;
  switch (lock.kind) {
    case 'off':
      return null;
    case 'armed': {
      const { grantedMs, neededMs } = lock;
      const message = `logind delays a shutdown by up to ${sayDuration(grantedMs)}; ${sayDuration(neededMs)} are needed`;
      return { status: 'True', reason: 'Armed', message };
    }
    case 'not-armed':
      if (lock.isPending) return undefined;
      return { status: 'False', reason: 'NotArmed', message: escapeUnsafe(lock.why) };
    case 'released':
      return undefined;
  }
}

const SHUTTING_DOWN: NodeFact = { status: 'False', reason: 'ShuttingDown', message: 'the node is shutting down' };

/** No names of pods: whoever may see the node need not see them. */
const ENDS: { readonly [E in BootEndSaid['end']]: NodeFact } = {
  graceful: { status: 'True', reason: 'Graceful', message: 'which ended in order' },
  cut: { status: 'False', reason: 'Cut', message: 'whose shutdown was not completed' },
  ungraceful: {
    status: 'False',
    reason: 'Ungraceful',
    message: 'which ended without a shutdown: power cut, crash, reboot -f, or nodewarden was killed before it',
  },
  'not-watched': {
    status: 'Unknown',
    reason: 'NotWatched',
    message: 'whose end is not known: nodewarden had been stopped before',
  },
  unknown: {
    status: 'Unknown',
    reason: 'NotWatched',
    message: 'whose end is not known: the record does not say that nodewarden ran',
  },
};

/** Both boot ids are in it, for whoever has to know which boot it was (guard.md 9.3). */
export function sayBootEnd({ end, bootId }: BootEndSaid, now: string): NodeFact {
  const { message, ...rest } = ENDS[end];
  return { ...rest, message: `boot ${now} follows ${bootId}, ${message}` };
}

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

export const cordonStays = (why: string): string =>
  `the node keeps what the cancelled shutdown has set on it (cordon, taint) until an agent that acts runs again: ${why}`;
