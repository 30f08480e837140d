import type { Findings } from '../ports.ts';
import { type ApiRight, NOT_OUR_NODE, notOurNode, rightId, rightMissing } from '../words/finding-writes.ts';
import type { NotDone } from './write-failure.ts';

/**
 * Reports the result of a write as findings that a person should know; null: it succeeded with this right. The connection
 * reports that the server does not know us at all (401), or is away. `right` null: the node was read, and nothing had to be sent.
 */
export function reportWrite(
  findings: Pick<Findings, 'raise' | 'clear'>,
  right: ApiRight | null,
  failed: NotDone | null,
): void {
  if (failed?.kind === 'not-our-node') findings.raise(notOurNode(failed.text));
  else if (failed?.kind === 'forbidden' && failed.right !== null) {
    findings.raise(rightMissing(failed.right, failed.text));
  } else if (failed === null) {
    if (right !== null) findings.clear(rightId(right));
    for (const id of [rightId('get nodes'), NOT_OUR_NODE]) findings.clear(id);
  }
}
