import type { Clock } from '../../src/ports.ts';

/** A clock that stands until it is moved. What is due runs in order, and what follows from it before the next. */
export function aClock(startMs = 1_000_000): Clock & { readonly advance: (ms: number) => Promise<void> } {
  let now = startMs;
  let timers: { readonly atMs: number; readonly run: () => void }[] = [];
  /** The promises that a timer settled, and those that follow from them. */
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn++) await Promise.resolve();
  };
  return {
    monoMs: () => now,
    wallMs: () => 1_767_225_600_000 + now,
    after: (ms, run) => {
      const timer = { atMs: now + Math.max(0, ms), run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    advance: async (ms) => {
      const until = now + ms;
      await settle();
      for (;;) {
        const due = timers.filter(({ atMs }) => atMs <= until).toSorted((a, b) => a.atMs - b.atMs)[0];
        if (due === undefined) break;
        timers = timers.filter((other) => other !== due);
        now = Math.max(now, due.atMs);
        due.run();
        await settle();
      }
      now = until;
    },
  };
}
