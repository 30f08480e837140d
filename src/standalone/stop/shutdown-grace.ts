import type { MonoMs } from '../../core/reading.ts';
import { graceFrom, type Turn, turnOf } from '../../core/shutdown/chain.ts';
import type { Clock, StopOrder } from '../../ports.ts';

type GraceNeeds = {
  readonly clock: Clock;
  /** Aborted once the shutdown that stops it is cancelled. */
  readonly cancel: AbortSignal;
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
  readonly turn: () => Turn;
  /** The shutdown that stops it was cancelled, even if the next one has been announced since. */
  readonly isCancelled: () => boolean;
  /** The next shutdown stops it, too: its time is that of its turn there, from now. */
  readonly stopsAgain: (order: StopOrder, cancel: AbortSignal) => void;
};

export function createShutdownGrace(needs: GraceNeeds, order: StopOrder): ShutdownGrace {
  const { clock, declaredMs } = needs;
  let { cancel } = needs;
  let turn = turnOfOrder(order, clock.monoMs());
  /** When its time in this turn began; null: when it was told. */
  let sinceMs: MonoMs | null = null;
  return {
    leastMs: (toldMs) => {
      const fromMs = Math.max(sinceMs ?? toldMs, toldMs);
      // A share of the phase is for those that wait: where nobody does, ending it sooner frees nobody's time.
      const wholeMs = needs.isAwaited() ? 0 : Math.min(turn.graceMs, turn.endsMs - fromMs);
      const leastMs = fromMs - toldMs + Math.max(graceFrom(turn, fromMs), wholeMs);
      // The phase that granted it less time is over: nothing waits for it.
      return cancel.aborted ? Math.max(leastMs, declaredMs) : leastMs;
    },
    isTakenOver: () => sinceMs !== null,
    turn: () => turn,
    isCancelled: () => cancel.aborted,
    stopsAgain: (again, theirs) => {
      sinceMs = clock.monoMs();
      turn = turnOfOrder(again, sinceMs);
      cancel = theirs;
    },
  };
}

export function turnOfOrder({ turn, graceMs }: Pick<StopOrder, 'turn' | 'graceMs'>, nowMs: MonoMs): Turn {
  return turn ?? turnOf(graceMs / 1_000, undefined, { atMs: nowMs, endsMs: nowMs + graceMs });
}
