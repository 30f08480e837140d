export type Random = {
  /** From 0 up to, and without, 1. */
  readonly next: () => number;
  /** A whole number of both ends. */
  readonly whole: (from: number, to: number) => number;
  /** Throws when there is none. */
  readonly of: <T>(values: readonly T[]) => T;
};

/** mulberry32: the same seed gives the same soak. */
export function createRandom(seed: number): Random {
  let a = seed >>> 0;
  const next = (): number => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const whole = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1));
  return {
    next,
    whole,
    of: (values) => {
      const chosen = values[whole(0, values.length - 1)];
      if (chosen === undefined) throw new Error('nothing to choose from');
      return chosen;
    },
  };
}
