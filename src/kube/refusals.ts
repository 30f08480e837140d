import type { CandidateLimit, PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock, Findings } from '../ports.ts';
import { clearRefused } from '../words/finding-eviction.ts';

/** Evictions that a disruption budget refused recently (beside-a-kubelet.md B1, B11). */
export type Refusals = {
  /** `said`: the reason. Another refusal for the same reason doubles the wait. */
  readonly add: (uid: PodUid, retryAfterMs: number, said: string) => void;
  /** `budgets-refuse`: three others were refused, and the next request is not due yet. */
  readonly limitOf: (uid: PodUid) => CandidateLimit | null;
};
type Refusal = { readonly untilMs: MonoMs; readonly waitMs: number; readonly said: string };

/** B1: the minimum wait before the next request, whatever the server says. */
const LEAST_MS = 5_000;
const LONGEST_MS = 60_000;
/** B11: the maximum number of requests in one pass. */
const MOST = 3;

export function createRefusals(clock: Clock, findings: Findings): Refusals {
  const refusals = new Map<PodUid, Refusal>();
  /** Forgets refusals after a further longest wait without a new request. */
  const forget = (): void => {
    for (const [uid, { untilMs }] of refusals) {
      if (untilMs + LONGEST_MS > clock.monoMs()) continue;
      refusals.delete(uid);
      clearRefused(findings, uid);
    }
  };
  return {
    add: (uid, retryAfterMs, said) => {
      forget();
      const before = refusals.get(uid);
      const backOffMs = before?.said === said ? 2 * before.waitMs : 0;
      const waitMs = Math.min(LONGEST_MS, Math.max(LEAST_MS, retryAfterMs, backOffMs));
      refusals.set(uid, { untilMs: clock.monoMs() + waitMs, waitMs, said });
      clock.after(waitMs + LONGEST_MS, forget);
    },
    limitOf: (uid) => {
      const inForce = [...refusals].filter(([, { untilMs }]) => untilMs > clock.monoMs());
      if (inForce.some(([refused]) => refused === uid)) return 'budget-refused';
      return inForce.length >= MOST ? 'budgets-refuse' : null;
    },
  };
}
