/** How the last stops of a pod went. */
export type ObservedStops = {
  /** The number of stops counted, at least 1. */
  readonly stops: number;
  /** The longest stop that ended without a kill; null: none did. */
  readonly endedMs: number | null;
  /** The longest time that was not enough for a stop; null: none. */
  readonly unfinishedMs: number | null;
};
/** `declared`: terminationGracePeriodSeconds; `stop-timeout`: TimeoutStopSec of its unit. */
export type StopVerdict =
  | { readonly kind: 'finishes'; readonly because: 'observed' | 'declared' | 'stop-timeout' }
  /** It declares more than it gets, or needs more if the pods before it take all their time. */
  | {
      readonly kind: 'may-need-more';
      readonly because: 'observed' | 'declared' | 'stop-timeout';
      readonly needsMs: number | null;
    }
  | {
      readonly kind: 'cannot-finish';
      readonly because: 'observed' | 'declared' | 'stop-timeout';
      /** null: unknown, except that it is more than it had. */
      readonly needsMs: number | null;
    };

/** At most what `timeoutMs` leaves it. */
type Gets = { readonly leastMs: number; readonly mostMs: number };
type Wants = {
  readonly ownMs: number;
  /** Nobody wrote it: it is the API's default. */
  readonly isOwnDefault: boolean;
  readonly timeoutMs: number | null;
  readonly isTimeoutOwn: boolean;
};

/**
 * Observations count more than declarations. Among declarations, the unit's own TimeoutStopSec counts more than
 * terminationGracePeriodSeconds. What nobody wrote proves nothing: the API's default, and systemd's.
 */
export function verdictOf(
  { leastMs: getsMs, mostMs }: Gets,
  wants: Wants,
  observed: ObservedStops | null,
): StopVerdict {
  const { ownMs, isOwnDefault, timeoutMs, isTimeoutOwn } = wants;
  const ownTimeoutMs = isTimeoutOwn ? timeoutMs : null;
  const { endedMs, unfinishedMs } = heldAgainst(timeoutMs, observed ?? NEVER_STOPPED);
  const cannot = { kind: 'cannot-finish' } as const;
  const hasTaken = (ms: number): boolean => (endedMs ?? 0) > ms;
  const seen = { because: 'observed', needsMs: hasTaken(getsMs) ? endedMs : null } as const;
  const isBeyond = (ms: number): boolean => hasTaken(ms) || (unfinishedMs ?? Number.NEGATIVE_INFINITY) >= ms;
  if (isBeyond(mostMs)) return { ...cannot, ...seen };
  if (isBeyond(getsMs)) return { kind: 'may-need-more', ...seen };
  if (endedMs !== null && unfinishedMs === null) return { kind: 'finishes', because: 'observed' };
  // systemd kills it before the grace period that its manifest sets.
  if ((ownTimeoutMs ?? Number.POSITIVE_INFINITY) < ownMs && !isOwnDefault) {
    return { ...cannot, because: 'stop-timeout', needsMs: ownMs };
  }
  const declaredMs = ownTimeoutMs ?? ownMs;
  const because = ownTimeoutMs === null ? 'declared' : 'stop-timeout';
  if (declaredMs <= getsMs) return { kind: 'finishes', because };
  return { kind: 'may-need-more', because, needsMs: Number.isFinite(declaredMs) ? declaredMs : null };
}

type Lasted = Pick<ObservedStops, 'endedMs' | 'unfinishedMs'>;
const NEVER_STOPPED: Lasted = { endedMs: null, unfinishedMs: null };

/** A unit that used up its TimeoutStopSec did not end on its own: systemd killed it. */
function heldAgainst(timeoutMs: number | null, { endedMs, unfinishedMs }: Lasted): Lasted {
  const killedMs = timeoutMs ?? Number.POSITIVE_INFINITY;
  if ((endedMs ?? 0) < killedMs) return { endedMs, unfinishedMs };
  return { endedMs: null, unfinishedMs: Math.max(killedMs, unfinishedMs ?? 0) };
}
