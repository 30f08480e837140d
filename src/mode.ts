import type { DecisionId } from './core/decision.ts';
import type { Unconfirmed } from './core/observation.ts';
import type { OomScore } from './core/pod/oom-score.ts';
import type { Reading } from './core/reading.ts';
import type { NodeCondition } from './core/signal.ts';
import type { CgroupMounts } from './host/cgroup-mounts.ts';
import type { Systemd } from './host/systemd.ts';
import type { CommandRunner } from './host/transient.ts';
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

/** What a mode is opened with. */
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
  /** The node's conditions in the state that was taken over; later changes are reported. */
  readonly conditions?: readonly NodeCondition[];
  /** With it the processes of pods carry the oom_score_adj of their class, set outside of the sandbox. */
  readonly setOomScores?: CommandRunner | undefined;
  /** Nothing is stopped and nothing started. */
  readonly dry: boolean;
  /** Runs what empties scratch directories; absent: none is emptied. */
  readonly run?: CommandRunner;
  readonly own?: readonly string[];
  /** Null in standalone. */
  readonly kube: KubeSettings | null;
};
/** What mode kubelet is configured with (product.md section 3). */
export type KubeSettings = {
  readonly kubeconfig: string;
  /** Null: the name of the host (D3). */
  readonly nodeName: string | null;
  /** Where the keys of its taints lie; null: it sets none under pressure. */
  readonly taintKeys: 'own' | 'cluster-autoscaler' | null;
  readonly areConditionsSet: boolean;
  /** Without the right to ask a disruption budget, no soft threshold evicts. */
  readonly isBudgetRequired: boolean;
  readonly protectNamespaces: readonly string[];
  readonly kubeletDirectory: string;
  readonly podLogsDir: string;
  readonly runtimeEndpoint: string;
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly stateDirectory: string;
  readonly imageMinimumGCAgeMs: number;
  /** Pods that something makes anew elsewhere are deleted at a shutdown; false: all stay bound (E13). */
  readonly isDrained: boolean;
};
/** Binds and stops pods. It measures nothing and decides nothing. */
export type Mode = {
  readonly pods: PodSource;
  readonly killer: Killer;
  readonly marks: NodeMarks;
  /** What others can see of the agent besides pressure; absent: the mode has nowhere to show it. */
  readonly shows?: {
    /** Called at every change while the machine does not go down. */
    readonly lock: (status: InhibitorStatus) => void;
    readonly lastBoot: (said: BootEndSaid) => void;
  };
  readonly scratch: Scratch;
  /** What its container runtime can give back, before any pod goes; absent: it has none (CoreConfig.hasRuntime). */
  readonly reclaim?: NodeReclaim;
  /** What it knows of where to measure, which may come late; absent: the configuration says all. */
  readonly places?: {
    /** The cgroup of all pods. */
    readonly podsCgroup: () => Reading<string>;
    /** Of images and of writable layers, as the runtime says. */
    readonly latePaths: () => Reading<{ readonly imagefsPath: string | null; readonly containerfsPath: string | null }>;
  };
  /**
   * Says to others that the machine goes down (beside-a-kubelet.md E4); resolves with what was said, in words. Absent: there
   * is nobody to tell.
   */
  readonly announce?: (shutdown: {
    readonly decision: DecisionId;
    readonly totalMs: number;
    readonly byKubelet: boolean;
  }) => Promise<string>;
  /** What of this shutdown others do not show as done yet (E16, E17); absent: nobody shows it. */
  readonly unconfirmed?: () => Reading<Unconfirmed>;
  /** After a cancelled shutdown: starts again the units that it stopped, and only those, once each stop has ended. */
  readonly undoStops: () => Promise<UndoneStops>;
  /** Whether a shutdown has stopped what was not undone: with no shutdown under way, an earlier run died in between. */
  readonly hasStops: () => boolean;
  /** For stops that belong to a system that is no longer running. */
  readonly forgetStops: () => void;
  /**
   * Nothing is started while it is true. Call it right after opening, and whenever it changes: true before the first stop,
   * false in the turn of `undoStops`.
   */
  readonly setShuttingDown: (isShuttingDown: boolean) => void;
  /** What the kubelet beside the agent says of its own configuration, as JSON; absent: there is none. */
  readonly kubeletConfigz?: () => Promise<Reading<string>>;
  /** Why this run has to end: another agent keeps this node. Null: none does; absent: that cannot be. */
  readonly isTaken?: () => string | null;
  /** Whether the pods are all there: false for a moment after the start. */
  readonly isSettled: () => boolean;
  /** Pods that have processes now. */
  readonly running: () => readonly BoundPod['declared'][];
  /** What the kernel would go by, should it have to choose. */
  readonly oomScores: () => readonly OomScore[];
  /** The files in the runtime directory were lost: they are written anew. */
  readonly rewrite: () => void;
  /** `isOver`: the agent stops and the machine stays; what is said of the node elsewhere is taken back. */
  readonly close: (isOver: boolean) => Promise<void>;
};
/** What a cancelled shutdown started again, and what it could not, with the reason. */
export type UndoneStops = { readonly started: readonly string[]; readonly notUndone: readonly string[] };
/** Opens the mode anew for each configuration of a run; what must outlive one stays in the function. */
export type OpenMode = (needs: ModeNeeds) => Mode;
