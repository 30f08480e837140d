import { writeSync } from 'node:fs';
import { escapeUnsafe } from '../../core/units/escape.ts';

/** journald's priorities. */
const PRIORITY = { info: 6, error: 3 } as const;

/**
 * Writes one line to standard error at once, because the process may end right after it. Under the journal, its priority comes
 * first, as in the lines of the log.
 */
export function sayLast(line: string, priority: keyof typeof PRIORITY = 'error'): void {
  const mark = process.env['JOURNAL_STREAM'] === undefined ? '' : `<${PRIORITY[priority]}>`;
  try {
    writeSync(2, `${mark}${escapeUnsafe(line)}\n`);
  } catch {
    // Nobody reads it.
  }
}
