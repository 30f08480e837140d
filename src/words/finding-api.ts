import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { counted, sayNames } from './phrases.ts';

/** About the API server, as mode kubelet reads it. */

export const API_AWAY = 'api-away';
/** `hasPods`: there is a last known state of the pods. */
export function apiAway(why: string, hasPods: boolean): Finding {
  const then = hasPods
    ? 'the last known state of the pods stays in force, and they are stopped only by their cgroups'
    : 'no earlier state of the pods is known, so they are found and stopped only by their cgroups';
  return { id: API_AWAY, text: `the API server is away (${escapeUnsafe(why)}): ${then}` };
}

export const API_CREDENTIALS = 'api-credentials';
/** `isInForce`: those that were read before still are. */
export function credentialsUnusable(where: string, detail: string, isInForce: boolean): Finding {
  const then = isInForce ? 'the previous ones stay in use' : 'the API server cannot be queried';
  return { id: API_CREDENTIALS, text: `${where} cannot be used for the API server (${detail}): ${then}` };
}

export const API_REFUSED = 'api-refused';
export function credentialsRefused(where: string): Finding {
  const text = `the API server does not accept the credentials of ${where} (401): pods are stopped only by their cgroups, and none for a soft threshold, since no disruption budget can be asked`;
  return { id: API_REFUSED, text };
}

export const API_CERTIFICATE = 'api-certificate';
export function certificateEnds(where: string, leftMs: number): Finding {
  const text =
    leftMs <= 0
      ? `the client certificate of ${where} has expired: the API server will refuse every request`
      : `the client certificate of ${where} expires in ${sayDuration(Math.round(leftMs / 60_000) * 60_000)}: renew it`;
  return { id: API_CERTIFICATE, text };
}

export const PODS_NOT_LISTED = 'api-pods';
export function podsRefused(status: number, detail: string): Finding {
  const what = status === 403 ? 'the right to list and watch pods is missing' : `pods cannot be listed (${status})`;
  return { id: PODS_NOT_LISTED, text: `${what}: ${escapeUnsafe(detail)}` };
}

export const PODS_UNREADABLE = 'api-pods-unreadable';
export function podsUnreadable(
  pods: readonly { readonly pod: string; readonly why: string; readonly isPart: boolean; readonly isKept: boolean }[],
): Finding {
  const said = pods.map(({ pod, why, isPart, isKept }) => {
    const part = 'this field counts as unknown: the pod gives way only to pods that are known to exceed their requests';
    const then = isPart ? part : isKept ? 'its last good version stays in force' : 'the pod is unknown';
    return `${escapeUnsafe(pod)} (${why}; ${then})`;
  });
  return { id: PODS_UNREADABLE, text: `${counted(pods.length, 'pod')} cannot be read: ${sayNames(said, 3)}` };
}

export const PODS_ANNOTATED = 'api-pods-annotated';
export function podsAnnotated(pods: readonly string[], protectNamespaces: readonly string[]): Finding {
  const but = protectNamespaces.length === 0 ? '' : `, but protect and evict-for in ${sayNames(protectNamespaces)}`;
  const text = `annotations of nodewarden.dev/ have no effect in mode kubelet${but}: ${sayNames(pods.map(escapeUnsafe))}`;
  return { id: PODS_ANNOTATED, text };
}

export const TOO_MANY_PODS = 'api-too-many-pods';
export function tooManyPods(leftOut: number): Finding {
  return { id: TOO_MANY_PODS, text: `too many pods on this node: ${counted(leftOut, 'pod')} left out` };
}

export const CHECKPOINT = 'api-checkpoint';
export function checkpointNotSaved(where: string, detail: string): Finding {
  const then = 'an agent that restarts without the API server would not know the pods';
  return { id: CHECKPOINT, text: `${where} cannot be written (${detail}): ${then}` };
}
const CHECKPOINT_UNUSABLE = 'api-checkpoint-corrupt';
export const checkpointUnusable = (complaint: string): Finding => ({ id: CHECKPOINT_UNUSABLE, text: complaint });
export function checkpointCut(pods: number): Finding {
  const text = `the checkpoint has no room for ${counted(pods, 'pod')}: an agent that restarts without the API server would not know them`;
  return { id: CHECKPOINT, text };
}
