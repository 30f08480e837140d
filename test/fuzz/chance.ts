/** A reproducible sequence: the same seed, the same inputs. */
export type Chance = {
  /** A whole number from 0 to below `n`. */
  readonly below: (n: number) => number;
  readonly isOneIn: (n: number) => boolean;
  readonly pick: <T>(from: readonly [T, ...(readonly T[])]) => T;
};

/** sfc32 over four FNV-1a sums of the seed. */
export function createChance(seed: string): Chance {
  let [a, b, c, d] = [1, 2, 3, 4].map((salt) => sumOf(`${salt}/${seed}`)) as [number, number, number, number];
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + t;
    return (t >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 12; i++) next();
  const below = (n: number): number => Math.floor(next() * n);
  return {
    below,
    isOneIn: (n) => below(n) === 0,
    pick: (from) => from[below(from.length)] ?? from[0],
  };
}

function sumOf(text: string): number {
  let sum = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) sum = Math.imul(sum ^ text.charCodeAt(i), 0x01000193);
  return sum | 0;
}
