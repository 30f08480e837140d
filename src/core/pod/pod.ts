import { type MonoMs, type Reading, sumOf } from '../reading.ts';
import type { SignalFacts } from '../signal.ts';
import type { Quantity } from '../units/quantity.ts';
import type { EvictResource } from './evict-for.ts';

export type PodUid = string;
export type PodView = {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  /** Whose processes are its own, where another place may come under the same uid: a manifest that is edited. */
  readonly boundTo?: string;
  readonly qos: 'Guaranteed' | 'Burstable' | 'BestEffort';
  readonly priority: number;
  /** Effective, for the ranking; rounded up to whole bytes. */
  readonly requests: { readonly memoryBytes: number; readonly ephemeralStorageBytes: number };
  /** As written at pod level, for the message; null = none named. */
  readonly podLevelMemoryRequest: Quantity | null;
  /** Effective, overhead included; null = no container has one (kubelet-eviction.md 5.7). */
  readonly ephemeralStorageLimit: Quantity | null;
  readonly containers: readonly ContainerView[];
  readonly volumes: readonly VolumeView[];
  readonly tolerations: readonly Toleration[];
  readonly terminationGraceSeconds: number;
  /** null: the source names no start; then age decides no tie (D1). */
  readonly startedAtWallMs: number | null;
  readonly ownerKey: string | null;
  readonly isDaemonSet: boolean;
  readonly isStaticCritical: boolean;
  readonly isProtected: boolean;
  /** The resources for which it may be chosen (D7). Absent: all. */
  readonly evictFor?: readonly EvictResource[];
  readonly isTerminating: boolean;
  /** It was deleted, and not by us: it still runs, and ranks as the kubelet ranks it. Absent: not, or we stop it. */
  readonly isDeletedByOthers?: true;
  /** What nobody has said of it, or not so that it can be read. Absent: all is known. */
  readonly unsaid?: Unsaid;
  /** D13: what the mode knows against choosing this pod; null = nothing. */
  readonly limitedBy: CandidateLimit | null;
  /** Absent: no pod of a higher priority is stopped with it. */
  readonly inherited?: Inherited;
  /** What runs and stops with it: pods as namespace/name, else units by name; absent: nothing that is known. */
  readonly takesAlong?: readonly string[];
  /** The pods that the service manager stops before it where it stops both; absent: none. */
  readonly stopsAfter?: readonly PodUid[];
  /** Units that are no pods and that the service manager stops before it where it stops both; absent: none. */
  readonly stopsAfterUnits?: readonly string[];
  /**
   * D14: what its end would free or save on the file system of the signal that was asked for. Absent: the mode does not
   * measure it, and the kubelet's rule holds.
   */
  readonly diskRelief?: Reading<DiskRelief>;
  /** D17: it reached its own memory limit again and again while all its tasks stalled on memory. Absent: not, or not known. */
  readonly isStalledByOwnLimit?: true;
  /**
   * Beside a kubelet: it stays bound to the node, so it is stopped with the agent alone; `last`: in the last phase,
   * whatever its priority (beside-a-kubelet.md E12, E15). Absent: in the phase of its priority, whichever way the
   * machine goes down.
   */
  readonly leaves?: 'with-agent' | 'last';
  /** What a rehearsal of a shutdown has to know of it besides; absent: nothing, or the mode does not tell. */
  readonly traits?: readonly PodTrait[];
  readonly usage: {
    readonly workingSetBytes: Reading<number>;
    /** Absent: the kernel does not say whose swap it is. */
    readonly swapBytes?: Reading<number>;
    readonly processes: Reading<number>;
    /**
     * What its end gives back of the process ids: its threads too, and its unreaped dead processes. Absent: not read.
     */
    readonly pidsHeld?: Reading<number>;
    readonly disk: Reading<DiskUsage>;
    /** What the pod's ephemeral-storage limit bounds (kubelet-eviction.md 5.8). */
    readonly ephemeralStorageBytes: Reading<number>;
    /** In the order of the statistics, which is the order in messages. Unknown = no statistics for this pod. */
    readonly containers: Reading<readonly ContainerUsage[]>;
    readonly volumes: Reading<readonly VolumeUsage[]>;
  };
};
/**
 * beside-a-kubelet.md E11, E16. `serves-to-the-end`: it serves, and no preStop hook keeps it up while others turn away from
 * it.
 */
