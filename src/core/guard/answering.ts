import type { MonoMs } from '../reading.ts';
import type { GuardOutcome } from './observation.ts';
import type { Answering, GuardState } from './state.ts';

/** What accepted orders bring, once it is known what became of their answers: a person may have taken an order back. */
export function stepAnswering(before: GuardState, outcomes: readonly GuardOutcome[], atMs: MonoMs): GuardState {
  let state = before;
  for (const { of, store } of outcomes) {
    const brings = state.answering.get(of);
    if (brings === undefined || store === null) continue;
    const answering = new Map(state.answering);
    answering.delete(of);
    state = {
      ...(store.kind === 'stored' ? inForce(state, brings, atMs) : dropped(state, brings, store.kind)),
      answering,
    };
  }
  return state;
}

function inForce(state: GuardState, brings: Answering, atMs: MonoMs): GuardState {
  switch (brings.verb) {
    case 'pause':
      return state;
    case 'resume':
      return { ...state, paused: null };
    case 'release': {
      const lasting = state.releases.filter(({ untilMs }) => untilMs > atMs);
      return { ...state, releases: [...lasting, brings.release] };
    }
  }
}

/** `failed`: the person may read the answer all the same, and relies on a pause. */
function dropped(state: GuardState, brings: Answering, end: 'conflict' | 'failed'): GuardState {
  if (brings.verb !== 'pause' || end === 'failed' || state.paused !== brings.paused) return state;
  return { ...state, paused: brings.before };
}

/** What it brings by itself: a pause is in force before its answer, so that it is kept before a person relies on it. */
export function withAnswering(before: GuardState, answer: string, brings: Answering): GuardState {
  const state = { ...before, answering: new Map(before.answering).set(answer, brings) };
  return brings.verb === 'pause' ? { ...state, paused: brings.paused } : state;
}

/** Whether there is a pause is not known yet. */
export const isPauseAnswered = ({ answering }: GuardState): boolean =>
  [...answering.values()].some(({ verb }) => verb !== 'release');
