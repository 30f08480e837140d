import type { Findings } from '../ports.ts';
import {
  API_IDENTITY,
  type ApiRight,
  identityRefused,
  NOT_OUR_NODE,
  notOurNode,
  rightId,
  rightMissing,
} from '../words/finding-writes.ts';
import type { NotDone } from './api-said.ts';

/** What a write came to, as findings that a person should know; null: it was done, by this right. */
export function tellWrite(findings: Pick<Findings, 'raise' | 'clear'>, right: ApiRight, failed: NotDone | null): void {
  if (failed?.kind === 'not-our-node') findings.raise(notOurNode(failed.text));
  else if (failed?.kind === 'forbidden') {
    findings.raise(failed.right === null ? identityRefused(failed.text) : rightMissing(failed.right, failed.text));
  } else if (failed === null) {
    for (const id of [rightId(right), rightId('get nodes'), API_IDENTITY, NOT_OUR_NODE]) findings.clear(id);
  }
}
