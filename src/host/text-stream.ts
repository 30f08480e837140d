import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { known, type Reading, sayCause, type Unknown, unknown } from '../core/reading.ts';
import { codeOf } from './file-error.ts';

/** Pieces of text as they arrive; if it cannot be read to the end, the last one says why. */
export type TextPieces = AsyncIterable<Reading<string>>;
/** A line without its end; `line` counts from 1. */
type Line = { readonly line: number; readonly text: string };

/** Larger pieces than the default of 64 KiB, because a line of some MiB is assembled from them. */
const PIECE_BYTES = 512 * 1024;

/** The text of a file of any kind, even a pipe; decompressed if its name ends in .gz. */
export function openText(path: string): TextPieces {
  return decode(() => {
    const file = createReadStream(path, { highWaterMark: PIECE_BYTES });
    if (!path.endsWith('.gz')) return file;
    // The callback only keeps an error from being unhandled: the reader of the last stream gets it.
    return pipeline(file, createGunzip({ chunkSize: PIECE_BYTES }), () => undefined);
  }, path);
}

/** An open file, whatever its name becomes. `close` also once its text was read. */
export type HeldText = { readonly ino: number; readonly pieces: TextPieces; readonly close: () => Promise<void> };

/** Unknown `absent`: there is none. */
export async function holdText(path: string): Promise<Reading<HeldText>> {
  try {
    const file = await open(path);
    const { ino } = await file.stat();
    const pieces = decode(() => file.createReadStream({ highWaterMark: PIECE_BYTES }), path);
    return known({ ino, pieces, close: () => file.close() });
  } catch (cause) {
    return unreadText(path, cause);
  }
}

/** The text of an open stream; failures call it `name`. */
export function textOf(stream: Readable, name: string): TextPieces {
  return decode(() => stream, name);
}

/** Decodes UTF-8: invalid bytes become U+FFFD, and a byte order mark is removed. */
async function* decode(open: () => Readable, name: string): AsyncGenerator<Reading<string>> {
  const decoder = new TextDecoder();
  try {
    for await (const bytes of open()) yield known(decoder.decode(bytes, { stream: true }));
    yield known(decoder.decode());
  } catch (cause) {
    yield unreadText(name, cause);
  }
}

const unreadText = (name: string, cause: unknown): Unknown =>
  unknown(codeOf(cause) === 'ENOENT' ? 'absent' : 'unreadable', name, sayCause(cause));

/** The whole text; one longer than `maxLength` is unreadable, and is read no further. */
export async function wholeText(pieces: TextPieces, maxLength: number): Promise<Reading<string>> {
  const parts: string[] = [];
  let length = 0;
  for await (const piece of pieces) {
    if (!piece.known) return piece;
    length += piece.value.length;
    if (length > maxLength) return tooLong(maxLength);
    parts.push(piece.value);
  }
  return known(parts.join(''));
}

/** One line after the other, holding no more than one; a line longer than `maxLength` ends the text as unreadable. */
export async function* linesOf(pieces: TextPieces, maxLength: number): AsyncGenerator<Reading<Line>> {
  let line = 1;
  let parts: string[] = [];
  let length = 0;
  for await (const piece of pieces) {
    if (!piece.known) {
      yield piece;
      return;
    }
    const { value } = piece;
    let from = 0;
    for (let end = value.indexOf('\n'); end !== -1; end = value.indexOf('\n', from)) {
      parts.push(value.slice(from, end));
      yield known({ line, text: parts.join('') });
      from = end + 1;
      line += 1;
      parts = [];
      length = 0;
    }
    parts.push(value.slice(from));
    length += value.length - from;
    if (length > maxLength) {
      yield tooLong(maxLength);
      return;
    }
  }
  if (length > 0) yield known({ line, text: parts.join('') });
}

function tooLong(maxLength: number) {
  return unknown('unreadable', 'text', `larger than ${maxLength / 1024 / 1024} MiB`);
}
