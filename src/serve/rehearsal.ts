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
  /**
   * The total delay that is needed from logind: for all phases, even those without pods, and beside a kubelet for what
   * precedes and follows them.
   */
  readonly neededMs: number;
  /** What logind grants; null: unknown, and assumed to be enough. */
  readonly grantedMs: number | null;
  /** Empty: shutdown is off. */
  readonly phases: readonly PhaseRow[];
  /** Beside a kubelet: the phases when systemd stops the agent, for pods that stay bound to the node. Absent: there are none. */
  readonly withAgent?: readonly PhaseRow[];
  /** How long all phases take: if every pod uses its whole grace period, and by the observed stops. */
  readonly worstMs: number;
  readonly expectedMs: number;
  /** The phases without logind's signal; null: off, or the time that systemd leaves is unknown. */
  readonly secondTier: SecondTier | null;
  /** Changes that would let every pod finish, even without logind's signal. */
  readonly changes: readonly Change[];
  /** Not problems but worth knowing: which pods stop after or together with which. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
  /** `namespace/name` */
  readonly cannotFinish: readonly string[];
};
/** The longest that the agent holds its lock, if that is longer than the phases: beside a kubelet. Null: it is not. */
export const heldMs = ({ withAgent, neededMs, grantedMs }: RehearseReport): number | null =>
  withAgent === undefined ? null : Math.min(neededMs, grantedMs ?? neededMs);
export type Span = { readonly startMs: number; readonly endMs: number };
export type PhaseRow = {
  readonly phase: number;
  readonly fromPriority: number;
  readonly periodSeconds: number;
  /** Since the start of the shutdown; null: it has no pods and takes no time. */
  readonly worst: Span | null;
  readonly expected: Span | null;
  readonly pods: readonly PodStopRow[];
};
export type PodStopRow = Pick<PodView, 'uid' | 'namespace' | 'name'> & {
  /** null: unknown. It then stops with the pods of priority 0. */
  readonly priority: number | null;
  /** Its own grace period or that of its phase, whichever is shorter. */
  readonly graceSeconds: number;
  readonly ownGraceSeconds: number;
  /** null: it is not bound to a unit, or the manifests could not be read. */
  readonly unit: string | null;
  /** TimeoutStopSec of the unit; null: no unit, or not known. */
  readonly stopTimeoutMs: number | 'infinity' | null;
  /** How many steps of the stop it applies to, one after another: each ExecStop=, and the signal. */
  readonly stopSteps: number;
  /** null: the record contains no stop of it. */
  readonly observed: ObservedStops | null;
  /** When it is signalled, counted from the start of its phase; later if it waits for other pods. */
  readonly toldAfterMs: number;
  /** How long it has from then on until the agent or systemd kills it. */
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
