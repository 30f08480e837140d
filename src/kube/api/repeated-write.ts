import type { Clock } from '../../ports.ts';
import type { NotDone } from './write-failure.ts';

/**
 * A write that is repeated until it succeeds, one at a time. What to write is read when it is sent: the latest wins.
 */
type RepeatedWrite = {
  /** Call when what is wanted has changed. */
  readonly poke: () => void;
  /** Sends at once, whatever it was waiting for: the API is back. */
  readonly retry: () => void;
  /** Resolves when nothing is being sent; nothing is sent afterwards. */
  readonly close: () => Promise<void>;
};

const LEAST_MS = 1_000;
const MOST_MS = 30_000;
/** A person has to grant a right (C3). */
const FORBIDDEN_MS = 60_000;

/** `write` returns null if it succeeded; it never rejects. */
export function createRepeatedWrite(clock: Clock, write: () => Promise<NotDone | null>): RepeatedWrite {
  let isDirty = false;
  let isClosed = false;
  let running: Promise<void> | null = null;
  let backOffMs = LEAST_MS;
  let cancel: (() => void) | null = null;

  const waitMs = (failed: NotDone): number => {
    if (failed.kind === 'forbidden' || failed.kind === 'rejected') return FORBIDDEN_MS;
    const ms = backOffMs;
    backOffMs = Math.min(MOST_MS, backOffMs * 2);
    // Random, so that not all nodes write at one instant.
    return Math.max(ms * (0.75 + Math.random() / 2), failed.kind === 'overload' ? (failed.retryAfterMs ?? 0) : 0);
  };
  const run = async (): Promise<void> => {
    while (isDirty && !isClosed) {
      isDirty = false;
      const failed = await write();
      if (failed !== null) {
        isDirty = true;
        if (!isClosed) cancel = clock.after(waitMs(failed), retry);
        return;
      }
      backOffMs = LEAST_MS;
    }
  };
  const start = (): void => {
    if (running !== null || cancel !== null || isClosed) return;
    running = run().finally(() => {
      running = null;
      // `poke` was called in the turn in which the write ended.
      if (isDirty) start();
    });
  };
  const retry = (): void => {
    cancel?.();
    cancel = null;
    start();
  };
  return {
    poke: () => {
      isDirty = true;
      start();
    },
    retry: () => {
      backOffMs = LEAST_MS;
      retry();
    },
    close: async () => {
      isClosed = true;
      cancel?.();
      await running;
    },
  };
}
