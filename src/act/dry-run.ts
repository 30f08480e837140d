import type { Clock, Killer } from '../ports.ts';
import type { Effects } from './actor.ts';

/** Dry run: the parts that change something, replaced by ones that do nothing (product.md section 2). */
export function dryParts(
  clock: Clock,
  { usedBytes, largestProcesses }: Pick<Killer, 'usedBytes' | 'largestProcesses'>,
): Required<Effects> {
  const dropped = (of: string) => ({ of, atMs: clock.monoMs(), kind: 'dropped', because: 'dry-run' }) as const;
  return {
    killer: { stop: async ({ decision }) => dropped(decision), usedBytes, largestProcesses },
    reclaim: async ({ id }) => dropped(id),
    preKill: { collect: async () => {}, skipped: () => '' },
    scratch: { empty: async () => null },
    marks: { setCondition: () => {}, event: () => {} },
  };
}
