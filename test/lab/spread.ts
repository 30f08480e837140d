/** The golden ratio: its multiples meet every part of an interval after few steps, and none twice. */
const GOLDEN = 0.618_033_988_75;

/** Spreads runs over an interval: another share of it for each index, from 0 to below 1. */
export const spread = (index: number): number => (index * GOLDEN) % 1;
