import { setFlagsFromString } from 'node:v8';

/**
 * Keeps the space for new objects at its initial 2 MiB: V8 lets it grow to 32 MiB and rarely shrinks it, while a look
 * allocates less than 1 MiB. Old objects are collected after 2 MiB of growth instead of 8 and more. Call it before the program
 * is loaded, because loading makes both grow.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--optimize-for-size');
}
