import type { PodView } from '../core/pod/pod.ts';
import type { ObservedStops, StopVerdict } from '../core/shutdown/stop-verdict.ts';
import type { LockStatus } from './shutdown-status.ts';

/** What `rehearse shutdown -o json` prints; docs/json.md describes every field. */
export type RehearseReport = {
  readonly schema: 1;
  readonly node: string;
  readonly atWallMs: number;
  readonly dryRun: boolean;
  readonly lock: LockStatus;
  /** What logind has to delay the machine in all: for the phases, those without pods too, and beside a kubelet before and after them. */
  readonly neededMs: number;
  /** What logind grants; null: not known, and taken as enough. */
  readonly grantedMs: number | null;
  /** Empty: shutdown is off. */
  readonly phases: readonly PhaseRow[];
  /** Beside a kubelet: the phases when systemd stops the agent, for pods that stay bound to the node. Absent: there are none. */
  readonly withAgent?: readonly PhaseRow[];
  /** How long all phases take: with every pod until its grace is over, and as it went before. */
  readonly worstMs: number;
  readonly expectedMs: number;
  /** The phases without logind's signal; null: off, or what systemd leaves is not known. */
  readonly secondTier: SecondTier | null;
  /** What would let those finish who cannot, and the phases have their time without logind's signal too. */
  readonly changes: readonly Change[];
  /** What is as it should be, and worth knowing: who stops after whom, and with whom. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
  /** `namespace/name` */
  readonly cannotFinish: readonly string[];
};
export type Span = { readonly startMs: number; readonly endMs: number };
export type PhaseRow = {
  readonly phase: number;
  readonly fromPriority: number;
  readonly periodSeconds: number;
  /** Since the beginning of the shutdown; null: it has no pods and takes no time. */
  readonly worst: Span | null;
  readonly expected: Span | null;
  readonly pods: readonly PodStopRow[];
};
export type PodStopRow = Pick<PodView, 'uid' | 'namespace' | 'name' | 'priority'> & {
  /** What it is asked to end within: its own, or what its phase has, whichever is less. */
  readonly graceSeconds: number;
  readonly ownGraceSeconds: number;
  /** null: it is not bound to a unit, or the manifests could not be read. */
  readonly unit: string | null;
  /** TimeoutStopSec of the unit; null: no unit, or not known. */
  readonly stopTimeoutMs: number | 'infinity' | null;
  /** For how many steps of the stop it counts, one after another: each ExecStop=, and the signal. */
  readonly stopSteps: number;
  /** null: the record knows no stop of it. */
  readonly observed: ObservedStops | null;
  /** When it is signalled, after the beginning of its phase: later than the others where it waits for some. */
  readonly toldAfterMs: number;
  /** What it has from then on until it is killed, by the agent or by systemd. */
  readonly getsMs: number;
  readonly verdict: StopVerdict;
};
/** The phases without logind's signal. */
export type SecondTier = {
  readonly stopTimeoutMs: number | 'infinity';
  /** null: no limit. */
  readonly leftMs: number | null;
  readonly worstMs: number;
};
export type Change =
  | {
      readonly what: 'phase';
      readonly phase: number;
      readonly fromPriority: number;
      readonly now: number;
      readonly seconds: number;
    }
  | {
      readonly what: 'terminationGracePeriodSeconds';
      readonly pod: string;
      readonly now: number;
      readonly seconds: number;
    }
  | {
      readonly what: 'TimeoutStopSec';
      readonly pod: string;
      readonly unit: string;
      readonly now: number;
      readonly seconds: number;
    }
  | { readonly what: 'agentTimeoutStopSec'; readonly now: number; readonly seconds: number };
