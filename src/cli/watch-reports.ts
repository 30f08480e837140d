import type { Clock } from '../ports.ts';
import { type Asked, watchDaemon } from '../serve/ask.ts';
import { clean, displayWidth, type Format } from './print.ts';

/**
 * Shows a report every second, until SIGINT or until there is none. A terminal is redrawn; other outputs get the reports one
 * after another. Resolves to the exit status.
 */
export function watchReports<R extends object>(
  socket: string,
  clock: Clock,
  show: {
    readonly output: Format;
    /** The daemon's, where that is not root. */
    readonly user?: string;
    /** The report; a number: there is none, and this is the exit status. */
    readonly read: (asked: Asked) => R | number;
    /** Null: it cannot be shown. */
    readonly text: (report: R) => string | null;
  },
): Promise<number> {
  let shown = '';
  return new Promise((resolve) => {
    const end = (status: number): void => {
      stop();
      resolve(status);
    };
    const hear = (asked: Asked) => {
      const report = show.read(asked);
      if (typeof report === 'number') return end(report);
      if (show.output === 'json') {
        process.stdout.write(`${clean(JSON.stringify(report))}\n`);
        return;
      }
      const text = show.text(report);
      if (text === null) return end(1);
      if (process.stdout.isTTY !== true) {
        process.stdout.write(text);
        return;
      }
      // A terminal may not say how large it is.
      const size = { columns: process.stdout.columns || 80, rows: process.stdout.rows || Number.POSITIVE_INFINITY };
      const next = fitting(text, size);
      process.stdout.write(`${upOver(shown, size)}${next}`);
      shown = next;
    };
    const stop = watchDaemon(socket, { ask: 'watch' }, clock, hear, show.user === undefined ? {} : { user: show.user });
    process.once('SIGINT', () => end(0));
  });
}

type Size = { readonly columns: number; readonly rows: number };

/** A terminal wraps long lines. */
const rowsOf = (line: string, { columns }: Size): number => Math.max(1, Math.ceil(displayWidth(line) / columns));

/** The sequence that returns to the first row of a shown text and clears from there. */
export function upOver(shown: string, size: Size): string {
  if (shown === '') return '';
  const rows = shown
    .split('\n')
    .slice(0, -1)
    .reduce((sum, line) => sum + rowsOf(line, size), 0);
  return `\x1b[${rows}A\x1b[J`;
}

/** As many of its lines as the terminal has rows for: what scrolls away could not be redrawn. */
export function fitting(text: string, size: Size): string {
  const lines = text.split('\n').slice(0, -1);
  let left = size.rows - 1;
  const fit = lines.findIndex((line) => {
    left -= rowsOf(line, size);
    return left < 0;
  });
  if (fit === -1) return text;
  const kept = lines.slice(0, Math.max(0, fit - 1));
  return `${[...kept, `(${lines.length - kept.length} more lines: enlarge the terminal, or leave out --watch)`].join('\n')}\n`;
}
