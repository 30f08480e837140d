import { type MonoMs, type Reading, sumOf } from '../reading.ts';
import type { SignalFacts } from '../signal.ts';
import type { Quantity } from '../units/quantity.ts';
import type { EvictResource } from './evict-for.ts';

export type PodUid = string;
export type PodView = {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  /** Identifies its binding, because an edited manifest may give the same uid to another one. */
  readonly boundTo?: string;
  /** Identifies the cgroup whose usage this is: another one may have its path by now. Absent: not measured in one. */
  readonly cgroupInode?: number;
  /** Where that cgroup was when it was measured, below the mount. */
  readonly cgroupPath?: string;
  readonly qos: 'Guaranteed' | 'Burstable' | 'BestEffort';
  readonly priority: number;
  /** Effective, for the ranking; rounded up to whole bytes. */
  readonly requests: { readonly memoryBytes: number; readonly ephemeralStorageBytes: number };
  /** As written at pod level, for the message; null = none. */
  readonly podLevelMemoryRequest: Quantity | null;
  /** Effective, overhead included; null = no container has one (kubelet-eviction.md 5.7). */
  readonly ephemeralStorageLimit: Quantity | null;
  readonly containers: readonly ContainerView[];
  readonly volumes: readonly VolumeView[];
  readonly tolerations: readonly Toleration[];
  readonly terminationGraceSeconds: number;
  /** Its declaration has no grace period, so this is the API's default. Absent: it has one, even of the same length. */
  readonly isGraceDefault?: true;
  /** null: the source gives no start time; then age breaks no tie (D1). */
  readonly startedAtWallMs: number | null;
  readonly ownerKey: string | null;
  readonly isDaemonSet: boolean;
  readonly isStaticCritical: boolean;
  readonly isProtected: boolean;
  /** The resources for which it may be chosen (D7). Absent: all. */
  readonly evictFor?: readonly EvictResource[];
  readonly isTerminating: boolean;
  /** Deleted, but not by us: it still runs, and ranks as in the kubelet. Absent: not deleted, or we are stopping it. */
  readonly isDeletedByOthers?: true;
  /** Parts of its declaration that are missing or unreadable. Absent: everything is known. */
  readonly unsaid?: Unsaid;
  /** D13: why the mode excludes this pod; null = it does not. */
  readonly limitedBy: CandidateLimit | null;
  /** Standalone: it has no process until systemd starts it again. Only a disk counts it: its files stay. */
  readonly isBetweenRuns?: true;
  /** Only in a recorded scenario: it survived its stop, and nothing waited for it any more (D3). */
  readonly hasSurvived?: true;
  /** Only in a recorded scenario: its owner had lost too many pods (D6). */
  readonly isGuarded?: true;
  /** Absent: no pod with a higher priority is stopped with it. */
  readonly inherited?: Inherited;
  /** What is running and stops with it: pods as namespace/name, else units by name; absent: nothing known. */
  readonly takesAlong?: readonly string[];
  /** A pod that stops with it and must not go because this one is over a storage limit, as namespace/name; absent: none. */
  readonly limitSpares?: string;
  /**
   * What the service manager does to the machine if its stop triggers that: it is not evicted, and in a shutdown it is left to the
   * service manager. Absent: nothing known.
   */
  readonly endsMachine?: MachineAction;
  /** The pods that the service manager stops before it if it stops both; absent: none. */
  readonly stopsAfter?: readonly PodUid[];
  /** Units other than pods that the service manager stops before it if it stops both; absent: none. */
  readonly stopsAfterUnits?: readonly string[];
  /**
   * D14: what its end would free or save on the file system of the requested signal. Absent: the mode does not measure it, and
   * the kubelet's rule applies.
   */
  readonly diskRelief?: Reading<DiskRelief>;
  /** D17: it kept reaching its own memory limit while all its tasks stalled on memory. Absent: no, or unknown. */
  readonly isStalledByOwnLimit?: true;
  /**
   * Beside a kubelet: it stays bound to the node, so it is stopped only with the agent; `last`: in the last phase, whatever
   * its priority (beside-a-kubelet.md E12, E15). Absent: in the phase of its priority, however the machine goes down.
   */
  readonly leaves?: 'with-agent' | 'last';
  /** Further facts for a rehearsal of a shutdown; absent: none, or not provided by the mode. */
  readonly traits?: readonly PodTrait[];
  readonly usage: {
    readonly workingSetBytes: Reading<number>;
    /** Absent: the kernel does not report swap per cgroup. */
    readonly swapBytes?: Reading<number>;
    readonly processes: Reading<number>;
    /**
     * The process IDs that its end frees, including those of threads and unreaped processes. Absent: not read.
     */
    readonly pidsHeld?: Reading<number>;
    /** Those of its unreaped dead processes among them. 0: few. Absent: not read. */
    readonly deadHeld?: Reading<number>;
    readonly disk: Reading<DiskUsage>;
    /** What the pod's ephemeral-storage limit bounds (kubelet-eviction.md 5.8). */
    readonly ephemeralStorageBytes: Reading<number>;
    /** In the order of the statistics, which is the order in messages. Unknown = no statistics for this pod. */
    readonly containers: Reading<readonly ContainerUsage[]>;
    readonly volumes: Reading<readonly VolumeUsage[]>;
  };
};
/**
 * beside-a-kubelet.md E11, E16. `serves-to-the-end`: it serves, and no preStop hook keeps it running while traffic is routed
 * elsewhere.
 */
