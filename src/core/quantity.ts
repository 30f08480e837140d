/** Exact: `nanos` is the amount in 10^-9 as a decimal integer, at most 48 digits. Compared, added and printed by core/quantity.ts only. */
export type Quantity = {
  readonly nanos: string;
  readonly format: 'binary' | 'decimal' | 'exponent';
  /** As written; null for a computed amount. Messages may have to repeat it (kubelet-eviction.md 2.6.3). */
  readonly text: string | null;
};
