import type { Clock } from '../ports.ts';

/** The browser's clock. */
export const clock: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};
