import { writeSync } from 'node:fs';
import { escapeUnsafe } from '../core/units/escape.ts';

/** journald's priorities. */
const PRIORITY = { info: 6, error: 3 } as const;

/**
 * One line on standard error, at once: what follows may be the end of the process. Under the journal with its priority in
 * front, like the lines of the log.
 */
export function sayLast(line: string, priority: keyof typeof PRIORITY = 'error'): void {
  const mark = process.env['JOURNAL_STREAM'] === undefined ? '' : `<${PRIORITY[priority]}>`;
  try {
    writeSync(2, `${mark}${escapeUnsafe(line)}\n`);
  } catch {
    // Nobody reads it.
  }
}
