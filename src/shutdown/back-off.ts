/** `firstMs`, then 1 s doubling to 30 s, indefinitely. */
type BackOff = { readonly nextMs: () => number };

export const LEAST_MS = 1_000;
const MOST_MS = 30_000;

export function createBackOff(firstMs: number): BackOff {
  let ms = firstMs;
  return {
    nextMs: () => {
      const next = ms;
      ms = Math.min(MOST_MS, Math.max(LEAST_MS, ms * 2));
      return next;
    },
  };
}
