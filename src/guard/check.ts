import type { GuardEffective } from '../config/guard/effective.ts';
import { methodFor } from '../config/guard/method.ts';
import { type GuardConfig, keysOf, type MethodKey, meets, planOf } from '../core/guard/config.ts';
import { factsOf } from '../core/guard/node-facts.ts';
import type { NodeObject } from '../core/guard/observation.ts';
import type { KeptDevice, PowerState } from '../core/guard/record.ts';
import { ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import type { ApiGet, GuardSend } from '../kube/api/connection.ts';
import { listObjects, pathWith } from '../kube/api/object-list.ts';
import {
  type CheckFinding,
  deviceFindings,
  keptUnknown,
  listedButAbsent,
  nodesUnlisted,
  noMethod,
  noSuchNode,
  notAnswered,
  rightFindings,
  taintUnsupported,
} from '../words/guard-check.ts';
import type { Agents } from './agents.ts';
import { GUARD_DEVICES, readDevices } from './kept.ts';
import { readOwnMap } from './own-map.ts';
import { readNode } from './read-node.ts';
import { reviewGuardRights } from './rights.ts';
import { freesOutOfService } from './taint-support.ts';

/** One device of one node, asked for its status. */
export type CheckedDevice = {
  readonly node: string;
  /** From 1; null: isolation. */
  readonly level: number | null;
  readonly method: MethodKey;
  readonly agent: string;
  readonly says: PowerState | 'unknown';
  /** Why it is unknown; '' if it is not. */
  readonly detail: string;
  readonly tookMs: number;
  /** Programs that had a secret of it among their arguments. */
  readonly exposedTo: readonly string[];
  readonly isNodeReady: boolean;
  /** What the guard remembers of it; null: nothing, or not known. */
  readonly rehearsedWallMs: number | null;
  readonly contradicted: KeptDevice['contradicted'];
};
export type GuardCheck = {
  readonly devices: readonly CheckedDevice[];
  /** Whether it is known what the guard remembers of them. */
  readonly isKeptKnown: boolean;
  readonly findings: readonly CheckFinding[];
};

export type CheckNeeds = {
  readonly api: { readonly get: ApiGet; readonly send: GuardSend };
  readonly agents: Pick<Agents, 'exposure'>;
  readonly effective: GuardEffective;
  /** Of these nodes alone; empty: of all that may be fenced. */
  readonly only: readonly string[];
};

const LIST_MS = 20_000;
/** Far fewer than the runs of agents that may wait. */
const NODES_AT_ONCE = 50;

/** The configuration against the live cluster and its devices. Nothing is changed anywhere. Never rejects. */
export async function checkGuard({ api, agents, effective, only }: CheckNeeds): Promise<GuardCheck> {
  const { core, kubernetes } = effective;
  const server = await freesOutOfService(api.get);
  // One that does not say its version has answered.
  if (!server.known && server.why !== 'malformed')
    return { devices: [], isKeptKnown: false, findings: [notAnswered(kubernetes.kubeconfig, server.detail)] };
  const listed = await listNodes(api.get);
  const rights = await reviewGuardRights(api.send, kubernetes.namespace);
  const findings = [
    ...((server.known && server.value.frees) || kubernetes.outOfService === 'assume'
      ? []
      : [taintUnsupported(server.known ? server.value.version : null)]),
    ...rightFindings(rights, core.dryRun),
    ...(typeof listed === 'string' ? [nodesUnlisted(listed)] : []),
  ];
  const nodes = typeof listed === 'string' ? [] : listed;
  const wanted = nodes.filter((node) => (only.length === 0 ? isSelected(node, core) : only.includes(node.name)));
  const names = new Set(nodes.map(({ name }) => name));
  const kept = await keptDevices(api.get, kubernetes.namespace);
  const devices: CheckedDevice[] = [];
  for (let at = 0; at < wanted.length; at += NODES_AT_ONCE) {
    const some = wanted.slice(at, at + NODES_AT_ONCE);
    devices.push(...(await Promise.all(some.map((node) => devicesOf(node, effective, agents, kept)))).flat());
  }
  return {
    ...{ devices, isKeptKnown: kept.known },
    findings: [
      ...findings,
      ...only.filter((name) => !names.has(name)).map(noSuchNode),
      ...(typeof listed === 'string' || only.length > 0 ? [] : listedButAbsent(absentIn(core, names))),
      ...noMethod(wanted.filter(({ name }) => planOf(core, name) === null).map(({ name }) => name)),
      ...(kept.known ? [] : [keptUnknown(kept.detail)]),
      ...deviceFindings(devices),
    ],
  };
}

async function listNodes(get: ApiGet): Promise<readonly NodeObject[] | string> {
  const listed = await listObjects(get, pathWith('/api/v1/nodes'), '', LIST_MS, readNode, () => Promise.resolve());
  if (!listed.ok) return listed.detail;
  return listed.objects.flatMap((node) => (node === null ? [] : [node.object]));
}

const isSelected = (node: NodeObject, { nodes, controlPlane }: GuardConfig): boolean =>
  meets(node.labels, nodes) && !(controlPlane === 'never' && factsOf(node).isControlPlane);

const absentIn = ({ plans }: GuardConfig, names: ReadonlySet<string>): readonly string[] =>
  Object.keys(plans).filter((name) => !names.has(name));

/** By node uid and method. */
async function keptDevices(get: ApiGet, namespace: string): Promise<Reading<ReadonlyMap<string, KeptDevice>>> {
  const map = await readOwnMap({ get, namespace }, GUARD_DEVICES);
  if (map.kind !== 'read') return unknown('unreadable', GUARD_DEVICES, map.detail);
  return ifKnown(readDevices(map.version === null ? null : map), (devices) =>
    known(new Map(devices.map((device) => [`${device.node} ${device.method}`, device]))),
  );
}

async function devicesOf(
  node: NodeObject,
  { core, methods }: GuardEffective,
  agents: CheckNeeds['agents'],
  kept: Awaited<ReturnType<typeof keptDevices>>,
): Promise<readonly CheckedDevice[]> {
  const plan = planOf(core, node.name);
  if (plan === null) return [];
  const asked = keysOf(plan).map(async (key): Promise<CheckedDevice | null> => {
    const method = methodFor(methods, node, key);
    if (method === null) return null;
    const { power, exposed, begunMs, endedMs } = await agents.exposure(method);
    const level = plan.levels.findIndex((keys) => keys.includes(key));
    const remembered = kept.known ? kept.value.get(`${node.uid} ${key}`) : undefined;
    const { rehearsedWallMs = null, contradicted = null } = remembered ?? {};
    return {
      ...{ node: node.name, level: level === -1 ? null : level + 1, method: key, agent: method.agent },
      ...(power.known ? { says: power.value, detail: '' } : { says: 'unknown' as const, detail: power.detail }),
      ...{ tookMs: endedMs - begunMs, exposedTo: exposed, isNodeReady: factsOf(node).isReady },
      ...{ rehearsedWallMs, contradicted },
    };
  });
  return (await Promise.all(asked)).filter((device) => device !== null);
}
