import { addQuantity, compareQuantity, type Quantity, quantityOfBytes } from '../units/quantity.ts';

/** How far a threshold must be above the kubelet's, so that this agent acts first (beside-a-kubelet.md F2, F4). */
export type Margin = {
  /** In the unit of the signal. */
  readonly least: number;
  /** Of the capacity. */
  readonly share: number;
  readonly isBytes: boolean;
  /** It is above this percentage of the capacity in any case; null: there is no such minimum. */
  readonly leastPercent: number | null;
};

const MIB = 1024 ** 2;

/** In the unit of the signal, not rounded. */
export function marginOf({ least, share }: Pick<Margin, 'least' | 'share'>, capacity: number): number {
  return Math.max(least, share * capacity);
}

export function marginQuantity(margin: Margin, capacity: number): Quantity {
  // Whole MiB, so that people can read it.
  const step = margin.isBytes ? MIB : 1;
  const amount = Math.ceil(marginOf(margin, capacity) / step) * step;
  return quantityOfBytes(amount, margin.isBytes ? 'binary' : 'decimal');
}

export function raisedBy(amount: Quantity, margin: Margin, capacity: number): Quantity {
  const raised = addQuantity(amount, marginQuantity(margin, capacity));
  const { leastPercent } = margin;
  if (leastPercent === null) return raised;
  // One byte more: at exactly this point the kubelet does not collect images yet.
  const least = quantityOfBytes(Math.floor((capacity * leastPercent) / 100) + 1, 'binary');
  return compareQuantity(raised, least) < 0 ? least : raised;
}
