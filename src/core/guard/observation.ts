import type { MonoMs, Reading } from '../reading.ts';
import type { MethodKey } from './config.ts';
import type { DecisionId, FencingId, KeptDevice, KeptState, NodeRef, PowerState, StoredRecord } from './record.ts';

/** A fact and when the request that brought it was *sent*: it is at least this old. */
export type Dated<T> = { readonly value: T; readonly asOfMs: MonoMs };

/**
 * Everything that the guard's core may know about the world at one instant. Nothing in it is a time of another machine:
 * signs of life are tokens, which are compared and never read (G7). `wallMs` only serves the limits per hour and day, and
 * display.
 */
export type GuardObservation = {
  readonly atMs: MonoMs;
  /** The own wall clock, in milliseconds since 1970. */
  readonly wallMs: number;
  readonly self: SelfView;
  /**
   * All nodes as last listed and watched, with the leases as last listed. Once known it stays what was last read: that it
   * grows old shows in `asOfMs`, which is that of the last *answered* list of leases.
   */
  readonly nodes: Reading<Dated<readonly NodeView[]>>;
  /** All fencing records, closed ones included, as the API has them. Unknown: nothing new is begun (G6). */
  readonly records: Reading<readonly StoredRecord[]>;
  /**
   * What earlier leaders kept in `guard-devices` and `guard-state`, as read *since* this process was elected; a missing
   * ConfigMap is an empty list. Adopted once for each election. Unknown: nothing new is begun.
   */
  readonly kept: Reading<{ readonly devices: readonly KeptDevice[]; readonly state: KeptState }>;
  /** By node uid: what the last verdict asked for (`NextGuardLook`), as far as it is known. */
  readonly asked: ReadonlyMap<string, AskedView>;
  /** Of all nodes. Not asked: `unknown('not-asked', ...)`. */
  readonly attachments: Reading<Dated<AttachmentsByNode>>;
  /** New since the last look, each once, in the order in which they ended. */
  readonly answers: readonly DeviceAnswer[];
  /** New since the last look, each once. */
  readonly outcomes: readonly GuardOutcome[];
  /** Not yet answered, as `guard-orders` has them: the same order again at every look until its answer is stored. */
  readonly orders: readonly Order[];
};

export type SelfView = {
  /** Random, another one for each process, also after a restart. */
  readonly writer: string;
  /** The name of the node this process runs on; null: outside the cluster, or not known. */
  readonly node: string | null;
  /** What `stepLeadership` says. */
  readonly leadership: LeadershipView;
  /** When the last successful own write (a renewal of the lease proves it) was sent; null: none yet. */
  readonly lastWriteMs: MonoMs | null;
  /** `/proc/uptime`, which goes on while the machine sleeps. */
  readonly uptimeMs: number;
};

/** `epoch`: the lease's `leaseTransitions`. Authority ends at `authorityUntilMs` by the own clock, whatever the lease says. */
export type LeadershipView =
  | {
      readonly isLeader: false;
      /** Nobody leads, and this one runs for leadership only then; absent: it is not known, or somebody else does. */
      readonly runs?: { readonly why: HeldBack; readonly fromMs: MonoMs };
    }
  | { readonly isLeader: true; readonly epoch: number; readonly sinceMs: MonoMs; readonly authorityUntilMs: MonoMs };
export type HeldBack = 'config-differs' | 'resigned';

/** A Node object, reduced, and its Lease. Keep the same `object` as long as its resourceVersion is the same. */
export type NodeView = {
  readonly object: NodeObject;
  /** Null: the list of leases has none for it. */
  readonly lease: LeaseView | null;
};

export type NodeObject = {
  readonly name: string;
  readonly uid: string;
  /** The first 16 hex digits of the uid's SHA-256: fencing ids are made of it. */
  readonly key: string;
  /** `status.nodeInfo.bootID`; '' if it says none. */
  readonly bootId: string;
  /** `status.nodeInfo.systemUUID`, which stays when a machine is installed anew; '' if it says none. */
  readonly systemUuid: string;
  /** `metadata.creationTimestamp`, as written, in UTC; '' if there is none. */
  readonly created: string;
  readonly isDeleting: boolean;
  readonly isUnschedulable: boolean;
  readonly labels: { readonly [key: string]: string };
  /** Only those of `GUARD_ANNOTATIONS`. */
  readonly annotations: { readonly [key: string]: string };
  readonly taints: readonly Taint[];
  /** `Ready` and those that begin with `Nodewarden`. */
  readonly conditions: readonly ConditionView[];
};

export type Taint = { readonly key: string; readonly value: string; readonly effect: string };

export type ConditionView = {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  /** `lastHeartbeatTime` as written; a token. */
  readonly heartbeat: string;
};

export type LeaseView = {
  /** `renewTime` as written; a token. Null: it has none, and the node has no age. */
  readonly renewed: string | null;
  readonly durationMs: number;
};

