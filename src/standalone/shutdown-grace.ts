import type { MonoMs } from '../core/reading.ts';
import { graceFrom, type Turn, turnOf } from '../core/shutdown/chain.ts';
import type { Clock, StopOrder } from '../ports.ts';

type GraceNeeds = {
  readonly clock: Clock;
  /** The machine stays up. */
  readonly isCancelled: () => boolean;
  /** Another pod that is asked to stop waits for its turn after this one. */
  readonly isAwaited: () => boolean;
  /** The grace period that the pod declares. */
  readonly declaredMs: number;
};
/** The time of one pod that a shutdown stops. A cancel extends it to what the pod declares, and only its next stop cuts that. */
export type ShutdownGrace = {
  /** The current minimum of its grace period that began at `toldMs`. */
  readonly leastMs: (toldMs: MonoMs) => number;
  readonly isTakenOver: () => boolean;
  /** The next shutdown stops it, too: its time is that of its turn there, from now. */
  readonly stopsAgain: (order: StopOrder) => void;
};

export function createShutdownGrace(needs: GraceNeeds, order: StopOrder): ShutdownGrace {
  const { clock, isCancelled, declaredMs } = needs;
  let turn = turnOfOrder(order, clock.monoMs());
  /** When its time in this turn began; null: when it was told. */
  let sinceMs: MonoMs | null = null;
  let isExtended = false;
  return {
    leastMs: (toldMs) => {
      const fromMs = sinceMs ?? toldMs;
      // A share of the phase is for those that wait: where nobody does, ending it sooner frees nobody's time.
      const wholeMs = needs.isAwaited() ? 0 : Math.min(turn.graceMs, turn.endsMs - fromMs);
      const leastMs = fromMs - toldMs + Math.max(graceFrom(turn, fromMs), wholeMs);
      // The phase that granted it less time is over: nothing waits for it.
      isExtended ||= isCancelled();
      return isExtended ? Math.max(leastMs, declaredMs) : leastMs;
    },
    isTakenOver: () => sinceMs !== null,
    stopsAgain: (again) => {
      sinceMs = clock.monoMs();
      turn = turnOfOrder(again, sinceMs);
      isExtended = false;
    },
  };
}

export function turnOfOrder({ turn, graceMs }: Pick<StopOrder, 'turn' | 'graceMs'>, nowMs: MonoMs): Turn {
  return turn ?? turnOf(graceMs / 1_000, undefined, { atMs: nowMs, endsMs: nowMs + graceMs });
}
