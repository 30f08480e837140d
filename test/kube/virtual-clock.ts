import type { Clock } from '../../src/ports.ts';

export type VirtualClock = Clock & {
  /** Runs what is due until then, and what follows from it. */
  readonly advance: (ms: number) => Promise<void>;
  readonly timers: () => number;
};

/** Time passes only by `advance`. */
export function createVirtualClock(): VirtualClock {
  const timers = new Set<{ readonly atMs: number; readonly order: number; readonly run: () => void }>();
  let nowMs = 1_000_000;
  let order = 0;
  /** Promises that wait for nothing but one another. */
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return {
    monoMs: () => nowMs,
    wallMs: () => nowMs,
    after: (ms, run) => {
      order += 1;
      const timer = { atMs: nowMs + Math.max(0, ms), order, run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    advance: async (ms) => {
      const untilMs = nowMs + ms;
      for (;;) {
        await settle();
        const [next] = [...timers].sort((a, b) => a.atMs - b.atMs || a.order - b.order);
        if (next === undefined || next.atMs > untilMs) break;
        timers.delete(next);
        nowMs = next.atMs;
        next.run();
      }
      nowMs = untilMs;
    },
    timers: () => timers.size,
  };
}
