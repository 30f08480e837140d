import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { API_AWAY, API_REFUSED } from './finding-api.ts';
import { sayNames } from './phrases.ts';

/** What a person should know about a running guard. */

export function guardApiAway(why: string): Finding {
  return {
    id: API_AWAY,
    text: `the API server is away (${escapeUnsafe(why)}): nothing is fenced until it has been back for a while`,
  };
}
export function guardRefused(where: string): Finding {
  const text = `the API server does not accept the credentials of ${where} (401): nothing can be fenced`;
  return { id: API_REFUSED, text };
}

/** What is read of the cluster, and its finding. */
export const NODES_NOT_LISTED = { nodes: 'api-nodes', leases: 'api-leases', configmaps: 'api-configmaps' } as const;
export type ListedOfCluster = keyof typeof NODES_NOT_LISTED;
const RIGHT: { readonly [L in ListedOfCluster]: string } = {
  nodes: 'list and watch nodes',
  leases: 'list leases in kube-node-lease',
  configmaps: "list and watch configmaps in the guard's namespace",
};
export function nodesRefused(what: ListedOfCluster, status: number, detail: string): Finding {
  const why = status === 403 ? `the right to ${RIGHT[what]} is missing` : `${what} cannot be listed (${status})`;
  return { id: NODES_NOT_LISTED[what], text: `${why}: ${escapeUnsafe(detail)}; nothing is fenced` };
}

export const OWN_NODE = 'guard-own-node';
export function ownNodeUnclear(names: readonly string[]): Finding {
  const text = `several nodes have the boot id of this machine (${sayNames(names.map(escapeUnsafe), 5)}): name its own in NODE_NAME`;
  return { id: OWN_NODE, text };
}

export const NOT_LEADING = 'guard-not-leading';
export function leaseRefused(status: number, detail: string): Finding {
  const why =
    status === 403
      ? 'the right to get, create and update its lease is missing'
      : `its lease cannot be used (${status})`;
  return { id: NOT_LEADING, text: `${why}: ${escapeUnsafe(detail)}; this guard cannot lead` };
}
export const CONFIG_DIFFERS = 'guard-config-differs';
export function configDiffers(holder: string): Finding {
  const text = `the leader ${escapeUnsafe(holder)} has another configuration of devices or limits, so this guard does not run for leadership: give both the same`;
  return { id: CONFIG_DIFFERS, text };
}

export const RESTART_NEEDED = 'guard-restart-needed';
export function restartNeeded(fields: readonly string[]): Finding {
  return {
    id: RESTART_NEEDED,
    text: `${fields.join(', ')} of the configuration changed: restart the guard for that to take effect`,
  };
}

export const TAINTS_IN_DRY_RUN = 'guard-taints-in-dry-run';
export function taintsInDryRun(nodes: readonly string[]): Finding {
  const text = `the guard has set ${sayNames(nodes.map(escapeUnsafe), 5)} out of service, and a dry run neither watches nor ends that: load dryRun: false, or remove the taint before the machine is powered on`;
  return { id: TAINTS_IN_DRY_RUN, text };
}

export const NO_SOCKET = 'guard-socket';
export function noSocket(where: string, detail: string): Finding {
  return { id: NO_SOCKET, text: `${where}: ${detail}; guard status and guard explain cannot ask this guard` };
}

export function serverTooOld(version: string): Finding {
  const text = `the API server is ${escapeUnsafe(version)}, and only 1.26 and newer free the pods of a node that is out of service; if its feature gate NodeOutOfServiceVolumeDetach is on, say kubernetes.outOfService: assume. Without that, a guard that is armed does not run`;
  return { id: 'guard-server-too-old', text };
}
