import type { GuardVerdict } from '../core/guard/decision.ts';
import type { Phase } from '../core/guard/record.ts';

/** Since this process started. */
export type GuardCounts = {
  readonly decided: number;
  /** Fencings that came to such a phase. */
  readonly fencings: { readonly [R in FencingResult]: number };
  readonly holds: number;
  /** Machines that showed life though they were proven off. */
  readonly livesAfterProof: number;
};
export type FencingResult = 'proven' | 'tainted' | 'aborted' | 'failed' | 'stuck' | 'left-off' | 'not-back' | 'closed';

const RESULTS: { readonly [P in Phase]: FencingResult | null } = {
  ...{
    decided: null,
    isolating: null,
    'off-sent': null,
    proving: null,
    untainting: null,
    'on-sent': null,
    booting: null,
  },
  ...{ proven: 'proven', tainted: 'tainted', aborted: 'aborted', failed: 'failed', stuck: 'stuck' },
  ...{ 'left-off': 'left-off', 'not-back': 'not-back', closed: 'closed' },
};

export function createGuardCounts(): {
  readonly decided: (verdict: Pick<GuardVerdict, 'decisions' | 'reasons'>) => void;
  readonly now: () => GuardCounts;
} {
  const fencings = {
    ...{ proven: 0, tainted: 0, aborted: 0, failed: 0, stuck: 0, 'left-off': 0, 'not-back': 0, closed: 0 },
  };
  let decided = 0;
  let holds = 0;
  let livesAfterProof = 0;
  return {
    decided: ({ decisions, reasons }) => {
      livesAfterProof += reasons.filter(({ code }) => code === 'life-after-proof').length;
      for (const decision of decisions) {
        if (decision.kind === 'fence') decided += 1;
        else if (decision.kind === 'hold') holds += 1;
        else if ('record' in decision && decision.from !== decision.record.phase) {
          const result = RESULTS[decision.record.phase];
          if (result !== null) fencings[result] += 1;
        }
      }
    },
    now: () => ({ decided, holds, livesAfterProof, fencings: { ...fencings } }),
  };
}
