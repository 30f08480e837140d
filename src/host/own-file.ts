import type { Reading } from '../core/reading.ts';
import { parseJson } from '../core/shape.ts';
import type { Clock } from '../ports.ts';
import { readText, renameFile } from './files.ts';
import { sayStamp } from './record-disk.ts';

/** State or a note of an earlier run: 1,000 pods need a quarter of this (architecture 4.2). */
const MAX_BYTES = 1024 * 1024;

/** What an earlier run left there, once `read` has found its shape; null: it is none of ours. */
export function readOwnFile<T>(
  path: string,
  read: (value: unknown) => T | null,
  maxBytes = MAX_BYTES,
): Reading<T | null> {
  const text = readText(path, maxBytes);
  return text.known ? { known: true, value: read(parseJson(text.value)) } : text;
}

/** Out of the way of the next write, for whoever wants to know what it was. What became of it, in words. */
export function keepAside(path: string, clock: Clock): string {
  const aside = `${path}.corrupt-${sayStamp(clock.wallMs())}`;
  const moved = renameFile(path, aside);
  return moved.known ? `was kept as ${aside}` : `could not be renamed (${moved.detail})`;
}
