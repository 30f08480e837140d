import type { Hasten } from '../core/eviction/hasten.ts';
import { givenSeconds } from '../core/pod/grace.ts';
import type { MonoMs } from '../core/reading.ts';
import { LAST_WORD_MS } from '../core/shutdown/chain.ts';
import type { Clock } from '../ports.ts';

type GraceOrder = {
  readonly clock: Clock;
  /** 0 or less: 2 s, as in the kubelet. */
  readonly graceMs: number;
  /** The grace period if it begins at `fromMs`; absent: `graceMs`. */
  readonly graceFrom?: ((fromMs: MonoMs) => number) | undefined;
  /** Its minimum, which may grow meanwhile. Absent: none. */
  readonly leastGraceMs?: ((beganMs: MonoMs) => number) | undefined;
  /** Another stop has taken over: only that minimum holds. Absent: never. */
  readonly isTakenOver?: (() => boolean) | undefined;
  /** As in KillOrder. */
  readonly sentBeforeMs?: MonoMs | undefined;
  readonly hasten: Hasten;
};

/** The grace period of one victim. It begins with the first signal. */
export type Grace = {
  readonly begins: () => void;
  /** The machine stood still until now, and the victim with it. */
  readonly stoodStill: (sinceMs: MonoMs) => void;
  /** When SIGKILL is due; infinite before it has begun. */
  readonly overMs: () => MonoMs;
};

export function createGrace(order: GraceOrder): Grace {
  const { clock, graceMs, graceFrom, leastGraceMs, isTakenOver, sentBeforeMs, hasten } = order;
  let beganMs = Number.POSITIVE_INFINITY;
  let endsMs = Number.POSITIVE_INFINITY;
  const madeMs = clock.monoMs();
  let leastMs = Number.NEGATIVE_INFINITY;
  const dueMs = (): MonoMs => {
    if (beganMs === Number.POSITIVE_INFINITY) return beganMs;
    const atLeastMs = beganMs + (leastGraceMs?.(beganMs) ?? 0);
    return isTakenOver?.() ? atLeastMs : Math.max(endsMs, atLeastMs);
  };
  return {
    begins: () => {
      const fromMs = sentBeforeMs ?? clock.monoMs();
      beganMs = Math.min(beganMs, fromMs);
      endsMs = Math.min(endsMs, fromMs + (graceFrom?.(fromMs) ?? givenSeconds(graceMs / 1_000) * 1_000));
    },
    stoodStill: (sinceMs) => {
      // Only once past its end: however often the machine stands still, SIGKILL comes.
      if (beganMs < Number.POSITIVE_INFINITY && sinceMs < dueMs())
        leastMs = clock.monoMs() + Math.min(LAST_WORD_MS, dueMs() - beganMs);
    },
    overMs: () => Math.min(hasten.endsMs(madeMs), Math.max(dueMs(), leastMs)),
  };
}
