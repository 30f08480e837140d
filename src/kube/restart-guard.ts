import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';

/** Pods that the kubelet restarts because the API has not received their deletion (beside-a-kubelet.md B14). */
export type RestartGuard = {
  /** Its containers were killed, and the API has not accepted its end. */
  readonly killed: (uid: PodUid) => void;
  /** The API had accepted its end after all: the answer came after the kill. */
  readonly accepted: (uid: PodUid) => void;
  /** Another pod that exceeds its request is evicted first, as under the loop guard (D6). */
  readonly isBarred: (uid: PodUid) => boolean;
};

const WINDOW_MS = 600_000;
/** After this many kills in vain, other pods are evicted first. */
const KILLS = 2;

export function createRestartGuard(clock: Clock): RestartGuard {
  const killedMs = new Map<PodUid, readonly MonoMs[]>();
  const recent = (uid: PodUid): readonly MonoMs[] =>
    (killedMs.get(uid) ?? []).filter((atMs) => clock.monoMs() - atMs < WINDOW_MS);
  return {
    killed: (uid) => {
      killedMs.set(uid, [...recent(uid), clock.monoMs()]);
      for (const other of killedMs.keys()) if (recent(other).length === 0) killedMs.delete(other);
    },
    accepted: (uid) => void killedMs.set(uid, recent(uid).slice(0, -1)),
    isBarred: (uid) => recent(uid).length >= KILLS,
  };
}
