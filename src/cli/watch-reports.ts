import type { Clock } from '../ports.ts';
import { type Asked, watchDaemon } from '../serve/ask.ts';
import { clean, type Format } from './print.ts';

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
  let linesUp = 0;
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
      process.stdout.write(process.stdout.isTTY === true && linesUp > 0 ? `\x1b[${linesUp}A\x1b[J${text}` : text);
      linesUp = text.split('\n').length - 1;
    };
    const stop = watchDaemon(socket, { ask: 'watch' }, clock, hear, show.user === undefined ? {} : { user: show.user });
    process.once('SIGINT', () => end(0));
  });
}
