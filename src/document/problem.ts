import { escapeUnsafe } from '../core/escape.ts';

/** Keys and indexes from the document's root to a place in it. */
export type Path = readonly (string | number)[];

/** One mistake in a file a person wrote. `line` and `column` count from 1; `path` is '' at the document's root. */
export type Problem = {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly path: string;
  readonly text: string;
};

/** `file:line:column: path: what is wrong`, harmless on a terminal. */
export function sayProblem({ file, line, column, path, text }: Problem): string {
  return escapeUnsafe(`${file}:${line}:${column}: ${path === '' ? '' : `${path}: `}${text}`);
}

/** Dots and `[i]`, `["key"]` for keys that are no identifiers: `evictionHard["memory.available"]`. */
export function sayPath(path: Path): string {
  let said = '';
  for (const step of path) {
    if (typeof step === 'number') said += `[${step}]`;
    else if (/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) said += said === '' ? step : `.${step}`;
    else said += `[${JSON.stringify(step)}]`;
  }
  return said;
}
