import { decide } from './core/decide.ts';
import type { ShutdownEvent } from './core/observation.ts';
import type { Outcome } from './core/outcome.ts';
import type { State } from './core/state.ts';
import type { NextLook } from './core/verdict.ts';
import type { Clock, Inbox, Parts } from './ports.ts';

/** At most one wait at a time: one resolver and one timer, so that years of waiting leave nothing behind. */
export function createInbox(clock: Clock): Inbox {
  let outcomes: Outcome[] = [];
  let events: ShutdownEvent[] = [];
  let isAwake = false;
  let end: (() => void) | null = null;
  const wake = (): void => {
    isAwake = true;
    end?.();
  };
  return {
    put: (item) => {
      if ('of' in item) outcomes.push(item);
      else events.push(item);
      wake();
    },
    drain: () => {
      const arrived = { outcomes, events };
      outcomes = [];
      events = [];
      return arrived;
    },
    wake,
    wait: (ms) =>
      new Promise((resolve) => {
        // Even when awake the event loop must turn: effects and samples run beside the loop.
        const cancel = clock.after(isAwake ? 0 : ms, () => end?.());
        end = () => {
          cancel();
          end = null;
          isAwake = false;
          resolve();
        };
      }),
  };
}

/** Live, dry, simulated or rehearsed: the only writer of the state. */
export async function runLoop(saved: State, parts: Parts, stop: AbortSignal): Promise<State> {
  let state = saved;
  let next: NextLook = { afterMs: 0, pods: null };
  while (!stop.aborted) {
    const observation = parts.observer.look(next, parts.inbox.drain());
    const verdict = decide(state, observation, parts.config());
    state = verdict.state;
    if (verdict.decisions.length > 0) {
      const recorded = parts.recorder.intent({ observation, verdict }, verdict.intentWaitMs);
      if (parts.prepare !== undefined) for (const decision of verdict.decisions) parts.prepare(decision);
      // A condition alone sends no signal, and the look that chooses the victim must not wait for it.
      if (verdict.decisions.some(({ kind }) => kind !== 'set-condition')) await recorded;
    } else parts.recorder.keep(state);
    for (const decision of verdict.decisions) parts.begin(decision);
    parts.publish(observation, verdict);
    next = verdict.next;
    await parts.inbox.wait(next.afterMs);
  }
  return state;
}
