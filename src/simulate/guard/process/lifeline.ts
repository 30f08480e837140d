import type { GuardName } from '../facts.ts';
import type { World } from '../world.ts';

/**
 * One process of a guard, as long as it lives. Whatever comes back to it comes through here: nothing reaches a process that
 * ended, and a paused one finds everything at once when it goes on.
 */
export type Lifeline = {
  readonly isAlive: () => boolean;
  readonly end: () => void;
  readonly pause: () => void;
  readonly resume: () => void;
  /** Now, or when it goes on; never if it has ended. */
  readonly deliver: (act: () => void) => void;
  readonly after: (ms: number, act: () => void) => void;
};

export function createLifeline(agenda: World['agenda']): Lifeline {
  let isAlive = true;
  let waiting: (() => void)[] | null = null;
  const deliver = (act: () => void): void => {
    if (!isAlive) return;
    if (waiting === null) act();
    else waiting.push(act);
  };
  return {
    isAlive: () => isAlive,
    end: () => {
      isAlive = false;
    },
    pause: () => {
      waiting ??= [];
    },
    resume: () => {
      const missed = waiting ?? [];
      waiting = null;
      for (const act of missed) deliver(act);
    },
    deliver,
    after: (ms, act) => agenda.after(ms, () => deliver(act)),
  };
}

/** A guard's clocks. Each machine counts from its own boot: a time of one means nothing to another (G7). */
export type Clocks = {
  readonly monoMs: () => number;
  readonly wallMs: () => number;
  /** The wall clock was set. */
  readonly step: (ms: number) => void;
};
/** 2026-01-01. */
const WALL_START_MS = 1_767_225_600_000;

export function createClocks(agenda: World['agenda'], bootedBeforeMs: number): Clocks {
  let steppedMs = 0;
  return {
    monoMs: () => agenda.now() + bootedBeforeMs,
    wallMs: () => WALL_START_MS + agenda.now() + steppedMs,
    step: (ms) => {
      steppedMs += ms;
    },
  };
}

/** A request to the API server: what it does there, and what comes back. */
export type Client = {
  /** `act` runs at the server; null = no answer within the deadline, though the server may have done it. */
  readonly ask: <T>(act: () => T, answered: (answer: T | null) => void, deadlineMs?: number) => void;
};
export const CALL_DEADLINE_MS = 5_000;

export function createClient(
  { agenda, api }: Pick<World, 'agenda' | 'api'>,
  lifeline: Lifeline,
  reach: { readonly isConnected: () => boolean; readonly takesMs: number; readonly slowTakesMs: number },
): Client {
  const isReached = (): boolean => reach.isConnected() && api.mode() !== 'down';
  return {
    ask: (act, answered, deadlineMs = CALL_DEADLINE_MS) => {
      const timeOut = (): void => lifeline.after(deadlineMs, () => answered(null));
      if (!isReached()) return timeOut();
      const halfMs = (api.mode() === 'slow' ? reach.slowTakesMs : reach.takesMs) / 2;
      agenda.after(halfMs, () => {
        if (!isReached()) return lifeline.after(deadlineMs - halfMs, () => answered(null));
        const answer = act();
        const isBack = (): boolean => isReached() && halfMs * 2 <= deadlineMs;
        agenda.after(halfMs, () => {
          if (isBack()) lifeline.deliver(() => answered(answer));
          else lifeline.after(Math.max(0, deadlineMs - halfMs * 2), () => answered(null));
        });
      });
    },
  };
}

export type Identity = {
  readonly name: GuardName;
  /** Another one for each process. */
  readonly writer: string;
  /** Null: outside the cluster. */
  readonly node: string | null;
};