/** What is asked of suspects only. Each stays what was last read, with its time. */
export type AskedView = {
  readonly witness: Reading<Dated<Witness>>;
  readonly pods: Reading<Dated<readonly PodOnNode[]>>;
  readonly look: Reading<Dated<ConsistentLook>>;
  /** Pods that have the names of its members, wherever they are. */
  readonly members: Reading<Dated<readonly MemberView[]>>;
};

/** A member of a StatefulSet, by which its successor is found. */
export type MemberAsk = Pick<PodOnNode, 'namespace' | 'name'>;
export type MemberView = MemberAsk & { readonly uid: string; readonly isReady: boolean };

/** The TLS handshake with the kubelet's port. `refused`: the machine runs, its kubelet does not. */
export type Witness = 'answers' | 'refused' | 'silent';

/** GET of Lease and Node without a resourceVersion. `node` null: the Node does not exist. */
export type ConsistentLook = {
  readonly node: NodeObject | null;
  readonly lease: LeaseView | null;
  /** Of the Node: what a locked patch carries. */
  readonly resourceVersion: string;
};

export type PodOnNode = {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly priority: number;
  /** Kind of its controller, as `StatefulSet`; '' if it has none. */
  readonly ownerKind: string;
  readonly hasAttachedVolume: boolean;
  readonly isTerminating: boolean;
  /** Phase Succeeded or Failed. */
  readonly isFinished: boolean;
  /** Tolerates `node.kubernetes.io/out-of-service:NoExecute`. */
  readonly toleratesTaint: boolean;
  readonly finalizers: readonly string[];
};

export type Attachment = {
  readonly name: string;
  readonly node: string;
  readonly driver: string;
  readonly volume: string;
};

/** By name of the node; one without any is not in it. */
export type AttachmentsByNode = ReadonlyMap<string, readonly Attachment[]>;

/** What a device said to one `status`. `unknown`: it did not say on or off in time, for the reason in `detail`. */
export type DeviceAnswer = {
  /** The node's uid. */
  readonly node: string;
  readonly method: MethodKey;
  readonly says: PowerState | 'unknown';
  readonly begunMs: MonoMs;
  readonly endedMs: MonoMs;
  readonly detail: string;
};

/**
 * How a decision with a store ended: exactly one for each, after its act is over as well. `stored`: the record's new
 * resourceVersion. `conflict`: somebody else wrote it (or, for a new one, it exists; or, for an answer, the order was taken
 * back): nothing was done. `failed`: it is not known whether it was stored; nothing was done.
 */
export type GuardOutcome = {
  readonly of: DecisionId;
  /** Null for a decision without a record. */
  readonly fencing: FencingId | null;
  readonly atMs: MonoMs;
  readonly store:
    | { readonly kind: 'stored'; readonly version: string }
    | { readonly kind: 'conflict' | 'failed' }
    | null;
  readonly act: ActResult | null;
};

export type ActResult =
  /** Off or on: what each agent's run said, which proves nothing. */
  | { readonly kind: 'ran'; readonly runs: readonly AgentRun[] }
  /** A patch that the API took. */
  | { readonly kind: 'patched' }
  /** A patch that the API did not take, or not known to have been taken. */
  | { readonly kind: 'failed'; readonly why: 'conflict' | 'gone' | 'error'; readonly detail: string }
  /** Authority ended before it was begun: no command was started and nothing was sent. */
  | { readonly kind: 'not-begun'; readonly detail: string };

export type AgentRun = {
  readonly method: MethodKey;
  /** Exit status 0. */
  readonly isOk: boolean;
  readonly begunMs: MonoMs;
  readonly endedMs: MonoMs;
  readonly detail: string;
};

/** What a person asks for (guard.md section 3). `to`: the lease holder it was written for; another one refuses it as stale. */
export type Order = {
  readonly id: string;
  readonly to: string;
  readonly by: string;
  readonly because: string;
} & (
  | { readonly verb: 'pause' | 'resume' }
  | { readonly verb: 'release'; readonly scope: ReleaseScope; readonly forMs: number }
  | { readonly verb: 'fence' | 'power-on' | 'rehearse'; readonly node: Pick<NodeRef, 'name' | 'uid'> }
  | {
      readonly verb: 'confirm-off';
      readonly node: Pick<NodeRef, 'name' | 'uid'>;
      readonly checked: string;
      readonly isDeviceWrong: boolean;
    }
  /** A verb that this version does not know. */
  | { readonly verb: 'unknown'; readonly said: string }
);
export type ReleaseScope =
  | { readonly kind: 'cluster' }
  | { readonly kind: 'domain'; readonly label: string; readonly value: string }
  | { readonly kind: 'node'; readonly name: string };

/** The annotations of a Node that have a meaning here; a NodeObject holds no others. */
export const GUARD_ANNOTATIONS = [
  'nodewarden.dev/guard',
  'weave.works/kured-reboot-in-progress',
  'cluster.x-k8s.io/machine',
] as const;
