import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** One proof at a time, as early as anybody asks for one. */
export type Proofs = { readonly askIn: (ms: number) => void; readonly close: () => void };

export const NEVER = Number.POSITIVE_INFINITY;

/** `prove` resolves with the time until the next one; it never rejects. */
export function createProofs(clock: Clock, prove: () => Promise<number>): Proofs {
  let isRunning = false;
  let isClosed = false;
  let dueMs: MonoMs = NEVER;
  let cancelTimer: () => void = () => undefined;

  function askIn(ms: number): void {
    const atMs = clock.monoMs() + ms;
    if (isClosed || atMs >= dueMs) return;
    dueMs = atMs;
    if (isRunning) return;
    cancelTimer();
    cancelTimer = clock.after(ms, () => void run());
  }

  async function run(): Promise<void> {
    isRunning = true;
    dueMs = NEVER;
    const nextMs = await prove();
    isRunning = false;
    // What was asked for meanwhile comes when it was asked for.
    const inMs = Math.min(nextMs, dueMs - clock.monoMs());
    dueMs = NEVER;
    askIn(Math.max(0, inMs));
  }

  return {
    askIn,
    close: () => {
      isClosed = true;
      cancelTimer();
    },
  };
}
