import type { ShutdownRefusal } from '../../config/shutdown.ts';

/**
 * shutdown-scenarios.md 4.1 and 6.1: every key that applies, in this order. Times in milliseconds since the signal. Can
 * be pasted back as an `expect`.
 */
export type ShutdownResult = {
  readonly configErrors?: readonly ShutdownRefusal[];
  readonly enabled?: boolean;
  readonly armed?: boolean;
  readonly inhibitDelay?: number;
  readonly dropInSeconds?: number | null;
  readonly readBacks?: number;
  readonly groups?: readonly GroupResult[];
  readonly phases?: readonly PhaseResult[];
  /** null: it was kept because the shutdown was cancelled before the last phase. */
  readonly lockReleasedAt?: number | null;
  readonly shutdownProceedsAt?: number | null;
  readonly refusesPods?: { readonly from: number; readonly until: number | null };
  /** null: it was kept. */
  readonly lockRetakenAt?: number | null;
  readonly pods?: { readonly [name: string]: PodResult | null };
};
type GroupResult = {
  readonly priority: number;
  readonly periodSeconds: number;
  readonly pods: readonly string[];
};
type PhaseResult = {
  readonly priority: number;
  readonly periodSeconds: number;
  readonly start: number;
  readonly end: number;
  readonly endedBy: 'done' | 'period' | 'volumeTimeout' | 'cancelled';
  readonly stillRunning?: readonly string[];
  readonly volumesPending?: readonly string[];
};
export type PodResult = {
  readonly group: number;
  readonly gracePeriodSeconds: number;
  readonly effectiveGracePeriodSeconds: number;
  readonly start: number;
  readonly sigtermAt: number;
  readonly killedAt?: number;
  readonly stoppedAt: number;
  readonly status: {
    readonly phase: 'Failed';
    readonly reason: 'Terminated';
    readonly message: string;
    readonly disruptionTarget: boolean;
  } | null;
};
/** The reason for a result: a code, the facts, and a sentence. */
export type ShutdownReason = { readonly code: string; readonly [fact: string]: unknown; readonly text: string };
