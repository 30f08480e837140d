import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import type { PodRef } from './api-pod.ts';
import type { ApiGet } from './connection.ts';

type LookupNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly isUp: () => boolean;
  /** Called before each request; its result with the object of the answer, which may be anything; null: there is none. */
  readonly asking: (uid: PodUid) => (object: unknown) => void;
  /** Called after every answer, when it was taken in. */
  readonly answered: () => void;
};

const ASK_MS = 2_000;
/** The minimum time between two requests for one pod, and the maximum number of requests in flight. */
const AGAIN_MS = 5_000;
const MOST = 5;
/** H14. */
const MAX_ASKED = 1_000;

/** How long the choice of a victim waits for an answer: as long as a kill (beside-a-kubelet.md B6). */
const WAIT_MS = 100;

/**
 * Asks the API server for single pods that run here but are in neither its list nor its watch (beside-a-kubelet.md C9). True
 * while the answer about this pod is due within 100 ms of the request.
 */
export function createPodLookup({ clock, get, isUp, asking, answered }: LookupNeeds): (pod: PodRef) => boolean {
  const askedMs = new Map<PodUid, MonoMs>();
  const underWay = new Set<PodUid>();
  const forget = (): void => {
    for (const [uid, ms] of askedMs) if (clock.monoMs() - ms >= AGAIN_MS) askedMs.delete(uid);
  };
  const ask = ({ namespace, name, uid }: PodRef): void => {
    askedMs.set(uid, clock.monoMs());
    underWay.add(uid);
    const learn = asking(uid);
    void get(`/api/v1/namespaces/${namespace}/pods/${name}`, ASK_MS).then((answer) => {
      underWay.delete(uid);
      learn(answer.kind === 'answer' && answer.status === 200 ? answer.body : null);
      answered();
    });
  };
  const sinceAskedMs = (uid: PodUid): number => clock.monoMs() - (askedMs.get(uid) ?? Number.NEGATIVE_INFINITY);
  return (pod) => {
    if (!isUp()) return false;
    const { uid } = pod;
    if (underWay.size < MOST && sinceAskedMs(uid) >= AGAIN_MS) {
      forget();
      if (askedMs.size < MAX_ASKED) ask(pod);
    }
    return underWay.has(uid) && sinceAskedMs(uid) < WAIT_MS;
  };
}
