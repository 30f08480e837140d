import type { DecisionId } from './decision.ts';
import type { MemoryGrowth } from './eviction/attribution.ts';
import type { Heard } from './outcome.ts';
import type { DiskUsage, PodUid, PodView } from './pod/pod.ts';
import type { MonoMs, Reading } from './reading.ts';
import type { FsLayout, Signal, SignalSample } from './signal.ts';

/** Pressure stall information of one resource, in percent of the last 10, 60 and 300 s. */
export type StallAverages = { readonly avg10: number; readonly avg60: number; readonly avg300: number };
export type Psi = { readonly some: StallAverages; readonly full: StallAverages | null };

/** Everything the core may know about the world at one instant. */
export type Observation = {
  readonly atMs: MonoMs;
  /** CPU time this process has used so far: the input of D2's budget. */
  readonly cpuMs: number;
  /** Only for pod age and records; never for a timer. */
  readonly wallMs: number;
  readonly signals: { readonly [S in Signal]: Reading<SignalSample> };
  readonly fsLayout: Reading<FsLayout>;
  /** `not-asked` unless the previous verdict's `next.pods` asked: far from thresholds no pod is read. */
  readonly pods: Reading<readonly PodView[]>;
  /** The signal they were read for; absent: everything is measured, whatever was asked. */
  readonly podsFor?: Signal | 'all' | null;
  /** What took the node's memory; present if the pods were read for memory.available. */
  readonly memoryGrowth?: Reading<MemoryGrowth>;
  /** What victims still hold, of those that were asked for. Absent: none was. */
  readonly escaped?: readonly HeldOutside[];
  /** Memory that is still charged to cgroups of pods without processes, file cache aside. Absent: none, or the pods were not read. */
  readonly leftBytes?: number;
  /**
   * Such memory that comes back by itself soon, by pod, and beside a kubelet the files of pods without processes that it is about to
   * remove. It is in none of the other numbers. Absent: none.
   */
  readonly comesBack?: readonly { readonly uid: PodUid; readonly memoryBytes: number; readonly disk?: DiskUsage }[];
  /** Whose scratch directories are being emptied now. Absent: nobody's. */
  readonly emptying?: readonly Emptying[];
  /** What became of earlier decisions since the previous observation, oldest first. */
  readonly outcomes: readonly Heard[];
  /** Recorded and displayed, never acted on. */
  readonly psi: { readonly memory: Reading<Psi>; readonly io: Reading<Psi>; readonly cpu: Reading<Psi> };
  readonly shutdownEvents: readonly ShutdownEvent[];
  /** Present and former pods that still have volumes mounted (kubelet-shutdown.md 5.3). */
  readonly volumesMounted: Reading<readonly PodUid[]>;
  /** What this shutdown stopped and the API does not show as gone yet (beside-a-kubelet.md E16, E17). Absent: not applicable. */
  readonly unconfirmed?: Reading<Unconfirmed>;
};
/** Both 0: nothing any more. `processIds`: of its unreaped dead. `swapBytes` absent: none. */
export type HeldOutside = {
  readonly of: DecisionId;
  readonly memoryBytes: number;
  readonly processIds: number;
  readonly swapBytes?: number;
};
/** `pods` as namespace/name with their uid, `volumes` as the node's `volumesInUse` has them. */
export type Unconfirmed = {
  readonly pods: readonly string[];
  readonly volumes: readonly string[];
  /** No pod was deleted, and the API was not asked. */
  readonly isNothingDeleted?: true;
};
/** `signal`: a disk signal that its victim's end is to relieve. */
export type Emptying = { readonly of: DecisionId; readonly signal: Signal };
export type ShutdownEvent =
  | { readonly kind: 'lock-granted'; readonly delayMaxMs: number }
  | { readonly kind: 'lock-lost'; readonly detail: string }
  /** `leftMs`: the signal was noticed late, and at most this much time is left; absent: all that was granted. */
  | {
      readonly kind: 'preparing';
      readonly leftMs?: number;
      /** The kubelet holds its own shutdown lock and stops the pods itself (beside-a-kubelet.md E10). */
      readonly byKubelet?: true;
    }
  /** The answer to the decision `announce-shutdown`, as a sentence. */
  | { readonly kind: 'announced'; readonly decision: DecisionId; readonly detail: string }
  /** The kubelet has released its own shutdown lock. */
  | { readonly kind: 'kubelet-released' }
  /** `machineStays`: not only logind says so, systemd too is not taking the machine down. */
  | { readonly kind: 'cancelled'; readonly machineStays?: true }
  /** The system went down and is up again under the same boot id (soft-reboot): nothing that ran before still runs. */
  | { readonly kind: 'came-back' }
  /** The machine goes down without logind's signal: the agent itself got SIGTERM, and has this much time. */
  | { readonly kind: 'stopped-without-signal'; readonly leftMs: number };
