import { setFlagsFromString } from 'node:v8';

/**
 * The space for new objects stays at the 2 MiB that it begins with. V8 lets it grow to 32 and never gives much of it
 * back; what a daemon makes anew in each look is less than one of them. To be called before the program is loaded, which
 * makes it grow at once.
 */
export function keepNewSpaceSmall(): void {
  setFlagsFromString('--semi-space-growth-factor=1');
}