export type PodTrait = 'serves-to-the-end' | 'uses-volumes' | 'csi-plugin';
/**
 * beside-a-kubelet.md B16, B14, C9, F6 (i), in this order; then B1 and B11: its disruption budget refused its eviction
 * recently, or those of three other pods did. `unnamed`: neither the API server nor the
 * container runtime has said which pod it is; `looked-up`: the API server has just been asked for it by name.
 */
export type CandidateLimit =
  /** It is not known whether it has processes. */
  | 'maybe-empty'
  /** Standalone: another pod may exist whose manifest is not read yet. It goes only if it is known to be to blame. */
  | 'manifest-unread'
  | 'not-stoppable'
  /** Standalone: see `endsMachine`. */
  | 'ends-machine'
  | 'restart-guard'
  | 'unnamed'
  | 'looked-up'
  /** Beside a kubelet: its containers have ended for good, and the kubelet has some time to free what it holds (D3). */
  | 'finished'
  /** Beside a kubelet: so they may have, or one is started again: nobody has said how the last one has ended. */
  | 'maybe-finished'
  | 'kubelet-evicting'
  | 'budget-refused'
  | 'budgets-refuse';
/** More will soon be known about such a pod, and who is chosen depends on it. */
export const isAwaited = (limit: string | null | undefined): limit is 'unnamed' | 'looked-up' =>
  limit === 'unnamed' || limit === 'looked-up';
/** Beside a kubelet: the parts for which `priority` and `requests` must be ignored, whatever their values. */
export type Unsaid = {
  /** `undeclared`: the API server has not reported the pod at all (C9). */
  readonly why: 'undeclared' | 'unreadable';
  readonly priority: boolean;
  readonly requests: boolean;
};
/** As written; null = none. */
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
  /** Standalone: all of it is on the file system that was asked for, whatever kind that is. Absent: by the kubelet's kinds. */
  readonly isOfFileSystem?: true;
  /** The walk was cut short: every number here is a lower bound. */
  readonly isAtLeast?: true;
  /**
   * Not in the other numbers: files that other pods have, too, if it is not known whose they are. It may use up to this much
   * more. Absent: there are none.
   */
  readonly unattributedBytes?: number;
  readonly unattributedInodes?: number;
  /** When this was measured: walks of directories do not coincide with the look. */
  readonly sampledAtMs?: MonoMs;
};
/** For one file system. Inodes are unknown if they are not counted. */
export type Relief = { readonly bytes: Reading<number>; readonly inodes: Reading<number> };
export type DiskRelief = {
  /** What is emptied once the pod is proven dead. */
  readonly scratch: Relief;
  /** Deleted files that only its processes still hold open. */
  readonly deletedOpen: Relief;
  /** The measured growth of its declared directories during the last minute. */
  readonly grownLastMinute: Relief;
  /** How much more its end may free or save at most: in files of which it is not known whose they are. Absent: nothing. */
  readonly unattributed?: Relief;
  /** Not all that goes with it, or that it may have made, was measured: how much more its end frees or saves is not known. */
  readonly isAtLeast?: true;
  /** Writes to the device during the last 10 s, as attributed by the kernel (v2 `io.stat`). */
  readonly writtenBytes: Reading<number>;
};
/**
 * `what`: `FailureAction=reboot of web.service` and the like. `afterMs`: only if the stop takes that long; 0: however long it takes.
 */
export type MachineAction = { readonly what: string; readonly afterMs: number };
/** D16: among the pods that its stop also stops, the one with the highest priority above its own. */
export type Inherited = { readonly priority: number; readonly from: string };
export type Victim = Pick<
  PodView,
  | 'uid'
  | 'namespace'
  | 'name'
  | 'qos'
  | 'priority'
  | 'boundTo'
  | 'cgroupInode'
  | 'cgroupPath'
  | 'isBetweenRuns'
  | 'unsaid'
>;
/** Null: unknown. */
export const saidPriority = ({ priority, unsaid }: Pick<Victim, 'priority' | 'unsaid'>): number | null =>
  unsaid?.priority ? null : priority;
export type ProcessView = {
  readonly pid: number;
  readonly name: string;
  readonly rssBytes: number;
  /** When it started, in clock ticks since boot. Absent: not read. */
  readonly startTicks?: number;
};

/** What a ranking counts of a pod, except for disk usage, which has several figures. */
export function countedOf(usage: PodView['usage'], counts: Exclude<SignalFacts['counts'], 'disk'>): Reading<number> {
  if (counts !== 'memoryAndSwapBytes') return usage[counts];
  const { workingSetBytes, swapBytes } = usage;
  return swapBytes === undefined ? workingSetBytes : sumOf([workingSetBytes, swapBytes]);
}

/** Names the pods; any other one by its uid. Tenants choose the names: escape before printing. */
export function namesOf(pods: readonly Pick<PodView, 'uid' | 'namespace' | 'name'>[]): (uid: PodUid) => string {
  const names = new Map(pods.map((pod) => [pod.uid, podName(pod)]));
  return (uid) => names.get(uid) ?? uid;
}

/** The name of a pod for people and in files. */
export const podName = ({ namespace, name }: Pick<PodView, 'namespace' | 'name'>): string => `${namespace}/${name}`;

/** Whether we are stopping it: it is awaited and not chosen again (D3). */
export const isBeingStopped = ({ isTerminating, isDeletedByOthers }: PodView): boolean =>
  isTerminating && isDeletedByOthers !== true;
