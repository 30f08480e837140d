import { type Reading, unknown } from '../core/reading.ts';

/** What a run is for. `dead`: a decision about a node that is silent. */
export type Purpose = 'fencing' | 'dead' | 'patrol';

/** Runs in all, below which one more may begin: two are left to fencings (guard.md 8.1), and one of the others to silent nodes. */
const AT_ONCE: { readonly [P in Purpose]: number } = { fencing: 6, dead: 4, patrol: 3 };
/** In the order in which they may begin. */
const PURPOSES: readonly Purpose[] = ['fencing', 'dead', 'patrol'];
const MAX_WAITING = 1_000;

/** Runs it when its turn has come; unknown: too many are waiting. */
export type Slots = <T>(purpose: Purpose, run: () => Promise<Reading<T>>) => Promise<Reading<T>>;

export function createSlots(): Slots {
  const waiting: { readonly [P in Purpose]: (() => void)[] } = { fencing: [], dead: [], patrol: [] };
  let running = 0;
  const begin = (): void => {
    for (const purpose of PURPOSES) {
      while (running < AT_ONCE[purpose]) {
        const next = waiting[purpose].shift();
        if (next === undefined) break;
        running += 1;
        next();
      }
    }
  };
  return async (purpose, run) => {
    if (waiting[purpose].length >= MAX_WAITING)
      return unknown('not-asked', 'agents', `${MAX_WAITING} runs of agents are waiting already`);
    await new Promise<void>((resolve) => {
      waiting[purpose].push(resolve);
      begin();
    });
    try {
      return await run();
    } finally {
      running -= 1;
      begin();
    }
  };
}
