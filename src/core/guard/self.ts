import type { MonoMs } from '../reading.ts';
import type { GuardConfig } from './config.ts';
import { renewalMs, USUAL_RENEWAL_MS } from './health.ts';
import type { GuardObservation } from './observation.ts';
import type { GuardState, SelfMemory, SettlesFor } from './state.ts';

/** No answered read for this long, or no own write: the API is away (guard.md 6.2). */
export const READ_AWAY_MS = 15_000;
export const WRITE_AWAY_MS = 10_000;
/** Beyond one renewal, a sign of life is seen within this. */
const SIGN_SEEN_MS = 10_000;
/** Authority that ends sooner is not enough for an act. */
export const LEAST_AUTHORITY_MS = 3_000;
/** Clocks that went so far apart since the last look: the process slept, or a clock was set. */
const JUMP_MS = 2_000;
/** With more of them, a wait ends sooner. */
const MOST_AWAY = 100;

export type SelfStep = {
  readonly self: SelfMemory;
  /** What happened since the last look is not known: every age begins again. */
  readonly startsAnew: boolean;
  readonly isJumped: boolean;
};

/** G6: what this look says about the guard itself. */
export function stepSelf(before: SelfMemory, observation: GuardObservation, { settleMs }: GuardConfig): SelfStep {
  const { atMs, nodes } = observation;
  const clocks = clocksOf(observation);
  const isJumped = hasJumped(before, observation);
  const readMs = nodes.known ? nodes.value.asOfMs : before.readMs;
  const isBack = readMs !== null && readMs - (before.readMs ?? before.startedMs) > READ_AWAY_MS;
  const startsAnew = isJumped || isBack;
  const moved = { ...before, clocks, readMs, anySignMs: startsAnew ? null : before.anySignMs };
  const elected = withElection(moved, observation, settleMs, isJumped);
  if (!startsAnew) return { self: elected, startsAnew, isJumped };
  return { self: settle(elected, isJumped ? 'clock-jump' : 'api-return', atMs, settleMs), startsAnew, isJumped };
}

/**
 * No sign from any node for this long: what is read is stale, whatever its status codes say. Of those that live, the one that
 * renews its lease most often is missed first.
 */
export function staleMs(nodes: GuardState['nodes']): number {
  let leastMs = Number.POSITIVE_INFINITY;
  for (const { lease, isSuspect } of nodes.values())
    if (!isSuspect && lease !== null) leastMs = Math.min(leastMs, renewalMs(lease));
  return SIGN_SEEN_MS + (Number.isFinite(leastMs) ? Math.max(USUAL_RENEWAL_MS, leastMs) : USUAL_RENEWAL_MS);
}

/** A sign of any node after a time without one: the read path was stale until now. `nodes`: as they were before it. */
export function withSign(
  self: SelfMemory,
  atMs: MonoMs,
  nodes: GuardState['nodes'],
  { settleMs }: Pick<GuardConfig, 'settleMs'>,
): SelfStep {
  const isBack = self.anySignMs !== null && atMs - self.anySignMs > staleMs(nodes);
  const signed = { ...self, anySignMs: atMs };
  return {
    self: isBack ? settle(signed, 'api-return', atMs, settleMs) : signed,
    startsAnew: isBack,
    isJumped: false,
  };
}

/** It leads, and has read what earlier leaders kept: before, nothing may take the place of that. */
export const isAdopted = (
  { self: { adoptedMs } }: Pick<GuardState, 'self'>,
  { leadership }: Pick<GuardObservation['self'], 'leadership'>,
): boolean => leadership.isLeader && adoptedMs === leadership.sinceMs;

type Clocks = NonNullable<SelfMemory['clocks']>;
const clocksOf = ({ atMs, wallMs, self: { uptimeMs } }: GuardObservation): Clocks => ({ atMs, wallMs, uptimeMs });

/** Since the last look the process slept, or a clock was set. */
export const hasJumped = ({ clocks }: SelfMemory, observation: GuardObservation): boolean =>
  clocks !== null && clocksApart(clocks, clocksOf(observation));

/** The wall clock or `/proc/uptime` went otherwise than the monotonic clock: this process slept, or a clock was set. */
function clocksApart(before: Clocks, now: Clocks): boolean {
  const wentMs = now.atMs - before.atMs;
  const isApart = (clockMs: number): boolean => Math.abs(clockMs - wentMs) >= JUMP_MS;
  return isApart(now.wallMs - before.wallMs) || isApart(now.uptimeMs - before.uptimeMs);
}

function withElection(
  self: SelfMemory,
  { atMs, self: { leadership } }: GuardObservation,
  settleMs: number,
  isJumped: boolean,
): SelfMemory {
  if (!leadership.isLeader) return self;
  const { sinceMs, authorityUntilMs } = leadership;
  const ledUntilMs = isJumped ? self.ledUntilMs : Math.min(atMs, authorityUntilMs);
  if (sinceMs === self.electedMs) return { ...self, ledUntilMs };
  const gap = { fromMs: self.ledUntilMs ?? Number.NEGATIVE_INFINITY, untilMs: sinceMs };
  const away = [...self.away, gap].slice(-MOST_AWAY);
  return settle({ ...self, electedMs: sinceMs, ledUntilMs, away }, 'election', sinceMs, settleMs);
}

function settle(self: SelfMemory, settlesFor: SettlesFor, fromMs: MonoMs, settleMs: number): SelfMemory {
  const settlesMs = fromMs + settleMs;
  return settlesMs > self.settlesMs ? { ...self, settlesMs, settlesFor } : self;
}
