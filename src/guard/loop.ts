import type { GuardConfig } from '../core/guard/config.ts';
import { decideGuard } from '../core/guard/decide.ts';
import type { GuardVerdict, NextGuardLook } from '../core/guard/decision.ts';
import { LOOK_WAIT_MS, NEWS_APART_MS } from '../core/guard/next-look.ts';
import type { GuardObservation } from '../core/guard/observation.ts';
import { type GuardState, initialGuardState } from '../core/guard/state.ts';
import type { Clock } from '../ports.ts';

/** A look: what was observed, and what followed. */
export type GuardLook = {
  readonly observation: GuardObservation;
  readonly verdict: GuardVerdict;
  readonly config: GuardConfig;
};
export type GuardLoop = {
  /** News: the next decision is due at once, and once for all news of a moment. */
  readonly poke: () => void;
  readonly close: () => void;
};

type LoopNeeds = {
  readonly clock: Clock;
  readonly config: () => GuardConfig;
  /** Begins to read what is due and what the last verdict wants; resolves when that is there, or will not come. */
  readonly refresh: (next: NextGuardLook | null) => Promise<void>;
  readonly observe: () => GuardObservation;
  /** Carries out, tells and shows. */
  readonly decided: (look: GuardLook) => void;
};

const LEAST_MS = 10;

/** Look, decide, hand over, sleep: the only one that changes the state. */
export function startLoop({ clock, config, refresh, observe, decided }: LoopNeeds): GuardLoop {
  let state: GuardState = initialGuardState(clock.monoMs(), config().settleMs);
  let next: NextGuardLook | null = null;
  let turn = 0;
  let isPoked = false;
  let isClosed = false;
  let decidedMs = Number.NEGATIVE_INFINITY;
  /** When the next look is due at the latest: news that come again and again do not put it off. */
  let dueMs = Number.POSITIVE_INFINITY;
  let cancel = (): void => undefined;

  function look(): void {
    turn += 1;
    dueMs = Number.POSITIVE_INFINITY;
    const mine = turn;
    const goOn = (): void => {
      if (turn === mine) decide();
    };
    cancel = clock.after(LOOK_WAIT_MS, goOn);
    void refresh(next).then(goOn);
  }

  function decide(): void {
    if (isClosed) return;
    cancel();
    isPoked = false;
    turn += 1;
    const observation = observe();
    const verdict = decideGuard(state, observation, config());
    ({ state, next } = verdict);
    decided({ observation, verdict, config: config() });
    const nowMs = clock.monoMs();
    decidedMs = nowMs;
    dueMs = Math.min(dueMs, nowMs + Math.max(LEAST_MS, verdict.next.afterMs));
    cancel = clock.after(Math.max(0, dueMs - nowMs), look);
  }

  look();
  return {
    poke: () => {
      if (isPoked || isClosed) return;
      isPoked = true;
      clock.after(Math.max(0, decidedMs + NEWS_APART_MS - clock.monoMs()), decide);
    },
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}
