import type { CandidateLimit, PodUid } from '../core/pod/pod.ts';
import type { Clock, Findings } from '../ports.ts';
import { budgetRefusesId } from '../words/finding-eviction.ts';

/** Which evictions a disruption budget has refused a moment ago (beside-a-kubelet.md B1, B11). */
export type Refusals = {
  readonly add: (uid: PodUid, retryAfterMs: number) => void;
  /** `budgets-refuse`: three others were refused, and the next one is not asked for yet. */
  readonly limitOf: (uid: PodUid) => CandidateLimit | null;
};

/** B1: a budget is not asked again before that, whatever the server says. */
const LEAST_MS = 5_000;
const LONGEST_MS = 60_000;
/** B11: in one pass no more are asked for. */
const MOST = 3;

export function createRefusals(clock: Clock, findings: Findings): Refusals {
  const untilMs = new Map<PodUid, number>();
  const forget = (): void => {
    for (const [uid, ms] of untilMs) {
      if (ms > clock.monoMs()) continue;
      untilMs.delete(uid);
      findings.clear(budgetRefusesId(uid));
    }
  };
  return {
    add: (uid, retryAfterMs) => {
      const waitMs = Math.min(LONGEST_MS, Math.max(LEAST_MS, retryAfterMs));
      untilMs.set(uid, clock.monoMs() + waitMs);
      clock.after(waitMs, forget);
    },
    limitOf: (uid) => {
      forget();
      if (untilMs.has(uid)) return 'budget-refused';
      return untilMs.size >= MOST ? 'budgets-refuse' : null;
    },
  };
}
