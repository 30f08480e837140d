import type { Effective } from '../config/effective.ts';
import type { HostSizes } from '../config/margin.ts';
import type { ConfigWarning } from '../config/warnings.ts';
import type { ShutdownPhase } from '../core/core-config.ts';
import type { MemoryShare } from '../core/eviction/attribution.ts';
import type { Reading, Unknown } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import type { Misplaced } from '../daemon/own-files.ts';
import type { Problem } from '../document/problem.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import type { DiskSurvey } from '../host/disk/disk-walk.ts';
import type { SharedMemory } from '../host/memory/shared-memory.ts';
import type { FileServer } from '../host/process/file-server.ts';
import type { KubeletProcess } from '../host/process/kubelet-process.ts';
import type { OomDaemon } from '../host/process/oom-daemons.ts';
import type { DelaySetting } from '../host/systemd/logind-drop-in.ts';
import type { StrictBudget } from '../kube/stop/disruption-budgets.ts';
import type { BoundPod, Finding } from '../ports.ts';
import type { StatusReport } from '../serve/status.ts';
import type { HeldUnit } from '../standalone/restart/held-file.ts';
import type { UnitTimeout } from '../standalone/stop/stop-timeouts.ts';
import type { HereWarning, Unread } from './loaded-here.ts';
import type { SharedLimit } from './shared-limits.ts';

/** Everything that the checks judge, read once. What could not be read is unknown, with the reason. */
export type Facts = {
  /** The configuration file that the user named; null: the one that the service uses. */
  readonly named: string | null;
  readonly problems: readonly Problem[];
  readonly warnings: readonly (ConfigWarning | HereWarning)[];
  readonly unread: readonly Unread[];
  /** If the configuration is invalid: the last good one, which the agent uses. */
  readonly effective: Reading<Effective>;
  readonly agent: AgentFacts;
  readonly host: HostFacts;
  /** Only in mode standalone. */
  readonly pods: Reading<PodsFacts>;
  readonly shutdown: ShutdownFacts;
  readonly places: PlaceFacts;
  readonly disks: Reading<readonly DiskFacts[]>;
  /** Only in mode kubelet. */
  readonly kube: Reading<KubeFacts>;
};
export type AgentFacts = {
  readonly status: Reading<StatusReport>;
  readonly isRunning: boolean | null;
  readonly service: Reading<ServiceFacts>;
};
export type ServiceFacts = {
  readonly loadState: string;
  readonly activeState: string;
  readonly unitFileState: string;
  readonly result: string;
  readonly exitStatus: number;
};
export type HostFacts = {
  readonly sizes: HostSizes;
  readonly mounts: Reading<CgroupMounts>;
  readonly bootId: Reading<string>;
  readonly oomDaemons: Reading<readonly OomDaemon[]>;
  readonly kubelet: Reading<KubeletProcess>;
  /** Process 1 has CAP_SYS_RESOURCE, which is needed to lower an oom_score_adj. */
  readonly mayLowerOomScores: Reading<boolean>;
  readonly memory: Reading<MemoryUsers>;
  readonly sharedMemory: Reading<SharedMemory>;
};
export type MemoryUsers = {
  readonly capacityBytes: number;
  readonly podsBytes: number;
  /** Outside pods, the largest first. `where`: a cgroup, or a description. */
  readonly others: readonly MemoryShare[];
};
export type PodsFacts = {
  /** Only the first ones if there are very many. */
  readonly pods: readonly FoundPod[];
  /** In all manifests. */
  readonly declared: readonly BoundPod['declared'][];
  readonly findings: readonly Finding[];
  /** Manifests, or their directory, that this user may not read: there may be more pods. */
  readonly unread: readonly Unknown[];
  /** Unknown: systemd has not reported the cgroups and dependencies of the units. */
  readonly units: Reading<true>;
  /** Unknown: not every scratch directory was examined. */
  readonly scratch: Reading<true>;
  /** Directories of pods that do not answer. */
  readonly hung: readonly Unknown[];
  readonly held: Reading<readonly HeldUnit[]>;
  readonly sharedLimits: Reading<readonly SharedLimit[]>;
};
export type FoundPod = {
  readonly bound: BoundPod;
  readonly unit: string | null;
  /** Its working set; null: it is not running. */
  readonly memoryBytes: Reading<number> | null;
  /** The memory limit of its cgroup. Null inside the reading: it has none; null outside: it is not running. */
  readonly limitBytes: Reading<number | null> | null;
  /** The values of its processes, each value once. */
  readonly oomScores: Reading<readonly number[]>;
  readonly timeout: UnitTimeout | null;
  /** A process of it through which others reach files; null inside the reading: none. */
  readonly served: Reading<FileServer | null>;
  /** Of its disk directories, those that are symbolic links, with where they lead; unknown: not examined in time. */
  readonly linkedDisks: Reading<readonly { readonly path: string; readonly to: string }[]>;
};
export type ShutdownFacts = {
  readonly phases: readonly ShutdownPhase[];
  readonly neededMs: number;
  readonly grantedMs: Reading<number>;
  /** The file that logind uses; null: none sets it. */
  readonly delay: Reading<DelaySetting | null>;
  readonly agentStopMs: Reading<number>;
};
export type PlaceFacts = {
  /** Why the agent would not use its directories; null: it would. */
  readonly distrusted: Reading<string | null>;
  /** What has the name of one of its files or directories, and is none. */
  readonly misplaced: readonly Misplaced[];
  readonly recordPath: string;
  readonly recordFree: Reading<{ readonly bytes: number; readonly inodes: number | null }>;
};
/** A disk signal with a threshold. `path` null: only the container runtime says where it is, and only the agent asks it. */
export type DiskFacts = {
  readonly signal: Signal;
  readonly path: string | null;
  /** Null: it is not near a threshold. Unknown: it could not be measured. */
  readonly near: Reading<NearDisk | null>;
};
export type NearDisk = {
  readonly available: number;
  readonly limit: number;
  readonly root: string;
  readonly survey: Reading<DiskSurvey>;
};
export type KubeFacts = {
  readonly nodeName: string;
  readonly credentials: Reading<true>;
  /** A finding: it belongs to another machine. Unknown: the API server does not show it. */
  readonly node: Reading<Finding | null>;
  /** Those of the agent. */
  readonly taints: readonly string[];
  readonly outOfService: Finding | null;
  readonly isCordonKept: boolean;
  /** `unread`: why of some it is not known; null: of all it is. */
  readonly rights: { readonly missing: readonly Finding[]; readonly unread: Unknown | null };
  readonly budgets: Reading<readonly StrictBudget[]>;
  /** Thresholds that the kubelet reaches first. */
  readonly firsts: Reading<readonly Finding[]>;
};
