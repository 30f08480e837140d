import type { CoreConfig, ShutdownPhase } from '../core/core-config.ts';
import type { Observation } from '../core/observation.ts';
import type { PodUid, PodView } from '../core/pod/pod.ts';
import { assertNever, type MonoMs } from '../core/reading.ts';
import { totalMs, withoutReserve } from '../core/shutdown/phase-time.ts';
import { neededTotalMs, planShutdown } from '../core/shutdown/plan.ts';
import type { State } from '../core/state/state.ts';
import type { InhibitorStatus } from '../ports.ts';

/** The shutdown part of the status; docs/json.md describes every field. */
export type ShutdownStatus = {
  readonly lock: LockStatus;
  /** As configured, ascending by priority; empty = off. */
  readonly phases: readonly PlannedPhase[];
  /** A scheduled shutdown. */
  readonly scheduled: ScheduledShutdown | null;
  readonly running: RunningShutdown | null;
  /** A sentence about the last shutdown of an earlier boot; null: the record has none. */
  readonly last: string | null;
  /** TimeoutStopSec of the agent; null: unknown, or it does not run as a service. */
  readonly stopTimeoutMs: number | 'infinity' | null;
  /** Whether it also acts when the machine goes down without logind's signal. */
  readonly secondTier: boolean;
  /** The kubelet holds its own shutdown lock and stops the pods itself; absent: it does not, or this is unknown. */
  readonly kubelet?: 'armed';
};
type Lock = InhibitorStatus['lock'];
export type LockStatus =
  | Extract<Lock, { readonly kind: 'off' | 'released' }>
  /** When the lock was last seen in logind's list, with enough granted. */
  | (Omit<Extract<Lock, { readonly kind: 'armed' }>, 'provenMs'> & { readonly provenAgoMs: number })
  | Omit<Extract<Lock, { readonly kind: 'not-armed' }>, 'isPending'>;
export type PlannedPhase = {
  /** Counted from 1. */
  readonly phase: number;
  readonly fromPriority: number;
  readonly periodSeconds: number;
  /** How many pods it would stop now; null: the pods are unknown. */
  readonly pods: number | null;
};
export type ScheduledShutdown = {
  /** poweroff, reboot, …, as in logind. */
  readonly type: string;
  readonly atWallMs: number;
  /** When each phase would begin and end if every earlier one took its full time; phases without pods are omitted. */
  readonly phases: readonly { readonly phase: number; readonly startsWallMs: number; readonly endsWallMs: number }[];
};
export type RunningShutdown = {
  /** The trigger: logind's signal, or the agent was stopped while the machine goes down without one. */
  readonly tier: 'logind' | 'stop';
  /** null: not known. */
  readonly type: string | null;
  /** 0 before the first. */
  readonly phase: number;
  readonly phaseLeftMs: number;
  /** `namespace/name` of those whose stop the phase waits for. */
  readonly podsLeft: readonly string[];
  /** It was cancelled; this is handled after the last phase. */
  readonly cancelled: boolean;
  /** It was cancelled, but this version of logind shuts down nevertheless. */
  readonly cancelIgnored: boolean;
};

/** Facts about a shutdown that are not part of a look. */
export type ShutdownContext = {
  /** The time of the query: within a phase the last look may be long ago. */
  readonly nowMs: MonoMs;
  readonly inhibitor: InhibitorStatus;
  /** TimeoutStopUSec of the agent's own unit; infinity: no limit; null: not known. */
  readonly stopTimeoutMs: number | null;
  readonly last: string | null;
  readonly secondTier: boolean;
  /** `shutdown -c` came while it runs, and logind does not honour it. */
  readonly isCancelIgnored: boolean;
  /** Pods without a process that a shutdown stops, whether or not the look has them; absent: none. */
  readonly idle?: readonly Omit<PodView, 'usage'>[];
};
type ShutdownInput = {
  readonly observation: Observation;
  readonly state: Pick<State, 'shutdown'>;
  readonly config: Pick<CoreConfig, 'phases' | 'tiers'>;
  readonly context: ShutdownContext;
  readonly nameOf: (uid: PodUid) => string;
};

