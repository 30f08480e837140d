import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { type Example, example } from './target.ts';

/** Larger examples make slow mutations of what smaller ones say as well. */
const MAX_EXAMPLE_BYTES = 16 * 1024;

/** The files of a directory whose names end so. */
export function filesIn(directory: string, ending: string): readonly Example[] {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith(ending));
  return names
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => example(readFileSync(path)));
}

/** Unpacked once: several targets take their examples from one file. */
const unpacked = new Map<string, readonly string[]>();

/** At most `count` lines of a packed file, spread over all of it. */
export function linesOf(path: string, count: number): readonly string[] {
  const all = unpacked.get(path) ?? gunzipSync(readFileSync(path)).toString().trim().split('\n');
  unpacked.set(path, all);
  const lines = all.filter((line) => line.length <= MAX_EXAMPLE_BYTES);
  const pace = Math.max(1, Math.floor(lines.length / count));
  return lines.filter((_, i) => i % pace === 0).slice(0, count);
}

/** The fenced blocks of a page in this language. */
export function blocksOf(page: string, language: string): readonly Example[] {
  const text = readFileSync(page, 'utf8');
  return [...text.matchAll(/^```(\w*)[^\n]*\n(.*?)^```$/gms)].flatMap(([, of, block]) =>
    of === language && block !== undefined ? [example(block)] : [],
  );
}
