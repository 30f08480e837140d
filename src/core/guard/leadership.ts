import type { MonoMs, Reading } from '../reading.ts';
import type { Dated, HeldBack, LeadershipView } from './observation.ts';

/** client-go's three numbers (guard.md 7.1). */
export const LEASE_DURATION_MS = 15_000;
export const AUTHORITY_MS = 10_000;
const RENEW_EVERY_MS = 2_000;
/** A candidate with another configuration waits for this long: whoever had the other one is not coming back. */
export const CONFIG_DIFFERS_MS = 300_000;

/** The Lease `nodewarden-guard`. `holder` '': given back. */
export type LeaderLease = {
  readonly holder: string;
  readonly transitions: number;
  /** Hash of the effective configuration of its holder. */
  readonly configHash: string;
  /** Its resourceVersion. */
  readonly version: string;
};

export type LeaseWritten =
  | { readonly kind: 'stored'; readonly lease: LeaderLease }
  | { readonly kind: 'conflict' | 'failed' };

export type LeadershipState = {
  /** What was read last, and the `asOfMs` of the first read that had it like this; null: nothing read yet. */
  readonly watched: { readonly lease: LeaderLease | null; readonly sinceMs: MonoMs; readonly asOfMs: MonoMs } | null;
  /** What was read before this says nothing any more: a write has ended since, or the clock jumped. */
  readonly readsCountFromMs: MonoMs;
  /** `sentMs`: when the last successful write was sent. */
  readonly held: { readonly epoch: number; readonly sinceMs: MonoMs; readonly sentMs: MonoMs } | null;
  /** A write that is under way. */
  readonly writing: { readonly sentMs: MonoMs; readonly epoch: number; readonly isRelease: boolean } | null;
  /** Not a candidate before this. */
  readonly notBeforeMs: MonoMs;
};

export type LeadershipObservation = {
  readonly atMs: MonoMs;
  /** The identity of this process: `SelfView.writer`. */
  readonly writer: string;
  readonly configHash: string;
  /** As last read, however often it is given; the value is null if there is no Lease. */
  readonly lease: Reading<Dated<LeaderLease | null>>;
  /** How the write that was sent then ended, once. `lease`: as the API answered. */
  readonly wrote: ({ readonly sentMs: MonoMs } & LeaseWritten) | null;
  /** The highest epoch of any record: a Lease that was deleted by hand begins above it. */
  readonly recordsEpoch: number;
  /** The process slept or its clock was set: authority is dropped. */
  readonly isJumped: boolean;
  /** Give the lease back, and do not run for this long; null: stay. 0: on the way out. */
  readonly resignForMs: number | null;
};

export type LeadershipStep = {
  readonly state: LeadershipState;
  readonly view: LeadershipView;
  /** To be written now, as an update of `replaces` or, if that is null, a creation; `renewTime` is the writer's. */
  readonly write: { readonly lease: Omit<LeaderLease, 'version'>; readonly replaces: string | null } | null;
  /** Read the Lease, at the next step at the latest. */
  readonly wantsRead: boolean;
  /** Why it does not run though nobody leads. */
  readonly heldBack: HeldBack | null;
  readonly afterMs: number;
};

export function initialLeadership(atMs: MonoMs): LeadershipState {
  return { watched: null, readsCountFromMs: atMs, held: null, writing: null, notBeforeMs: atMs };
}

/** One step of guard.md 7.1, for the daemon and the simulator alike. At most one write is under way. */
export function stepLeadership(before: LeadershipState, observation: LeadershipObservation): LeadershipStep {
  const state = withoutAuthority(withWatched(withWritten(before, observation), observation), observation);
  const view: LeadershipView =
    state.held === null
      ? { isLeader: false }
      : {
          isLeader: true,
          epoch: state.held.epoch,
          sinceMs: state.held.sinceMs,
          authorityUntilMs: state.held.sentMs + AUTHORITY_MS,
        };
  if (state.writing !== null) return { state, view, write: null, wantsRead: false, heldBack: null, afterMs: 500 };
  if (observation.resignForMs !== null) return resign(state, observation, observation.resignForMs);
  if (state.held !== null) return renew(state, state.held, view, observation);
  const heldBack = state.watched === null ? null : whyHeldBack(state, state.watched, observation);
  const waiting = heldBack === null ? view : whileHeldBack(heldBack, state, observation);
  const step = { state, view: waiting, write: null, wantsRead: true, heldBack, afterMs: RENEW_EVERY_MS } as const;
  const { watched } = state;
  if (watched === null || heldBack !== null || !isFree(watched, observation.writer)) return step;
  const isOwn = watched.lease?.holder === observation.writer;
  const transitions = isOwn
    ? (watched.lease?.transitions ?? 0)
    : Math.max(watched.lease?.transitions ?? 0, observation.recordsEpoch) + 1;
  return { ...write(state, observation, observation.writer, transitions), view, heldBack: null, afterMs: 500 };
}

type Watched = NonNullable<LeadershipState['watched']>;

/** Given back, its own, or watched unchanged for as long as it lasts. A missing one may have been deleted under a leader. */
function isFree({ lease, sinceMs, asOfMs }: Watched, writer: string): boolean {
  return lease?.holder === '' || lease?.holder === writer || asOfMs - sinceMs >= LEASE_DURATION_MS;
}

