import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** A call that lasts longer is reported: local disks answer within milliseconds. */
export const HANG_MS = 2_000;

export type Calls = {
  readonly answer: <T>(call: () => Promise<T>) => Promise<T>;
  readonly silentMs: () => number;
};
/** Calls of one reader, which makes one at a time. */
export function createCalls(clock: Clock, hangs: () => void): Calls {
  let sinceMs: MonoMs | null = null;
  return {
    answer: async (call) => {
      sinceMs = clock.monoMs();
      // Due timers run before answers are heard: after a pause of this process, one may have arrived.
      let cancel = clock.after(HANG_MS, () => {
        cancel = clock.after(0, hangs);
      });
      try {
        return await call();
      } finally {
        cancel();
        sinceMs = null;
      }
    },
    silentMs: () => (sinceMs === null ? 0 : clock.monoMs() - sinceMs),
  };
}

/** Of the pool's four threads, a hang leaves two. */
export async function inPairs<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const one = async (): Promise<void> => {
    for (const item of left) await run(item);
  };
  await Promise.all([one(), one()]);
}
