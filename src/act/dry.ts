import type { Clock, Killer, NodeMarks, Scratch } from '../ports.ts';
import type { PreKill } from './pre-kill.ts';
import type { Reclaim } from './reclaim.ts';

/** Dry run: the parts that change something, with nothing behind them (product.md section 2). */
export function dryParts(
  clock: Clock,
  { largestProcesses }: Pick<Killer, 'largestProcesses'>,
): {
  readonly killer: Killer;
  readonly reclaim: Reclaim;
  readonly preKill: PreKill;
  readonly marks: NodeMarks;
  readonly scratch: Scratch;
} {
  const dropped = (of: string) => ({ of, atMs: clock.monoMs(), kind: 'dropped', because: 'dry-run' }) as const;
  return {
    killer: { stop: async ({ decision }) => dropped(decision), largestProcesses },
    reclaim: async ({ id }) => dropped(id),
    preKill: async () => {},
    scratch: { empty: async () => null },
    marks: { setCondition: () => {}, event: () => {} },
  };
}
