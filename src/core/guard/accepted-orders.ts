import type { MonoMs } from '../reading.ts';
import type { GuardDecision, OrderAnswer } from './decision.ts';
import type { GuardObservation, GuardOutcome, Order } from './observation.ts';
import type { Answering, Carried, GuardState } from './state.ts';

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

/** So long after its answer an order is carried out; the command that gave it waits 30 s. */
const CARRY_MS = 25_000;
const AGAIN_MS = 1_000;

/** What became of the answers of accepted orders, and of the records that carry them out. */
export function stepCarried(state: GuardState, outcomes: readonly GuardOutcome[]): GuardState {
  if (state.carried.size === 0 || outcomes.length === 0) return state;
  const carried = new Map(state.carried);
  for (const { of, store, atMs } of outcomes) {
    for (const [id, one] of carried) {
      if (one.answer === of) {
        // A person has taken it back, or may not know of it.
        if (store?.kind === 'stored') carried.set(id, { ...one, isAnswered: true });
        else carried.delete(id);
      } else if (one.by === of) {
        if (store?.kind === 'stored') carried.delete(id);
        else carried.set(id, { ...one, lostMs: atMs });
      }
    }
  }
  return { ...state, carried };
}

/** `sinceMs`: when it was first accepted. */
export function withCarried(
  state: GuardState,
  order: Order,
  by: GuardDecision | undefined,
  answer: string,
  sinceMs: MonoMs,
): GuardState {
  if (by === undefined || !('record' in by)) return state;
  const { id, fencing, record } = by;
  const one: Carried = {
    ...{ order, answer, by: id, fencing, revision: record.revision, sinceMs },
    ...{ isAnswered: false, lostMs: null },
  };
  return { ...state, carried: new Map(state.carried).set(order.id, one) };
}

export function withoutCarried(state: GuardState, id: string): GuardState {
  const carried = new Map(state.carried);
  carried.delete(id);
  return { ...state, carried };
}

/**
 * An order that a person was told is accepted, and whose record was not stored: whether it is decided `again` or `dropped`, or
 * was stored all the same (`done`).
 */
export function lostOf(
  { isAnswered, lostMs, fencing, revision, sinceMs }: Carried,
  { records, atMs }: Pick<GuardObservation, 'records' | 'atMs'>,
): 'waits' | 'done' | 'again' | 'dropped' {
  if (!isAnswered || lostMs === null || atMs < lostMs + AGAIN_MS || !records.known) return 'waits';
  const stored = records.value.find(({ id }) => id === fencing)?.record;
  if (stored !== undefined && stored !== null && stored.revision >= revision) return 'done';
  return atMs - sinceMs < CARRY_MS ? 'again' : 'dropped';
}

export const NOT_STORED: OrderAnswer & { readonly isAccepted: false } = {
  ...{ isAccepted: false, gate: null, why: 'not-stored' },
};
