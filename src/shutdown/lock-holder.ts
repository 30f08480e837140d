import type { MonoMs } from '../core/reading.ts';
import type { LockChild, TakeLock } from '../host/systemd/inhibit-child.ts';
import type { Clock } from '../ports.ts';
import { createBackOff, LEAST_MS } from './back-off.ts';

type LockHolderNeeds = {
  readonly clock: Clock;
  readonly takeLock: TakeLock;
  /** The child ended unexpectedly, or the lock was given up. */
  readonly onLost: (detail: string) => void;
};
type Take =
  | { readonly kind: 'held'; readonly pid: number }
  /** `againMs`: when to try again. */
  | { readonly kind: 'not-held'; readonly isTooLate: boolean; readonly why: string; readonly againMs: number };
/** At most one lock child, and not in quick succession: on a host where it ends at once, retrying must not cost much. */
type LockHolder = {
  /** Null: none is held. */
  readonly pid: () => number | null;
  readonly take: () => Promise<Take>;
  /** Releases the lock, even one that is just being taken. Resolves when it is gone. */
  readonly release: () => Promise<void>;
  /** The child is alive but its lock is gone: treats it as if it had ended. */
  readonly giveUp: (detail: string) => void;
  /** Earlier failures no longer count for the next attempt. */
  readonly forget: () => void;
};

/** A lock held this long ends the series of failures. */
const STEADY_MS = 60_000;
/** Refused because the machine is going down: no lock is granted unless that is cancelled. */
const TOO_LATE_MS = 30_000;

export function createLockHolder({ clock, takeLock, onLost }: LockHolderNeeds): LockHolder {
  let child: LockChild | null = null;
  let taking: Promise<Take> | null = null;
  let releasing: Promise<void> = Promise.resolve();
  let isWanted = false;
  let heldSinceMs: MonoMs = 0;
  let notBeforeMs: MonoMs = Number.NEGATIVE_INFINITY;
  let lastWhy = '';
  let refusals = createBackOff(LEAST_MS);
  let losses = createBackOff(0);

  async function tryTake(): Promise<Take> {
    const answer = await takeLock();
    if (answer.kind !== 'held') {
      const isTooLate = answer.kind === 'too-late';
      lastWhy = isTooLate ? answer.detail : `${answer.why.where}: ${answer.why.detail}`;
      return putOff(isTooLate ? TOO_LATE_MS : refusals.nextMs(), isTooLate);
    }
    refusals = createBackOff(LEAST_MS);
    const mine = answer.child;
    if (!isWanted) {
      await mine.release();
      return { kind: 'not-held', isTooLate: false, why: 'it is released', againMs: 0 };
    }
    child = mine;
    heldSinceMs = clock.monoMs();
    mine.whenGone((detail) => {
      if (child === mine) lose(detail);
    });
    return heldOr(lastWhy);
  }

  function lose(detail: string): void {
    child = null;
    if (clock.monoMs() - heldSinceMs >= STEADY_MS) losses = createBackOff(0);
    lastWhy = detail;
    putOff(losses.nextMs(), false);
    onLost(detail);
  }

  function putOff(ms: number, isTooLate: boolean): Take {
    notBeforeMs = clock.monoMs() + ms;
    return { kind: 'not-held', isTooLate, why: lastWhy, againMs: ms };
  }

  function heldOr(why: string): Take {
    if (child !== null) return { kind: 'held', pid: child.pid };
    return { kind: 'not-held', isTooLate: false, why, againMs: Math.max(0, notBeforeMs - clock.monoMs()) };
  }

  async function letGo(): Promise<void> {
    isWanted = false;
    const mine = child;
    child = null;
    // One that is being acquired is released as soon as it is held.
    await Promise.all([taking, mine?.release()]);
  }

  return {
    pid: () => child?.pid ?? null,
    take: () => {
      isWanted = true;
      if (child !== null || (taking === null && clock.monoMs() < notBeforeMs)) return Promise.resolve(heldOr(lastWhy));
      taking ??= tryTake().finally(() => {
        taking = null;
      });
      return taking;
    },
    release: () => {
      releasing = Promise.all([releasing, letGo()]).then(() => undefined);
      return releasing;
    },
    giveUp: (detail) => {
      const mine = child;
      if (mine === null) return;
      lose(detail);
      releasing = Promise.all([releasing, mine.release()]).then(() => undefined);
    },
    forget: () => {
      refusals = createBackOff(LEAST_MS);
      losses = createBackOff(0);
      notBeforeMs = Number.NEGATIVE_INFINITY;
    },
  };
}
