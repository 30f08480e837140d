import { hostName } from '../host/host-name.ts';
import type { Findings } from '../ports.ts';
import { OWN_NODE, ownNodeUnclear } from '../words/finding-guard.ts';
import type { Nodes } from './nodes.ts';

/**
 * The name of the node that this process runs on; null: there is none. NODE_NAME says it, also in a sandbox with a kernel of its
 * own; else it is the one that says it has this machine's boot id. A node may say what it wants, so of several the one of this
 * machine's name counts, else the first.
 */
export function createOwnNode(needs: {
  readonly nodes: Pick<Nodes, 'all'>;
  readonly findings: Findings;
  readonly bootId: string;
  readonly env: NodeJS.ProcessEnv;
}): () => string | null {
  const { nodes, findings, bootId } = needs;
  const told = needs.env['NODE_NAME'];
  const own = told ?? hostName().toLowerCase();
  return () => {
    const names: string[] = [];
    for (const { object } of nodes.all()) {
      if (object.name === told || (bootId !== '' && object.bootId === bootId)) names.push(object.name);
    }
    if (names.includes(own) || names.length < 2) findings.clear(OWN_NODE);
    else findings.raise(ownNodeUnclear(names));
    return names.includes(own) ? own : (names.sort()[0] ?? null);
  };
}
