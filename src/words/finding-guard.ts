import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { API_AWAY, API_REFUSED } from './finding-api.ts';
import { counted, sayNames, sayToSecond } from './phrases.ts';

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
/** `holder`: it may run, or have died. */
export function configDiffers(holder: string, runsAfterMs: number): Finding {
  const text = `the lease of the guards is that of ${escapeUnsafe(holder)}, with another configuration of devices or limits: this guard runs for leadership only once nobody has renewed it for ${sayDuration(runsAfterMs)}. Give all guards the same`;
  return { id: CONFIG_DIFFERS, text };
}

export const RESTART_NEEDED = 'guard-restart-needed';
export function restartNeeded(fields: readonly string[]): Finding {
  return {
    id: RESTART_NEEDED,
    text: `${fields.join(', ')} of the configuration changed: restart the guard for that to take effect`,
  };
}

export const DEVICES_FEWER = 'guard-devices-fewer';
export function devicesFewer(nodes: readonly string[], isDefaultLess: boolean): Finding {
  const names = [...(isDefaultLess ? ['every node that is not listed'] : []), ...nodes.map(escapeUnsafe)];
  return {
    id: DEVICES_FEWER,
    text: `by a reload of the configuration, a level names fewer devices for ${sayNames(names, 5)}: a machine may run on what it leaves out while it is proven off, so they are not fenced. Is the file complete? If so, restart the guard`,
  };
}

export const DEVICES_GONE = 'guard-devices-gone';
export function devicesGone(nodes: readonly string[]): Finding {
  const text = `since a reload of the configuration, no device is configured any more for ${sayNames(nodes.map(escapeUnsafe), 5)}: they are not fenced. Is the file complete? If so, this is said until their Nodes are deleted or the guard is restarted`;
  return { id: DEVICES_GONE, text };
}

export const TAINTS_IN_DRY_RUN = 'guard-taints-in-dry-run';
export function taintsInDryRun(nodes: readonly string[]): Finding {
  const text = `the guard has set ${sayNames(nodes.map(escapeUnsafe), 5)} out of service, and a dry run neither watches nor ends that: load dryRun: false, or remove the taint before the machine is powered on`;
  return { id: TAINTS_IN_DRY_RUN, text };
}

export const OFF_IN_DRY_RUN = 'guard-off-in-dry-run';
export function offInDryRun(nodes: readonly string[]): Finding {
  const text = `the guard has sent power off to ${sayNames(nodes.map(escapeUnsafe), 5)}, and a dry run powers nothing on again: load dryRun: false, or switch the machine on by hand`;
  return { id: OFF_IN_DRY_RUN, text };
}

export const TAINT_ON_LIVING = 'guard-taint-on-living';
export function taintOnLiving(nodes: readonly string[]): Finding {
  const text = `out of service by the guard, as last seen, though it shows life: ${sayNames(nodes.map(escapeUnsafe), 5)}. Kubernetes frees its pods and volumes while they may run. The guard that leads tries again and again to remove the taint, and its log says why it fails: mend that, or remove the taint by hand`;
  return { id: TAINT_ON_LIVING, text };
}

export const RECORD_AHEAD = 'guard-record-ahead';
/** `aheadMs`: the most of them. */
export function recordAhead(ids: readonly string[], aheadMs: number): Finding {
  const text = `times in the records of fencings (${sayNames(ids.map(escapeUnsafe), 5)}) are up to ${sayToSecond(aheadMs)} ahead of this machine's clock: it is slow, or that of the guard that wrote them was fast. For the limits per hour and day they count from when this guard first read them`;
  return { id: RECORD_AHEAD, text };
}

export const DEVICES_LEFT_OUT = 'guard-devices-left-out';
export function devicesLeftOut(count: number): Finding {
  const text = `guard-devices has no place for ${counted(count, 'device')}: a leader after this one does not know what they said, nor that they were rehearsed`;
  return { id: DEVICES_LEFT_OUT, text };
}

export const notKeptId = (map: string): string => `guard-not-kept/${map}`;
/** `said`: by the API server. */
export function notKept(map: string, said: string): Finding {
  const what =
    map === 'guard-state'
      ? 'of a pause, nor of the storms that are open'
      : 'what devices said, nor that they were rehearsed';
  const text = `the ConfigMap ${map} cannot be stored (${escapeUnsafe(said)}): a leader after this one does not know ${what}`;
  return { id: notKeptId(map), text };
}

export const NOT_STORED = 'guard-not-stored';
/** `why`: as the API server says. */
export function notStored(records: readonly { readonly node: string; readonly why: string }[]): Finding {
  const nodes = records.map(({ node }) => escapeUnsafe(node));
  const text = `records of fencings are not known to be stored (${escapeUnsafe(records[0]?.why ?? '')}): those of ${sayNames(nodes, 5)} go no further until they are`;
  return { id: NOT_STORED, text };
}

export const NO_SOCKET = 'guard-socket';
export function noSocket(where: string, detail: string): Finding {
  return { id: NO_SOCKET, text: `${where}: ${detail}; guard status and guard explain cannot ask this guard` };
}

export function serverTooOld(version: string): Finding {
  const text = `the API server is ${escapeUnsafe(version)}, and only 1.26 and newer free the pods of a node that is out of service; if its feature gate NodeOutOfServiceVolumeDetach is on, say kubernetes.outOfService: assume. Without that, a guard that is armed does not run`;
  return { id: 'guard-server-too-old', text };
}
