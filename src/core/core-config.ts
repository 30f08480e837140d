import type { Threshold } from './eviction/threshold.ts';
import type { Signal } from './signal.ts';

export type ShutdownPhase = { readonly fromPriority: number; readonly periodSeconds: number };
export type CoreConfig = {
  readonly thresholds: readonly Threshold[];
  readonly pressureTransitionMs: number;
  readonly maxPodGraceSeconds: number;
  readonly pace: {
    readonly minMs: number;
    readonly maxMs: number;
    readonly cpuShare: number /** Online CPUs: what the fastest plausible fill multiplies with. */;
    readonly cpus: number;
  };
  readonly guard: { readonly kills: number; readonly windowMs: number } | null;
  readonly localStorageLimits: 'enforce' | 'show' | 'off';
  /** Signals for which this node has a node-level reclaim by command (reclaimCommands; `simulate`: kubelet-eviction.md 6.1). */
  readonly reclaimSignals: readonly Signal[];
  /** How long the commands of each of these signals may take, one after another. Absent: no time. */
  readonly reclaimMs?: { readonly [S in Signal]?: number };
  /** The mode can remove dead containers and unused images (kubelet-eviction.md 6.1). Absent: it has no container runtime. */
  readonly hasRuntime?: true;
  /** Ascending by priority; empty = off. */
  readonly phases: readonly ShutdownPhase[];
  /** D10: whether a cancelled shutdown is honoured at once, or after the last phase as in the kubelet. */
  readonly shutdownCancel: 'promptly' | 'afterPhases';
  /** Whether the unused time of a phase goes to the next. */
  readonly shutdownCarryOver: boolean;
  /**
   * Beside a kubelet: the maximum time to announce a shutdown before its first phase and to confirm it after the last one.
   * Pods that still run then are stopped with the agent itself (beside-a-kubelet.md E4, E12, E17). Absent: one tier.
   */
  readonly tiers?: { readonly announceMs: number; readonly confirmMs: number };
  /**
   * On a live node: rules about what takes real time apply (D3 for each resource separately, D14, D15). Absent: like the
   * kubelet (`simulate`).
   */
  readonly isLive?: true;
};
