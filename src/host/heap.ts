import { setFlagsFromString } from 'node:v8';

/**
 * The space for new objects stays at the 2 MiB that it begins with: V8 lets it grow to 32 and never gives much of it back,
 * and what a daemon makes anew in each look is less than one of them. The old objects are collected after 2 MiB of growth,
 * not after 8 and more. To be called before the program is loaded, which makes both grow at once.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--optimize-for-size');
}
