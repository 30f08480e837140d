import { Option } from 'commander';
import pc from 'picocolors';
import { escapeUnsafe } from '../core/units/escape.ts';
import * as parts from '../words/phrases.ts';

type Colour = 'red' | 'yellow' | 'green' | 'dim' | 'bold';
export type Paint = (colour: Colour, text: string) => string;
export type Format = 'text' | 'json';

export function formatOption(...more: readonly string[]): Option {
  return new Option('-o, --output <format>', 'Output format').choices(['text', 'json', ...more]).default('text');
}

/** Prints a report in the requested format. */
export function printAs(format: Format, report: unknown, text: (paint: Paint) => string): void {
  process.stdout.write(format === 'json' ? jsonText(report) : text(standardPaint()));
}

/** For standard output: colour only on a terminal, and never with NO_COLOR. */
export function standardPaint(): Paint {
  const { NO_COLOR = '', TERM } = process.env;
  return painter(process.stdout.isTTY === true && NO_COLOR === '' && TERM !== 'dumb');
}

export function painter(hasColour: boolean): Paint {
  const colours = pc.createColors(hasColour);
  return (colour, text) => colours[colour](text);
}

/** Text that tenants chose (names, messages), made safe for a terminal. */
export const clean = escapeUnsafe;

/** JSON made safe for a terminal: also escapes what JSON leaves alone, such as bidirectional control characters. */
export function jsonText(value: unknown): string {
  // JSON.stringify leaves no other line ends in it.
  return `${JSON.stringify(value, null, 2).split('\n').map(escapeUnsafe).join('\n')}\n`;
}

/** Two columns on a terminal: East Asian wide and emoji; close enough for a table. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Extended_Pictographic}/u;
const INVISIBLE = /\p{Mn}|\p{Me}|\p{Cf}/u;
// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
const COLOUR_CODE = /\u001b\[[0-9;]*m/g;

/** Columns that the text takes on a terminal; colour codes take none. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const char of text.replace(COLOUR_CODE, '')) {
    if (INVISIBLE.test(char)) continue;
    width += WIDE.test(char) ? 2 : 1;
  }
  return width;
}

export function padEnd(text: string, width: number): string {
  return text + ' '.repeat(Math.max(0, width - displayWidth(text)));
}

function padStart(text: string, width: number): string {
  return ' '.repeat(Math.max(0, width - displayWidth(text))) + text;
}

/** Rows under a heading, two blanks between columns; columns named in `right` are aligned right. */
export function table(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  right: readonly number[] = [],
): string {
  const all = [heading, ...rows];
  const widths = heading.map((_, column) => Math.max(...all.map((row) => displayWidth(row[column] ?? ''))));
  const line = (row: readonly string[]): string =>
    widths
      .map((width, column) => (right.includes(column) ? padStart : padEnd)(row[column] ?? '', width))
      .join('  ')
      .trimEnd();
  return `${all.map(line).join('\n')}\n`;
}

/**
 * What is available of the capacity: `[==!====~=====.......]`. Zero is on the left; `!` marks a hard threshold and `~` a
 * soft one. The bar shrinks towards them.
 */
export function gauge(
  available: number,
  capacity: number,
  marks: readonly { readonly kind: 'hard' | 'soft'; readonly limit: number }[],
  width = 30,
): string {
  const placeOf = (amount: number): number =>
    capacity <= 0 ? 0 : Math.min(width, Math.max(0, Math.round((amount / capacity) * width)));
  const filled = placeOf(available);
  const cells: string[] = Array.from({ length: width }, (_, i) => (i < filled ? '=' : '.'));
  // Hard ones last: where two fall on the same place, the one that kills is shown.
  for (const mark of marks.toSorted((a, b) => (a.kind === b.kind ? 0 : a.kind === 'soft' ? -1 : 1))) {
    cells[Math.min(width - 1, placeOf(mark.limit))] = mark.kind === 'hard' ? '!' : '~';
  }
  return `[${cells.join('')}]`;
}

/** The instant in a form that people and tools can read, to the second. */
export function sayWhen(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** "a, b, c and 17 more"; "none". */
export function sayNames(names: readonly string[]): string {
  return names.length === 0 ? 'none' : parts.sayNames(names, 20);
}
