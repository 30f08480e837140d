import type { MonoMs } from '../../core/reading.ts';
import type { NodeName, PodName } from './facts.ts';

/** What the virtual API server stores. Objects are replaced, never changed: what was read stays as it was. */
export type Taint = { readonly key: string; readonly value: string; readonly effect: 'NoSchedule' | 'NoExecute' };
export type NodeObject = {
  readonly name: NodeName;
  readonly uid: string;
  readonly version: number;
  readonly labels: { readonly [key: string]: string };
  readonly annotations: { readonly [key: string]: string };
  readonly taints: readonly Taint[];
  readonly isCordoned: boolean;
  readonly ready: {
    readonly status: 'True' | 'False' | 'Unknown';
    readonly reason: string;
    readonly heartbeat: string;
  };
  /** Its agent announced that it goes down. */
  readonly isShuttingDown: boolean;
  /** Its condition NodewardenFenced: since when it was set; null: there is none. */
  readonly fenced: string | null;
  readonly bootId: string;
};
/** Each Node object has one of its own, also if another one had its name before; `nth` counts from 1. */
export const uidOf = (name: NodeName, nth: number): string => `uid-${name}${nth === 1 ? '' : `~${nth}`}`;
export const nameOf = (uid: string): NodeName => uid.slice('uid-'.length).replace(/~\d+$/, '');
export type PodObject = {
  readonly name: PodName;
  readonly uid: string;
  readonly node: NodeName;
  /** Null: not of a StatefulSet, and nobody makes a successor of its name. */
  readonly statefulSet: string | null;
  readonly priority: number;
  readonly volumes: number;
  readonly detaches: boolean;
  readonly tolerates: boolean;
  readonly hasFinalizer: boolean;
  readonly isTerminating: boolean;
};
/** One volume of a pod attached to a node. */
export type Attachment = {
  readonly name: string;
  readonly pod: PodName;
  readonly node: NodeName;
  readonly detaches: boolean;
};

/** A ConfigMap or Lease of the guards: some value and its version, null where there is none. */
export type Stored = { readonly version: number; readonly value: unknown };

export type Store = {
  readonly nodes: ReadonlyMap<NodeName, NodeObject>;
  readonly node: (name: NodeName) => NodeObject | null;
  readonly putNode: (name: NodeName, change: Partial<NodeObject>) => void;
  readonly addNode: (node: NodeObject) => void;
  readonly deleteNode: (name: NodeName) => void;
  readonly podsOf: (node: NodeName) => readonly PodObject[];
  readonly podsNamed: (name: PodName) => readonly PodObject[];
  readonly putPod: (pod: PodObject) => void;
  readonly deletePod: (pod: PodObject) => void;
  readonly attachments: () => readonly Attachment[];
  readonly attachmentsOf: (node: NodeName) => readonly Attachment[];
  readonly attachmentsFor: (pod: PodName) => readonly Attachment[];
  readonly attach: (attachment: Attachment) => void;
  readonly detach: (attachment: Attachment) => void;
  /** Null: there is none. */
  readonly read: (name: string) => Stored | null;
  readonly names: () => readonly string[];
  /** `version` null: it must not exist. False: it was not as given, and nothing was written. */
  readonly write: (name: string, version: number | null, value: unknown) => boolean;
  readonly remove: (name: string) => void;
};

export function createStore(nodes: readonly NodeObject[]): Store {
  const nodeMap = new Map(nodes.map((node) => [node.name, node]));
  const podsByNode = createGroups<PodObject>(
    ({ node }) => node,
    ({ uid }) => uid,
  );
  const podsByName = createGroups<PodObject>(
    ({ name }) => name,
    ({ uid }) => uid,
  );
  const volumesByNode = createGroups<Attachment>(
    ({ node }) => node,
    ({ name }) => name,
  );
  const volumesByPod = createGroups<Attachment>(
    ({ pod }) => pod,
    ({ name, node }) => `${node} ${name}`,
  );
  const stored = new Map<string, Stored>();
  let version = 1;
  return {
    nodes: nodeMap,
    node: (name) => nodeMap.get(name) ?? null,
    putNode: (name, change) => {
      const node = nodeMap.get(name);
      version += 1;
      if (node !== undefined) nodeMap.set(name, { ...node, ...change, version });
    },
    addNode: (node) => {
      version += 1;
      nodeMap.set(node.name, { ...node, version });
    },
    deleteNode: (name) => void nodeMap.delete(name),
    podsOf: podsByNode.of,
    podsNamed: podsByName.of,
    putPod: (pod) => {
      podsByNode.put(pod);
      podsByName.put(pod);
    },
    deletePod: (pod) => {
      podsByNode.remove(pod);
      podsByName.remove(pod);
    },
    attachments: volumesByNode.all,
    attachmentsOf: volumesByNode.of,
    attachmentsFor: volumesByPod.of,
    attach: (attachment) => {
      volumesByNode.put(attachment);
      volumesByPod.put(attachment);
    },
    detach: (attachment) => {
      volumesByNode.remove(attachment);
      volumesByPod.remove(attachment);
    },
    read: (name) => stored.get(name) ?? null,
    names: () => [...stored.keys()],
    write: (name, seen, value) => {
      if ((stored.get(name)?.version ?? null) !== seen) return false;
      version += 1;
      stored.set(name, { version, value });
      return true;
    },
    remove: (name) => void stored.delete(name),
  };
}

/** Values found by a key that many may share; one of the same id is replaced. */
function createGroups<T>(keyOf: (value: T) => string, idOf: (value: T) => string) {
  const groups = new Map<string, readonly T[]>();
  const of = (key: string): readonly T[] => groups.get(key) ?? [];
  const without = (value: T): readonly T[] => of(keyOf(value)).filter((one) => idOf(one) !== idOf(value));
  return {
    of,
    all: (): readonly T[] => [...groups.values()].flat(),
    put: (value: T): void => void groups.set(keyOf(value), [...without(value), value]),
    remove: (value: T): void => void groups.set(keyOf(value), without(value)),
  };
}

/** When a kubelet renews its lease: at instants of its own, every period; computed when asked, not ticked. */
export type Renewals = {
  /** The last renewal at or before now. */
  readonly lastMs: (nowMs: MonoMs) => MonoMs;
  /** The first one after now; null while it cannot renew. */
  readonly nextMs: (nowMs: MonoMs) => MonoMs | null;
  readonly set: (isRenewing: boolean, nowMs: MonoMs) => void;
  readonly isRenewing: () => boolean;
};

export function createRenewals(phaseMs: number, everyMs: number): Renewals {
  let settledMs = phaseMs - everyMs;
  let sinceMs: MonoMs | null = 0;
  const lastMs = (nowMs: MonoMs): MonoMs => {
    if (sinceMs === null) return settledMs;
    const due = phaseMs + Math.floor((nowMs - phaseMs) / everyMs) * everyMs;
    return due >= sinceMs ? Math.max(due, settledMs) : settledMs;
  };
  return {
    lastMs,
    nextMs: (nowMs) => {
      if (sinceMs === null) return null;
      return phaseMs + (Math.floor((nowMs - phaseMs) / everyMs) + 1) * everyMs;
    },
    set: (isRenewing, nowMs) => {
      if (isRenewing === (sinceMs !== null)) return;
      settledMs = lastMs(nowMs);
      // A kubelet that can renew again does so at its next instant.
      sinceMs = isRenewing ? nowMs : null;
    },
    isRenewing: () => sinceMs !== null,
  };
}
