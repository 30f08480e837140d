import type { PodView } from '../core/pod/pod.ts';
import type { ObservedStops } from '../record/reading/observed-stops.ts';
import type { StopVerdict } from './stop-verdict.ts';

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
