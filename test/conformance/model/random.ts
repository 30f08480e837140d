/** Chance that can be had again: the same seed, the same draws. */

export type Random = {
  /** A whole number from `low` to `high`, both included. */
  readonly int: (low: number, high: number) => number;
  readonly chance: (probability: number) => boolean;
  readonly pick: <T>(from: readonly [T, ...T[]] | readonly T[]) => T;
  /** Each element with this probability. */
  readonly some: <T>(from: readonly T[], probability: number) => readonly T[];
};

/** mulberry32. */
export function createRandom(seed: number): Random {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const int = (low: number, high: number) => low + Math.floor(next() * (high - low + 1));
  const chance = (probability: number) => next() < probability;
  const pick = <T>(from: readonly T[]): T => {
    const one = from[int(0, from.length - 1)];
    if (one === undefined) throw new Error('nothing to pick from');
    return one;
  };
  return { int, chance, pick, some: (from, probability) => from.filter(() => chance(probability)) };
}

/** A duration as a scenario may write it: whole milliseconds, or a Go duration of the same length. */
export function writeMs(random: Random, ms: number): number | string {
  const spellings: (number | string)[] = [ms, `${ms}ms`, `${ms / 1000}s`];
  if (ms % 1000 === 0) spellings.push(`${ms / 1000}s`);
  if (ms >= 60_000) spellings.push(`${Math.floor(ms / 60_000)}m${(ms % 60_000) / 1000}s`);
  return random.pick(spellings);
}

const UNITS: readonly (readonly [string, number])[] = [
  ['Ki', 2 ** 10],
  ['Mi', 2 ** 20],
  ['Gi', 2 ** 30],
  ['k', 1e3],
  ['M', 1e6],
  ['G', 1e9],
  ['e3', 1e3],
  ['E6', 1e6],
  ['e+3', 1e3],
];

/** A whole amount in one of the spellings of kubelet-eviction.md 2.4, of the same value. */
export function writeAmount(random: Random, value: number, style: 'plain' | 'odd'): string {
  const fitting = UNITS.filter(([, size]) => value !== 0 && value % size === 0).map(
    ([suffix, size]) => `${value / size}${suffix}`,
  );
  const spellings = [`${value}`, ...fitting, ...fitting];
  if (style === 'plain') return random.pick(spellings);
  const halves = UNITS.filter(([, size]) => value !== 0 && (value * 4) % size === 0).map(
    ([suffix, size]) => `${value / size}${suffix}`,
  );
  const odd = [`+${value}`, `${value}.`, `00${value}`, `${value}.0`, `${value}000m`, `${value}e0`, `${value}000000u`];
  return random.pick([...spellings, ...halves, ...odd]);
}
