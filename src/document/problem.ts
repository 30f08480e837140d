import { escapeUnsafe } from '../core/units/escape.ts';

/** Keys and indexes from the document's root to a position in it. */
export type Path = readonly (string | number)[];

/**
 * One mistake in a file that a person wrote. `line` and `column` count from 1, or are null together if it is one of the file as
 * a whole; `path` is '' at the document's root.
 */
export type Problem = {
  readonly file: string;
  readonly line: number | null;
  readonly column: number | null;
  readonly path: string;
  readonly text: string;
  /** Not a mistake in the file: this user may not read it. */
  readonly isDenied?: true;
};

/** One that is at a place in its text. */
export type LocatedProblem = Problem & { readonly line: number; readonly column: number };

/** One that no place in its text stands for: it is not there, or cannot or must not be read. */
export const problemOfFile = (file: string, text: string): Problem => ({
  file,
  line: null,
  column: null,
  path: '',
  text,
});

/** A key or a value in it may be as long as the file; line and column give the position anyway. */
const MAX_PATH = 400;
const MAX_TEXT = 1_000;

/** `file:line:column: path: what is wrong`, safe for a terminal, on one line of readable length. */
export function sayProblem({ file, line, column, path, text }: Problem): string {
  const place = line === null || column === null ? file : `${file}:${line}:${column}`;
  const where = path === '' ? '' : `${cut(path, MAX_PATH)}: `;
  return escapeUnsafe(`${place}: ${where}${cut(text, MAX_TEXT)}`);
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length)}…`;
}

/** With dots and `[i]`, and `["key"]` for keys that are not identifiers: `evictionHard["memory.available"]`. */
export function sayPath(path: Path): string {
  let said = '';
  for (const step of path) {
    if (typeof step === 'number') said += `[${step}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) said += said === '' ? step : `.${step}`;
    else said += `[${JSON.stringify(step)}]`;
  }
  return said;
}
