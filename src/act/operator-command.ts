import { assertNever } from '../core/reading.ts';
import type { ExecResult } from '../host/exec.ts';

/** What an operator's command gets on standard input: one line of JSON that every parser accepts, even jq 1.6. */
export const inputOf = (value: unknown): string => `${JSON.stringify(value, wellFormed)}\n`;

/**
 * A name or message from outside may contain half of a surrogate pair, which makes some parsers refuse the whole line.
 */
const wellFormed = (_: string, value: unknown): unknown => (typeof value === 'string' ? value.toWellFormed() : value);

/** Why an operator's command failed; null: it did not. */
export function failureOf(result: ExecResult): string | null {
  switch (result.kind) {
    case 'exited':
      return result.code === 0 ? null : `exit status ${result.code}`;
    case 'timed-out':
      return 'it timed out';
    case 'failed':
      return result.detail;
    default:
      return assertNever(result);
  }
}
