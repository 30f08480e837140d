import type { Findings } from '../../ports.ts';
import { SPOOL_OTHER_NODE, spoolOfAnotherNode } from '../../words/finding-writes.ts';

/** Counts the events that were dropped because the server has another node, until it has received something about that one. */
export function createLostEvents(findings: Pick<Findings, 'raise' | 'clear'>) {
  let events = 0;
  return {
    lost: (): void => findings.raise(spoolOfAnotherNode(++events)),
    received: ({ nodeUid }: { readonly nodeUid?: string }): void => {
      if (nodeUid === undefined) return;
      events = 0;
      findings.clear(SPOOL_OTHER_NODE);
    },
  };
}
