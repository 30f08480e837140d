import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { counted } from './phrases.ts';

/** What cannot be said to the API server, and what follows from it. */

/** One right of beside-a-kubelet.md G3, as RBAC names it: `patch nodes/status`. */
export type ApiRight =
  | 'get nodes'
  | 'patch nodes'
  | 'patch nodes/status'
  | 'delete pods'
  | 'create pods/eviction'
  | 'patch pods/status'
  | 'create events'
  | 'patch events';

const WITHOUT: { readonly [R in ApiRight]: string } = {
  'get nodes':
    'nothing can be written to the API, since nothing proves that the node of this name is this machine, and no pod is evicted for a soft threshold',
  'patch nodes': 'no taint and no cordon keeps new pods away',
  'patch nodes/status': 'the node shows no conditions of this agent',
  'delete pods': 'pods are killed, but the kubelet restarts them',
  'create pods/eviction': 'soft evictions cannot respect PodDisruptionBudgets',
  'patch pods/status': 'Jobs do not recognise an eviction as a disruption',
  'create events': 'events are only in the log',
  'patch events': 'repeated events are not counted',
};

export const API_RIGHTS = Object.keys(WITHOUT) as readonly ApiRight[];

export const rightId = (right: ApiRight): string => `api-right/${right}`;
/** C3: no outage. `said`: by the server. */
export function rightMissing(right: ApiRight, said: string): Finding {
  const file = right.includes('nodes') ? 'rbac-per-node.yaml' : 'rbac.yaml';
  const text = `the API server does not allow this agent to ${right} (${said}): ${WITHOUT[right]}; see /usr/share/nodewarden/kubernetes/${file}`;
  return { id: rightId(right), text };
}
/** The right may be there: a webhook, a policy or a proxy denies what it is for. */
export function writeDenied(right: ApiRight, said: string): Finding {
  return { id: rightId(right), text: `the API server denies this agent to ${right} (${said}): ${WITHOUT[right]}` };
}

export const EVICTIONS_UNKNOWN = 'api-evictions';
export function evictionsUnknown(why: string): Finding {
  const then = 'no disruption budget can be asked, so no pod is evicted for a soft threshold';
  return {
    id: EVICTIONS_UNKNOWN,
    text: `the API server does not say how it takes evictions (${escapeUnsafe(why)}): ${then}`,
  };
}

export const NOT_OUR_NODE = 'not-our-node';
export function notOurNode(why: string): Finding {
  const then = 'check kubernetes.nodeName, unless the kubelet has not reported yet in this boot';
  return { id: NOT_OUR_NODE, text: `nothing is written to the API: ${why}; ${then}` };
}

export const SPOOL = 'spool';
export function spoolNotSaved(where: string, detail: string): Finding {
  const text = `${where} cannot be written (${detail}): what waits for the API would be lost with this process`;
  return { id: SPOOL, text };
}
export function spoolDamaged(path: string, bad: number, kept: string): Finding {
  const lines = counted(bad, 'line');
  return {
    id: 'spool-corrupt',
    text: `${path} has ${lines} that cannot be used and ${kept}; the intact lines stay in use`,
  };
}
export const SPOOL_OTHER_NODE = 'spool-other-node';
export function spoolOfAnotherNode(events: number): Finding {
  const text = `${counted(events, 'event')} about an earlier Node object of this machine dropped: the API server has another one, since the node was made anew or kubernetes.kubeconfig names another cluster`;
  return { id: SPOOL_OTHER_NODE, text };
}
export function spoolFull(dropped: number, most: number): Finding {
  const lost = `${counted(dropped, 'message')} dropped, the oldest events first`;
  const text = `more than ${most} messages wait for the API server: ${lost}`;
  return { id: 'spool-full', text };
}
