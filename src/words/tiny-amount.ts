import type { Quantity } from '../core/units/quantity.ts';

/** `1Ki`: nobody means fewer bytes. */
const LEAST = { bytes: 1_024, count: 1 } as const;
const NANOS = 1e9;

/** What the amount says, if that is hardly meant: "300m is 0.3 bytes". Null: it may be meant. */
export function sayTiny({ nanos, text }: Quantity, of: keyof typeof LEAST): string | null {
  const amount = Number(nanos) / NANOS;
  if (text === null || amount <= 0 || amount >= LEAST[of]) return null;
  const unit = of === 'count' ? '' : amount === 1 ? ' byte' : ' bytes';
  const thousandth = text.endsWith('m') ? ' (m is a thousandth)' : '';
  return `${text} is ${amount}${unit}${thousandth}${of === 'bytes' ? '; was Mi or Gi meant?' : ''}`;
}
