import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** One answer for all who ask within `ms`: a flood of requests costs no more than one reader. */
export function shared<T>(clock: Clock, ms: number, make: () => Promise<T>): () => Promise<T> {
  let madeMs: MonoMs = Number.NEGATIVE_INFINITY;
  let made: Promise<T> | null = null;
  return () => {
    if (made === null || clock.monoMs() - madeMs >= ms) {
      madeMs = clock.monoMs();
      made = make();
    }
    return made;
  };
}
