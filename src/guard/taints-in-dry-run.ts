import type { Findings } from '../ports.ts';
import { TAINTS_IN_DRY_RUN, taintsInDryRun } from '../words/finding-guard.ts';
import type { GuardLook } from './loop.ts';

/** A dry run removes nothing: what a fencing set before it was loaded stays. */
export function tellTaintsInDryRun({ raise, clear }: Pick<Findings, 'raise' | 'clear'>): (look: GuardLook) => void {
  return ({ config, verdict }) => {
    const nodes = config.dryRun ? [...verdict.state.nodes.values()] : [];
    const tainted = nodes.flatMap(({ object, facts }) => (facts.outOfServiceBy === null ? [] : [object.name]));
    if (tainted.length === 0) clear(TAINTS_IN_DRY_RUN);
    else raise(taintsInDryRun(tainted));
  };
}
