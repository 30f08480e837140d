import type { Reading } from '../../core/reading.ts';
import { parseJson } from '../../core/shape.ts';
import type { Clock } from '../../ports.ts';
import { readText, renameFile } from '../files.ts';
import { sayStamp } from './record-disk.ts';

/** State or a note of an earlier run: 1,000 pods need a quarter of this (architecture 4.2). */
const MAX_BYTES = 1024 * 1024;

/** What an earlier run wrote there, if `read` accepts its shape; null: not ours. */
export function readOwnFile<T>(
  path: string,
  read: (value: unknown) => T | null,
  maxBytes = MAX_BYTES,
): Reading<T | null> {
  const text = readText(path, maxBytes);
  return text.known ? { known: true, value: read(parseJson(text.value)) } : text;
}

/** Moves the file aside, so that it can be examined and the next write has room. Returns a sentence about it. */
export function keepAside(path: string, clock: Clock): string {
  const aside = `${path}.corrupt-${sayStamp(clock.wallMs())}`;
  const moved = renameFile(path, aside);
  return moved.known ? `was kept as ${aside}` : `could not be renamed (${moved.detail})`;
}
