/** How the last stops of a pod went. */
export type ObservedStops = {
  /** How many are counted, at least 1. */
  readonly stops: number;
  /** The longest that ended by itself; null: none did. */
  readonly endedMs: number | null;
  /** The longest time that one of them was given and did not end in; null: none. */
  readonly unfinishedMs: number | null;
};
/** `declared`: terminationGracePeriodSeconds; `stop-timeout`: TimeoutStopSec of its unit. */
export type StopVerdict =
  | { readonly kind: 'finishes'; readonly because: 'observed' | 'declared' | 'stop-timeout' }
  /** It declares more than it gets, or needs more should those before it take all their time. */
  | {
      readonly kind: 'may-need-more';
      readonly because: 'observed' | 'declared' | 'stop-timeout';
      readonly needsMs: number | null;
    }
  | {
      readonly kind: 'cannot-finish';
      readonly because: 'observed' | 'declared' | 'stop-timeout';
      /** null: nobody knows, only that it is more than what it had. */
      readonly needsMs: number | null;
    };

/** What Kubernetes gives where nobody wrote a terminationGracePeriodSeconds. */
const NOBODYS_GRACE_MS = 30_000;
type Gets = { readonly leastMs: number; readonly mostMs: number };
type Wants = { readonly ownMs: number; readonly timeoutMs: number | null; readonly isTimeoutOwn: boolean };

/**
 * What was seen counts more than what is declared. Of what is declared a TimeoutStopSec of the unit's own counts more
 * than a terminationGracePeriodSeconds, which is 30 where nobody wrote one; systemd's default says nothing.
 */
export function verdictOf(
  { leastMs: getsMs, mostMs }: Gets,
  wants: Wants,
  observed: ObservedStops | null,
): StopVerdict {
  const { ownMs, timeoutMs, isTimeoutOwn } = wants;
  const { endedMs, unfinishedMs } = heldAgainst(timeoutMs, observed);
  const cannot = { kind: 'cannot-finish' } as const;
  const seen = { because: 'observed', needsMs: endedMs !== null && endedMs > getsMs ? endedMs : null } as const;
  const isBeyond = (ms: number): boolean =>
    (endedMs !== null && endedMs > ms) || (unfinishedMs !== null && unfinishedMs >= ms);
  if (isBeyond(mostMs)) return { ...cannot, ...seen };
  if (isBeyond(getsMs)) return { kind: 'may-need-more', ...seen };
  if (endedMs !== null && unfinishedMs === null) return { kind: 'finishes', because: 'observed' };
  // Systemd kills it before the grace that somebody wrote for it.
  if (isTimeoutOwn && timeoutMs !== null && timeoutMs < ownMs && ownMs !== NOBODYS_GRACE_MS && getsMs < ownMs) {
    return { ...cannot, because: 'stop-timeout', needsMs: ownMs };
  }
  const declaredMs = isTimeoutOwn && timeoutMs !== null ? timeoutMs : ownMs;
  const because = isTimeoutOwn ? 'stop-timeout' : 'declared';
  if (declaredMs <= getsMs) return { kind: 'finishes', because };
  return { kind: 'may-need-more', because, needsMs: Number.isFinite(declaredMs) ? declaredMs : null };
}

/** A unit that took all of its TimeoutStopSec did not end by itself: systemd killed it. */
function heldAgainst(
  timeoutMs: number | null,
  observed: ObservedStops | null,
): Pick<ObservedStops, 'endedMs' | 'unfinishedMs'> {
  if (observed === null) return { endedMs: null, unfinishedMs: null };
  const { endedMs, unfinishedMs } = observed;
  if (endedMs === null || timeoutMs === null || endedMs < timeoutMs) return { endedMs, unfinishedMs };
  return { endedMs: null, unfinishedMs: Math.max(timeoutMs, unfinishedMs ?? 0) };
}
