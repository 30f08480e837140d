import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import type { PodRef } from './api-pod.ts';
import type { ApiGet } from './connection.ts';

type LookupNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly isUp: () => boolean;
  /** An object of the API, which may be anything. */
  readonly learn: (object: unknown, uid: PodUid) => void;
};

const ASK_MS = 2_000;
/** The minimum time between two requests for one pod, and the maximum number of requests in flight. */
const AGAIN_MS = 5_000;
const MOST = 5;
/** H14. */
const MAX_ASKED = 1_000;

/**
 * Asks the API server for single pods that run here but are in neither its list nor its watch (beside-a-kubelet.md C9).
 * Nothing waits for the answer.
 */
export function createPodLookup({ clock, get, isUp, learn }: LookupNeeds): (pod: PodRef) => void {
  const askedMs = new Map<PodUid, MonoMs>();
  let underWay = 0;
  const forget = (): void => {
    for (const [uid, ms] of askedMs) if (clock.monoMs() - ms >= AGAIN_MS) askedMs.delete(uid);
  };
  return ({ namespace, name, uid }) => {
    if (!isUp() || underWay >= MOST) return;
    forget();
    if (askedMs.has(uid) || askedMs.size >= MAX_ASKED) return;
    askedMs.set(uid, clock.monoMs());
    underWay += 1;
    void get(`/api/v1/namespaces/${namespace}/pods/${name}`, ASK_MS).then((answer) => {
      underWay -= 1;
      if (answer.kind === 'answer' && answer.status === 200) learn(answer.body, uid);
    });
  };
}
