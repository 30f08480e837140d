import type { ShutdownPhase } from '../core/core-config.ts';
import type { StallSettings } from '../core/eviction/stall.ts';
import type { Threshold, ThresholdValue } from '../core/eviction/threshold.ts';
import type { Signal } from '../core/signal.ts';
import type { Quantity } from '../core/units/quantity.ts';
import type { NodewardenValues } from './schema.ts';

/** Where a value comes from. `said` is what `config show` prints: `default`, `config.yaml:12`, and so on. */
export type Origin =
  | { readonly kind: 'default' }
  | { readonly kind: 'file'; readonly file: string; readonly line: number }
  /** The KubeletConfiguration named by `kubeletConfig`. */
  | { readonly kind: 'kubelet'; readonly file: string; readonly line: number }
  /** The kubelet's own value, from its file or its defaults, raised so that this agent acts first (beside-a-kubelet.md F2, F4). */
  | { readonly kind: 'kubelet-and-margin'; readonly file: string; readonly margin: Quantity };

type EvictionField = 'evictionHard' | 'evictionSoft' | 'evictionStall';
/** A threshold as configured: no twin, containerfs not yet derived (the core does that by the layout). */
export type ConfiguredThreshold = Threshold & { readonly field: EvictionField; readonly origin: Origin };

export type ReclaimCommand = {
  readonly signal: Signal;
  readonly command: readonly string[];
  readonly timeoutMs: number;
};
export type HttpAddress = {
  readonly host: string;
  readonly port: number;
  readonly allowRemote: boolean;
  readonly hosts: readonly string[];
};
export type Reserved = { readonly [resource: string]: Quantity };

/** One line of `config show`: a value as it would be written in the file, and where it comes from. */
export type Setting = { readonly path: string; readonly value: unknown; readonly origin: Origin };

/** Everything that product.md section 3 configures, checked, with all defaults filled in. */
export type Effective = {
  /** null = no file was named and none stands at the default path. */
  readonly file: string | null;
  readonly kind: 'NodewardenConfiguration' | 'KubeletConfiguration';
  /** Path of the imported KubeletConfiguration, to be watched; null = none. */
  readonly kubeletConfig: string | null;
  /** Fields of a KubeletConfiguration that this agent does not use: to be named once at debug level. */
  readonly ignoredFields: readonly string[];

  readonly mode: 'standalone' | 'kubelet';
  readonly dryRun: boolean;
  readonly podManifests: string;

  readonly thresholds: readonly ConfiguredThreshold[];
  readonly minReclaims: { readonly [S in Signal]?: ThresholdValue };
  readonly mergeDefaultEvictionSettings: boolean;
  readonly pressureTransitionMs: number;
  readonly maxPodGraceSeconds: number;
  readonly localStorageCapacityIsolation: boolean;
  readonly imageMinimumGCAgeMs: number;
  readonly imageGCHighThresholdPercent: number;
  readonly enforceNodeAllocatable: readonly string[];
  readonly systemReserved: Reserved;
  readonly kubeReserved: Reserved;

  readonly cgroupRoot: string;
  /** Mode kubelet: what creates the cgroups of pods, as far as neither the runtime nor the disk says. */
  readonly cgroupDriver: 'cgroupfs' | 'systemd';
  readonly podLogsDir: string;
  readonly containerRuntimeEndpoint: string;

  readonly nodefsPath: string;
  /** null = none of its own: from CRI in mode kubelet, not applicable in standalone. */
  readonly imagefsPath: string | null;
  readonly containerfsPath: string | null;
  readonly memoryAvailable: 'workingSet' | 'reclaimable';
  /** null = off. */
  readonly evictionStall: StallSettings | null;
  readonly oomScoreAdj: 'qos' | 'off';
  readonly monitoringInterval: { readonly minMs: number; readonly maxMs: number; readonly cpuShare: number };
  readonly reclaimCommands: readonly ReclaimCommand[];
  readonly preKill: { readonly command: readonly string[]; readonly timeoutMs: number } | null;
  /** null = off (sameOwnerKills: 0). */
  readonly guard: { readonly sameOwnerKills: number; readonly windowMs: number } | null;

  readonly shutdown: {
    readonly totalMs: number;
    readonly criticalMs: number;
    readonly byPodPriority: readonly { readonly priority: number; readonly periodSeconds: number }[];
    /** Ascending by priority; empty = off (kubelet-shutdown.md 1.2 to 1.4). */
    readonly phases: readonly ShutdownPhase[];
    readonly carryOver: boolean;
    readonly cancelPolicy: 'promptly' | 'afterPhases';
    readonly secondTier: boolean;
  };

  /** null = off. */
  readonly http: HttpAddress | null;
  readonly socket: string;
  readonly stateDirectory: string;
  readonly runtimeDirectory: string;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
  readonly kubernetes: NonNullable<NodewardenValues['kubernetes']> | null;

  /** Every field with its origin, in the order of the reference. */
  readonly settings: readonly Setting[];
};

/** What is known about the machine; null = not known. Some warnings and the margin beside a kubelet need it. */
export type HostSizes = {
  readonly memoryBytes: number | null;
  readonly pids: number | null;
  readonly swapBytes: number | null;
  readonly hasMemoryPressure: boolean | null;
  readonly nodefs: { readonly bytes: number; readonly inodes: number } | null;
  readonly imagefs: { readonly bytes: number; readonly inodes: number } | null;
};
