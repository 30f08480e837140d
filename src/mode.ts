import type { DecisionId } from './core/decision.ts';
import type { RuntimePaths } from './core/disk-paths.ts';
import type { Unconfirmed } from './core/observation.ts';
import type { OomScore } from './core/pod/oom-score.ts';
import type { PodUid } from './core/pod/pod.ts';
import type { Reading } from './core/reading.ts';
import type { NodeCondition } from './core/signal.ts';
import type { CgroupMounts } from './host/cgroup/cgroup-mounts.ts';
import type { Systemd } from './host/systemd/systemd.ts';
import type { CommandRunner } from './host/systemd/transient.ts';
import type {
  BootEndSaid,
  BoundPod,
  Clock,
  Findings,
  InhibitorStatus,
  Killer,
  Log,
  NodeMarks,
  NodeReclaim,
  PodSource,
  RecordNote,
  Scratch,
} from './ports.ts';

/** What a mode needs when it is opened. */
export type ModeNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly cgroupRoot: string;
  readonly podManifests: string;
  readonly runtimeDirectory: string;
  readonly systemd: Systemd;
  readonly log: Log;
  readonly findings: Findings;
  readonly note: (note: RecordNote) => void;
  readonly wake: () => void;
  /** The node's conditions in the adopted state; later changes are reported. */
  readonly conditions?: readonly NodeCondition[];
  /** If given, the processes of pods get the oom_score_adj of their class, set outside the sandbox. */
  readonly setOomScores?: CommandRunner | undefined;
  /** Nothing is stopped or started. */
  readonly dry: boolean;
  /** A dry run was switched on since: from now on too, until the parts are rebuilt. Absent: never. */
  readonly isDryNow?: () => boolean;
  /** Runs the program that empties scratch directories; absent: none is emptied. */
  readonly run?: CommandRunner;
  readonly own?: readonly string[];
  /** Null in standalone. */
  readonly kube: KubeSettings | null;
};
/** The configuration of mode kubelet (product.md section 3). */
export type KubeSettings = {
  readonly kubeconfig: string;
  /** Null: the host name (D3). */
  readonly nodeName: string | null;
  /** The prefix of its taint keys; null: it sets none under pressure. */
  readonly taintKeys: 'own' | 'cluster-autoscaler' | null;
  readonly areConditionsSet: boolean;
  /** Without an answer from the Eviction API, a soft threshold does not evict. */
  readonly isBudgetRequired: boolean;
  readonly protectNamespaces: readonly string[];
  readonly kubeletDirectory: string;
  readonly podLogsDir: string;
  readonly runtimeEndpoint: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly stateDirectory: string;
  readonly imageMinimumGCAgeMs: number;
  /** A shutdown deletes pods that a controller recreates elsewhere; false: all stay bound (E13). */
  readonly isDrained: boolean;
};
/** Binds and stops pods. It measures nothing and decides nothing. */
export type Mode = {
  readonly pods: PodSource;
  readonly killer: Killer;
  readonly marks: NodeMarks;
  /** What the agent shows to others besides pressure; absent: the mode has nowhere to show it. */
  readonly shows?: {
    /** Called at every change while the machine is not going down. */
    readonly lock: (status: InhibitorStatus) => void;
    readonly lastBoot: (said: BootEndSaid) => void;
  };
  readonly scratch: Scratch;
  /**
   * Frees what its container runtime can free, before any eviction; absent: it has no runtime (CoreConfig.hasRuntime).
   */
  readonly reclaim?: NodeReclaim;
  /** Paths to measure that only the mode knows, possibly late; absent: the configuration has them all. */
  readonly places?: {
    /** The cgroup of all pods. */
    readonly podsCgroup: () => Reading<string>;
    /** Files of a tmpfs and shared memory that are charged to it. */
    readonly podsShared: () => Reading<number>;
    /** The paths of images and of writable layers, as reported by the runtime. */
    readonly latePaths: () => Reading<RuntimePaths>;
  };
  /**
   * Announces that the machine is going down (beside-a-kubelet.md E4); resolves with a sentence about the result. Absent:
   * there is nobody to announce it to.
   */
  readonly announce?: (shutdown: {
    readonly decision: DecisionId;
    readonly totalMs: number;
    readonly byKubelet: boolean;
  }) => Promise<string>;
  /** What this shutdown did that the API does not show as done yet (E16, E17); absent: there is no API. */
  readonly unconfirmed?: () => Reading<Unconfirmed>;
  /** After a cancelled shutdown: restarts the units that it stopped, and only those, each once its stop has ended. */
  readonly undoStops: () => Promise<UndoneStops>;
  /**
   * Whether a shutdown stopped anything that was not undone: without a shutdown in progress, an earlier run died in
   * between.
   */
  readonly hasStops: () => boolean;
  /** The shutdown that an earlier run began goes on; absent: nothing waits for that. */
  readonly goOn?: () => void;
  /** Forgets stops that belong to a system that is no longer running. */
  readonly forgetStops: () => void;
  /**
   * Nothing is started while it is true. Call it right after opening, and at every change: true before the first stop, false in
   * the same turn as `undoStops`.
   */
  readonly setShuttingDown: (isShuttingDown: boolean) => void;
  /** The kubelet's own configuration as JSON; absent: there is no kubelet. */
  readonly kubeletConfigz?: () => Promise<Reading<string>>;
  /** Why this run has to end: another agent manages this node. Null: none does; absent: that is impossible. */
  readonly isTaken?: () => string | null;
  /** Call it after each look, once its decisions have begun: the node's conditions are known then. Absent: nothing waits for that. */
  readonly looked?: () => void;
  /** Whether all pods are known: false for a moment after the start. */
  readonly isSettled: () => boolean;
  /** A shutdown stops it now, in its turn, and has not asked it yet. Absent: there are no turns. */
  readonly isToBeStopped?: (uid: PodUid) => boolean;
  /** Pods that have processes now. */
  readonly running: () => readonly BoundPod['declared'][];
  /** What the kernel would choose by. */
  readonly oomScores: () => readonly OomScore[];
  /** The files in the runtime directory were lost: writes them again. */
  readonly rewrite: () => void;
  /** `isOver`: the agent stops while the machine stays up, so its marks on the node are taken back. */
  readonly close: (isOver: boolean) => Promise<void>;
};
/** What was restarted after a cancelled shutdown, and what could not be, with the reason. */
export type UndoneStops = {
  readonly started: readonly string[];
  readonly notUndone: readonly string[];
  /** All of it, once what could not be restarted yet is. Absent: nothing is tried again. */
  readonly rest?: Promise<UndoneStops>;
};
/** Opens the mode for each configuration of a run; what must outlive one stays in the function. */
export type OpenMode = (needs: ModeNeeds) => Mode;
