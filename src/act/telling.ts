import type { Outcome, Signalled } from '../core/outcome.ts';
import type { Clock } from '../ports.ts';

type SignalHeard = (how: Signalled['with']) => void;
export type Telling = ReturnType<typeof tellingOnce>;

/**
 * Reports an eviction once the API accepted it or the first signal was sent, so never one that a budget refused. It runs after
 * the signals of this turn of the event loop, because it takes time.
 */
export function tellingOnce({ clock }: { readonly clock: Clock }, tell: () => void) {
  let isTold = false;
  const now = (): void => {
    if (!isTold) tell();
    isTold = true;
  };
  return {
    now,
    signalled:
      (next: SignalHeard): SignalHeard =>
      (how) => {
        next(how);
        // It may have ended unasked: then its outcome tells.
        if (!isTold && how !== 'unmount') clock.after(0, now);
      },
    outcome: (outcome: Outcome): Outcome => {
      if (outcome.kind === 'ended') now();
      return outcome;
    },
  };
}
