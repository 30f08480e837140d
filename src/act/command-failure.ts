import { assertNever } from '../core/reading.ts';
import type { ExecResult } from '../host/exec.ts';

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