export type PodTrait = 'serves-to-the-end' | 'uses-volumes' | 'csi-plugin';
/**
 * beside-a-kubelet.md B14, B16, C9, F6 (i), in this order; then B1 and B11: its disruption budget has refused its
 * eviction, or those of three pods have, a moment ago. In standalone there is none.
 */
export type CandidateLimit =
  | 'restart-guard'
  | 'not-stoppable'
  | 'declaration-unknown'
  | 'kubelet-evicting'
  | 'budget-refused'
  | 'budgets-refuse';
/** Beside a kubelet: of these `priority` and `requests` say nothing, whatever stands there. */
export type Unsaid = {
  /** `undeclared`: the API server has not told of the pod at all (C9). */
  readonly why: 'undeclared' | 'unreadable';
  readonly priority: boolean;
  readonly requests: boolean;
};
/** As written; null = none named. */
export type Amounts = { readonly memory: Quantity | null; readonly ephemeralStorage: Quantity | null };
export type ContainerView = {
  readonly name: string;
  readonly kind: 'app' | 'init' | 'sidecar';
  readonly requests: Amounts;
  readonly limits: Amounts;
};
export type ContainerUsage = {
  readonly name: string;
  readonly workingSetBytes: Reading<number>;
  readonly logsBytes: Reading<number>;
  readonly rootfsBytes: Reading<number>;
};
/** An emptyDir; a sizeLimit of null or 0 limits nothing. */
type VolumeView = { readonly name: string; readonly sizeLimit: Quantity | null };
export type VolumeUsage = { readonly name: string; readonly usedBytes: Reading<number> };
/** The API's spellings; an absent field is ''. For admission. */
export type Toleration = {
  readonly key: string;
  readonly operator: string;
  readonly value: string;
  readonly effect: string;
};
export type DiskUsage = {
  readonly logsBytes: number;
  readonly rootfsBytes: number;
  readonly volumesBytes: number;
  readonly logsInodes: number;
  readonly rootfsInodes: number;
  readonly volumesInodes: number;
  /** The walk was cut short: every number here is a lower bound. */
  readonly isAtLeast?: true;
  /** When this was measured; walked directories are not of the same moment as the look. */
  readonly sampledAtMs?: MonoMs;
};
/** Of one file system. Inodes are unknown where they are not counted. */
export type Relief = { readonly bytes: Reading<number>; readonly inodes: Reading<number> };
export type DiskRelief = {
  /** What is emptied once the pod is proven dead. */
  readonly scratch: Relief;
  /** Deleted files that only its processes still hold open. */
  readonly deletedOpen: Relief;
  /** Of its declared directories, measured, during the last minute. */
  readonly grownLastMinute: Relief;
  /** To the device, during the last 10 s, as the kernel attributes them (v2 `io.stat`). */
  readonly writtenBytes: Reading<number>;
};
/** D16: of the pods that this pod's stop also stops, the one with the highest priority above its own. */
export type Inherited = { readonly priority: number; readonly from: string };
export type Victim = Pick<PodView, 'uid' | 'namespace' | 'name' | 'qos' | 'priority' | 'boundTo' | 'unsaid'>;
export type ProcessView = { readonly pid: number; readonly name: string; readonly rssBytes: number };

/** What a ranking counts of a pod, but of its disk, which has several figures. */
export function countedOf(usage: PodView['usage'], counts: Exclude<SignalFacts['counts'], 'disk'>): Reading<number> {
  if (counts !== 'memoryAndSwapBytes') return usage[counts];
  const { workingSetBytes, swapBytes } = usage;
  return swapBytes === undefined ? workingSetBytes : sumOf([workingSetBytes, swapBytes]);
}

/** The names of these pods; another one by its uid. Names are as tenants chose them: escape before printing. */
export function namesOf(pods: readonly Pick<PodView, 'uid' | 'namespace' | 'name'>[]): (uid: PodUid) => string {
  const names = new Map(pods.map((pod) => [pod.uid, podName(pod)]));
  return (uid) => names.get(uid) ?? uid;
}

/** How a pod is named to people, and in files. */
export const podName = ({ namespace, name }: Pick<PodView, 'namespace' | 'name'>): string => `${namespace}/${name}`;

/** We are stopping it: it is waited for, and not chosen again (D3). */
export const isBeingStopped = ({ isTerminating, isDeletedByOthers }: PodView): boolean =>
  isTerminating && isDeletedByOthers !== true;
