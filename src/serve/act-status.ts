import type { Decision } from '../core/decision.ts';
import type { Outcome } from '../core/outcome.ts';
import { podName } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import type { State } from '../core/state/state.ts';
import { sayDecision, sayOutcome, victimIn } from '../words/decision.ts';

export type ActStatus =
  | { readonly kind: 'idle' }
  | { readonly kind: 'reclaiming'; readonly decision: string; readonly signal: Signal; readonly leftMs: number }
  | {
      readonly kind: 'evicting';
      readonly evictions: readonly {
        readonly decision: string;
        readonly pod: string;
        readonly cause: string;
        readonly graceLeftMs: number;
        readonly leftMs: number;
        readonly isSettled: boolean;
      }[];
    };
export type DecisionStatus = {
  readonly id: string;
  readonly atWallMs: number;
  readonly kind: Decision['kind'];
  readonly pod: string | null;
  readonly signal: string | null;
  readonly text: string;
  readonly outcome: { readonly kind: Outcome['kind']; readonly text: string } | null;
};
export type RecentDecision = {
  readonly atWallMs: number;
  readonly decision: Decision;
  readonly outcome: Outcome | null;
  /** Its first signal; null: not known yet. */
  readonly stopBeganAtMs: MonoMs | null;
};

export function actStatus({ act, reclaims }: State, atMs: MonoMs): ActStatus {
  if (act.kind === 'idle') {
    if (reclaims[0] === undefined) return { kind: 'idle' };
    const { decision, threshold, deadlineMs } = reclaims[0];
    return { kind: 'reclaiming', decision, signal: threshold.signal, leftMs: Math.max(0, deadlineMs - atMs) };
  }
  return {
    kind: 'evicting',
    evictions: act.evictions.map((eviction) => ({
      decision: eviction.decision,
      pod: podName(eviction.victim),
      cause: eviction.cause.kind === 'threshold' ? eviction.cause.threshold.id : `${eviction.cause.limit}.limit`,
      graceLeftMs: Math.max(0, eviction.graceEndsMs - atMs),
      leftMs: Math.max(0, eviction.deadlineMs - atMs),
      isSettled: eviction.settledMs !== null,
    })),
  };
}

export function decisionStatus(
  { atWallMs, decision, outcome, stopBeganAtMs }: RecentDecision,
  recent: readonly RecentDecision[],
): DecisionStatus {
  const text = sayDecision(decision, victimIn(recent));
  const afterMs = outcome === null || stopBeganAtMs === null ? null : Math.max(0, outcome.atMs - stopBeganAtMs);
  return {
    id: decision.id,
    atWallMs,
    kind: decision.kind,
    pod: 'victim' in decision ? podName(decision.victim) : null,
    signal:
      'threshold' in decision ? decision.threshold.signal : 'limit' in decision ? `${decision.limit}.limit` : null,
    text,
    outcome: outcome === null ? null : { kind: outcome.kind, text: sayOutcome(outcome, afterMs, decision) },
  };
}
