import type { CandidateLimit, PodUid } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Clock, Findings } from '../../ports.ts';
import { clearRefused } from '../../words/finding-eviction.ts';
import type { ApiPod } from '../api/api-pod.ts';

/** Evictions that a disruption budget refused recently (beside-a-kubelet.md B1, B11). */
export type Refusals = {
  /**
   * `said`: the reason. Another refusal for the same reason doubles the wait. `isLost`: a request to evict it has got no answer,
   * and may yet be accepted.
   */
  readonly add: (uid: PodUid, retryAfterMs: number, said: string, isLost?: boolean) => void;
  /** `budgets-refuse`: three others were refused, or one may yet be evicted, and the next request is not due yet. */
  readonly limitOf: (uid: PodUid) => CandidateLimit | null;
};
type Refusal = {
  readonly untilMs: MonoMs;
  readonly waitMs: number;
  readonly said: string;
  readonly lostMs: MonoMs | null;
};

/** B1: the minimum wait before the next request, whatever the server says. */
const LEAST_WAIT_MS = 5_000;
const LONGEST_WAIT_MS = 60_000;
/** The longest time that an API server works on a request, unless told otherwise. */
const LOST_MS = 60_000;
/** B11: the maximum number of requests in one pass. */
const MOST_REFUSED = 3;

export function createRefusals(clock: Clock, findings: Findings): Refusals {
  const refusals = new Map<PodUid, Refusal>();
  /** Forgets refusals after a further longest wait without a new request. */
  const forget = (): void => {
    for (const [uid, { untilMs }] of refusals) {
      if (untilMs + LONGEST_WAIT_MS > clock.monoMs()) continue;
      refusals.delete(uid);
      clearRefused(findings, uid);
    }
  };
  return {
    add: (uid, retryAfterMs, said, isLost = false) => {
      forget();
      const before = refusals.get(uid);
      const nowMs = clock.monoMs();
      // One that was asked about soon after is the same; a later one may have been accepted anew.
      const isSame = before !== undefined && nowMs - before.untilMs < LEAST_WAIT_MS;
      const lostMs = isLost ? ((isSame ? before.lostMs : null) ?? nowMs) : null;
      // While it holds back the others, it is asked about soon.
      const isAwaited = lostMs !== null && nowMs - lostMs < LOST_MS;
      const backOffMs = before?.said === said && !isAwaited ? 2 * before.waitMs : 0;
      const waitMs = Math.min(LONGEST_WAIT_MS, Math.max(LEAST_WAIT_MS, retryAfterMs, backOffMs));
      refusals.set(uid, { untilMs: nowMs + waitMs, waitMs, said, lostMs });
      clock.after(waitMs + LONGEST_WAIT_MS, forget);
    },
    limitOf: (uid) => {
      const nowMs = clock.monoMs();
      const inForce = [...refusals].filter(([, { untilMs }]) => untilMs > nowMs);
      if (inForce.some(([refused]) => refused === uid)) return 'budget-refused';
      const mayBeEvicted = inForce.some(([, { lostMs }]) => lostMs !== null && nowMs - lostMs < LOST_MS);
      return mayBeEvicted || inForce.length >= MOST_REFUSED ? 'budgets-refuse' : null;
    },
  };
}

/** Pods that the kubelet restarts because the API has not received their deletion (beside-a-kubelet.md B14). */
export type RestartGuard = {
  /** Its containers were killed, and the API has not accepted its end. */
  readonly killed: (uid: PodUid) => void;
  /** The API had accepted its end after all: the answer came after the kill. */
  readonly accepted: (uid: PodUid) => void;
  /** Another pod that exceeds its request is evicted first, as under the loop guard (D6). */
  readonly isBarred: (uid: PodUid) => boolean;
};

const GUARDED_MS = 600_000;
/** After this many kills in vain, other pods are evicted first. */
const KILLS_IN_VAIN = 2;

export function createRestartGuard(clock: Clock): RestartGuard {
  const killedMs = new Map<PodUid, readonly MonoMs[]>();
  const recent = (uid: PodUid): readonly MonoMs[] =>
    (killedMs.get(uid) ?? []).filter((atMs) => clock.monoMs() - atMs < GUARDED_MS);
  return {
    killed: (uid) => {
      killedMs.set(uid, [...recent(uid), clock.monoMs()]);
      for (const other of killedMs.keys()) if (recent(other).length === 0) killedMs.delete(other);
    },
    accepted: (uid) => void killedMs.set(uid, recent(uid).slice(0, -1)),
    isBarred: (uid) => recent(uid).length >= KILLS_IN_VAIN,
  };
}

/** F6 (i): after an eviction by the kubelet, the agent waits this long for what it frees. */
const RECENT_MS = 15_000;

/** When the kubelet of this node itself evicted a pod, as the API shows it: the pod becomes Failed, and stays. */
export function createKubeletEvictions(clock: Clock) {
  const seen = new Set<PodUid>();
  let lastMs: MonoMs = Number.NEGATIVE_INFINITY;
  /** Null: unknown, as with a kubelet before 1.26, or the clock has been set back since. */
  const agoMs = ({ evictedWallMs }: ApiPod): number | null => {
    if (evictedWallMs === undefined) return null;
    const ms = clock.wallMs() - evictedWallMs;
    return ms < 0 ? null : ms;
  };
  return {
    /** `isListed`: they were listed, or are known from an earlier run, so that they may have been evicted long ago. */
    see: (pods: Iterable<ApiPod>, isListed: boolean): void => {
      const now = new Set<PodUid>();
      for (const pod of pods) {
        if (!pod.isEvictedByKubelet) continue;
        const { uid } = pod.declared;
        now.add(uid);
        if (seen.has(uid)) continue;
        seen.add(uid);
        const ms = agoMs(pod) ?? (isListed ? Number.POSITIVE_INFINITY : 0);
        lastMs = Math.max(lastMs, clock.monoMs() - ms);
      }
      for (const uid of seen) if (!now.has(uid)) seen.delete(uid);
    },
    isRecent: (): boolean => clock.monoMs() - lastMs < RECENT_MS,
  };
}