export function shutdownStatus({ observation, state, config, context, nameOf }: ShutdownInput): ShutdownStatus {
  const { nowMs, inhibitor, stopTimeoutMs, last, secondTier, isCancelIgnored } = context;
  const phases = plannedPhases(config.phases, observation, context.idle ?? []);
  const { shutdown } = state;
  return {
    lock: lockStatus(inhibitor.lock, nowMs),
    phases,
    scheduled: scheduledShutdown(inhibitor, phases, neededTotalMs(config)),
    running:
      shutdown.kind !== 'stopping'
        ? null
        : {
            tier: shutdown.tier,
            type: inhibitor.type,
            phase: shutdown.phase,
            phaseLeftMs: Math.max(0, shutdown.phaseEndsMs - nowMs),
            podsLeft: shutdown.pending.map(nameOf),
            cancelled: shutdown.cancelledMs !== null,
            cancelIgnored: isCancelIgnored,
          },
    last,
    // JSON has no infinity: it would become null, which means "unknown".
    stopTimeoutMs: stopTimeoutMs === Number.POSITIVE_INFINITY ? 'infinity' : stopTimeoutMs,
    secondTier,
    ...(config.tiers !== undefined && inhibitor.isKubeletArmed === true ? { kubelet: 'armed' } : {}),
  };
}

function lockStatus(lock: Lock, nowMs: MonoMs): LockStatus {
  switch (lock.kind) {
    case 'off':
    case 'released':
      return lock;
    case 'armed': {
      const { provenMs, ...rest } = lock;
      return { ...rest, provenAgoMs: Math.max(0, nowMs - provenMs) };
    }
    case 'not-armed': {
      const { isPending: _, ...rest } = lock;
      return rest;
    }
    default:
      return assertNever(lock);
  }
}

function plannedPhases(
  phases: readonly ShutdownPhase[],
  { pods }: Observation,
  idle: NonNullable<ShutdownContext['idle']>,
): readonly PlannedPhase[] {
  const byUid = new Map([...idle, ...(pods.known ? pods.value : [])].map((pod) => [pod.uid, pod]));
  return planShutdown(phases, [...byUid.values()]).map(({ phase, fromPriority, periodSeconds, stops }) => ({
    phase,
    fromPriority,
    periodSeconds,
    pods: pods.known ? stops.length : null,
  }));
}

/** The first phase begins with logind's signal. */
function scheduledShutdown(
  { scheduled, lock }: InhibitorStatus,
  phases: readonly PlannedPhase[],
  neededMs: number,
): ScheduledShutdown | null {
  if (scheduled === null) return null;
  // Those without pods take no time (kubelet-shutdown.md 5.1).
  const toCome = phases.filter(({ pods }) => pods !== 0);
  const share = shareOf(lock, neededMs, toCome);
  let startsWallMs = scheduled.atWallMs;
  const timed = toCome.map(({ phase, periodSeconds }) => {
    const endsWallMs = startsWallMs + Math.floor(Math.max(0, periodSeconds) * 1_000 * share);
    const span = { phase, startsWallMs, endsWallMs };
    startsWallMs = endsWallMs;
    return span;
  });
  return { ...scheduled, phases: timed };
}

/** D11: the share of its period that each phase gets, 0 to 1. */
function shareOf(lock: Lock, neededMs: number, toCome: readonly ShutdownPhase[]): number {
  const grantedMs = lock.kind === 'armed' || lock.kind === 'not-armed' ? lock.grantedMs : null;
  if (grantedMs === null || grantedMs >= neededMs) return 1;
  return Math.min(1, withoutReserve(grantedMs) / Math.max(1, totalMs(toCome)));
}