function whyHeldBack(
  { notBeforeMs }: LeadershipState,
  { lease, sinceMs, asOfMs }: Watched,
  { atMs, configHash, writer }: LeadershipObservation,
): LeadershipStep['heldBack'] {
  if (atMs < notBeforeMs) return 'resigned';
  // Its own configuration may be another one by now.
  if (lease === null || lease.holder === '' || lease.holder === writer || lease.configHash === configHash) return null;
  return asOfMs - sinceMs < CONFIG_DIFFERS_MS ? 'config-differs' : null;
}

/** Whether somebody leads is known by a read of now. */
function whileHeldBack(
  why: HeldBack,
  { watched, notBeforeMs }: LeadershipState,
  { atMs, writer }: LeadershipObservation,
): LeadershipView {
  const isNobody = watched !== null && isFree(watched, writer) && atMs - watched.asOfMs < LEASE_DURATION_MS;
  if (!isNobody) return { isLeader: false };
  return {
    isLeader: false,
    runs: { why, fromMs: why === 'resigned' ? notBeforeMs : watched.sinceMs + CONFIG_DIFFERS_MS },
  };
}

function withWritten(state: LeadershipState, { atMs, wrote }: LeadershipObservation): LeadershipState {
  const { writing } = state;
  // A process that was paused may have given up a write, and sent the next one, before it reads the answer to the first.
  if (wrote === null || writing === null || wrote.sentMs !== writing.sentMs) return state;
  if (wrote.kind !== 'stored') {
    // After an error nobody knows what the Lease is: it is read before the next write.
    const held = wrote.kind === 'conflict' ? null : state.held;
    return { ...state, writing: null, watched: null, readsCountFromMs: atMs, held };
  }
  const { sentMs, epoch, isRelease } = writing;
  const watched = { lease: wrote.lease, sinceMs: atMs, asOfMs: atMs };
  if (isRelease) return { ...state, writing: null, watched, held: null };
  const sinceMs = state.held?.epoch === epoch ? state.held.sinceMs : atMs;
  return { ...state, writing: null, watched, held: { epoch, sinceMs, sentMs } };
}

function withWatched(state: LeadershipState, { lease, writer }: LeadershipObservation): LeadershipState {
  if (!lease.known) return state;
  const { value, asOfMs } = lease.value;
  if (asOfMs < state.readsCountFromMs || (state.watched !== null && asOfMs <= state.watched.asOfMs)) return state;
  const isSame = state.watched !== null && state.watched.lease?.version === value?.version;
  const sinceMs = isSame && state.watched !== null ? state.watched.sinceMs : asOfMs;
  const held = value?.holder === writer ? state.held : null;
  return { ...state, watched: { lease: value, sinceMs, asOfMs }, held: state.writing === null ? held : state.held };
}

/** Authority ends by the own clock, and at once if that clock cannot be trusted. */
function withoutAuthority(state: LeadershipState, { atMs, isJumped }: LeadershipObservation): LeadershipState {
  const { held, writing } = state;
  if (isJumped) return { ...state, held: null, writing: null, watched: null, readsCountFromMs: atMs };
  const isOver = held !== null && atMs >= held.sentMs + AUTHORITY_MS;
  // A write that is never answered must not keep it from running again.
  const isLost = writing !== null && atMs - writing.sentMs > AUTHORITY_MS;
  return isOver || isLost ? { ...state, held: isOver ? null : held, writing: isLost ? null : writing } : state;
}

function renew(
  state: LeadershipState,
  { epoch, sentMs }: NonNullable<LeadershipState['held']>,
  view: LeadershipView,
  observation: LeadershipObservation,
): LeadershipStep {
  const dueMs = sentMs + RENEW_EVERY_MS - observation.atMs;
  const quiet = { state, view, write: null, heldBack: null } as const;
  if (state.watched === null) return { ...quiet, wantsRead: true, afterMs: 500 };
  if (dueMs > 0) return { ...quiet, wantsRead: false, afterMs: dueMs };
  return { ...write(state, observation, observation.writer, epoch), view, heldBack: null, afterMs: 500 };
}

/** Authority ends at once; the lease is given back if it is still the own one. */
function resign(state: LeadershipState, observation: LeadershipObservation, forMs: number): LeadershipStep {
  const { held, watched } = state;
  const resigned = { ...state, held: null, notBeforeMs: Math.max(state.notBeforeMs, observation.atMs + forMs) };
  const view = { isLeader: false } as const;
  const said = { view, heldBack: 'resigned', afterMs: RENEW_EVERY_MS } as const;
  if (held === null || watched?.lease?.holder !== observation.writer) {
    return { ...said, state: resigned, write: null, wantsRead: true };
  }
  return { ...said, ...write(resigned, observation, '', held.epoch) };
}

function write(
  state: LeadershipState,
  { atMs, configHash }: LeadershipObservation,
  holder: string,
  transitions: number,
): Pick<LeadershipStep, 'state' | 'write' | 'wantsRead'> {
  return {
    state: { ...state, writing: { sentMs: atMs, epoch: transitions, isRelease: holder === '' } },
    write: { lease: { holder, transitions, configHash }, replaces: state.watched?.lease?.version ?? null },
    wantsRead: false,
  };
}
