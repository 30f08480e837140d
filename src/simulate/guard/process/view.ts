import type {
  AttachmentsByNode,
  ConditionView,
  ConsistentLook,
  LeaseView,
  MemberAsk,
  MemberView,
  NodeObject,
  NodeView,
  PodOnNode,
} from '../../../core/guard/observation.ts';
import { GUARD_ANNOTATIONS } from '../../../core/guard/observation.ts';
import { attachmentsByNode } from '../../../core/guard/worth.ts';
import { hexHashOf } from '../../../core/hash.ts';
import type { NodeName } from '../facts.ts';
import type * as stored from '../objects.ts';
import { RENEWALS } from '../scenario.ts';
import type { World } from '../world.ts';

/** How the objects of the virtual API server look to the guard's core. The same object stays the same view. */
const views = new WeakMap<stored.NodeObject, NodeObject>();

export function nodeObjectOf(node: stored.NodeObject): NodeObject {
  const known = views.get(node);
  if (known !== undefined) return known;
  const view: NodeObject = {
    name: node.name,
    uid: node.uid,
    key: keyOf(node.uid),
    bootId: node.bootId,
    systemUuid: '',
    created: '',
    isDeleting: false,
    isUnschedulable: node.isCordoned,
    labels: node.labels,
    annotations: Object.fromEntries(
      GUARD_ANNOTATIONS.flatMap((key) =>
        Object.hasOwn(node.annotations, key) ? [[key, node.annotations[key] ?? '']] : [],
      ),
    ),
    taints: node.taints,
    conditions: conditionsOf(node),
  };
  views.set(node, view);
  return view;
}

/** 16 hex digits of the uid, as the live one's SHA-256: only that they differ counts. */
export const keyOf = (uid: string): string => hexHashOf(uid) + hexHashOf(`${uid}/`);

function conditionsOf(node: stored.NodeObject): readonly ConditionView[] {
  const ready = { type: 'Ready', message: '', ...node.ready };
  const armed = {
    type: 'NodewardenShutdownArmed',
    status: 'True',
    reason: 'ShuttingDown',
    message: '',
    heartbeat: node.ready.heartbeat,
  };
  const fenced = {
    type: 'NodewardenFenced',
    status: 'True',
    reason: 'Fenced',
    message: '',
    heartbeat: node.fenced ?? '',
  };
  return [ready, ...(node.isShuttingDown ? [armed] : []), ...(node.fenced === null ? [] : [fenced])];
}

function leaseOf(renewed: string | null, everyMs: number): LeaseView | null {
  return renewed === null ? null : { renewed, durationMs: everyMs * RENEWALS };
}

/** `everyMs`: the time between two renewals of a lease. */
export function nodeViewsOf(
  cached: {
    readonly nodes: ReadonlyMap<NodeName, stored.NodeObject>;
    readonly renewTime: (node: NodeName) => string | null;
  },
  everyMs: number,
): readonly NodeView[] {
  const all: NodeView[] = [];
  for (const node of cached.nodes.values())
    all.push({ object: nodeObjectOf(node), lease: leaseOf(cached.renewTime(node.name), everyMs) });
  return all;
}

export function consistentLook(
  store: stored.Store,
  name: NodeName,
  renewTime: string | null,
  everyMs: number,
): ConsistentLook {
  const node = store.node(name);
  return {
    node: node === null ? null : nodeObjectOf(node),
    lease: leaseOf(renewTime, everyMs),
    resourceVersion: String(node?.version ?? 0),
  };
}

export function podsOn(store: stored.Store, node: NodeName): readonly PodOnNode[] {
  const attached = new Set(store.attachmentsOf(node).map(({ pod }) => pod));
  return store.podsOf(node).map((pod) => {
    const [namespace = '', name = ''] = pod.name.split('/');
    return {
      uid: pod.uid,
      namespace,
      name,
      priority: pod.priority,
      ownerKind: pod.statefulSet !== null ? 'StatefulSet' : pod.tolerates ? 'DaemonSet' : 'ReplicaSet',
      hasAttachedVolume: attached.has(pod.name),
      isTerminating: pod.isTerminating,
      isFinished: false,
      toleratesTaint: pod.tolerates,
      finalizers: pod.hasFinalizer ? ['example.com/keep'] : [],
    };
  });
}

/** Ready: its machine runs it. */
export function membersNamed({ store, machines }: World, { namespace, name }: MemberAsk): readonly MemberView[] {
  return store.podsNamed(`${namespace}/${name}`).map(({ uid, node }) => ({
    ...{ namespace, name, uid },
    isReady: machines.get(node)?.isRunning() === true && machines.get(node)?.processes.has(uid) === true,
  }));
}

export function attachmentsIn(store: stored.Store): AttachmentsByNode {
  const all = store.attachments();
  return attachmentsByNode(
    all.map(({ name, node }) => ({ name: `csi-${name}`, node, driver: 'csi.example.com', volume: name })),
  );
}
