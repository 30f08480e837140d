import type { PodUid } from '../../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown, valueOrNull } from '../../core/reading.ts';
import type { Clock, Findings } from '../../ports.ts';
import {
  PODS_ANNOTATED,
  PODS_NOT_LISTED,
  PODS_UNREADABLE,
  podsAnnotated,
  podsRefused,
  podsUnreadable,
  TOO_MANY_PODS,
  tooManyPods,
} from '../../words/finding-api.ts';
import type { ApiPod, PodRef } from '../api/api-pod.ts';
import type { ApiGet } from '../api/connection.ts';
import { pathWith } from '../api/object-list.ts';
import { type WatchConnection, watchObjects } from '../api/object-watch.ts';
import { createPodCache, readPod } from './pod-cache.ts';

type WatchNeeds = {
  readonly connection: WatchConnection;
  readonly clock: Clock;
  readonly nodeName: string;
  readonly protectNamespaces: readonly string[];
  readonly findings: Findings;
  /**
   * The pods have changed; at most once per turn of the event loop. `isListed`: they were listed, or those of an earlier run
   * stand in, since the last call.
   */
  readonly onChange: (isListed: boolean) => void;
  /** From an earlier run in this boot: used until the first list arrives (D15). */
  readonly kept?: { readonly pods: ReadonlyMap<PodUid, ApiPod>; readonly atMs: MonoMs } | null | undefined;
  /** A random number from 0 to below 1. */
  readonly chance?: () => number;
};
export type PodWatch = {
  /** By the kubelet's uid, including terminating and finished ones (D4). They stay while the API server is away. */
  readonly pods: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** The pods of an earlier run in this boot, used once the server is late. */
  readonly stoodIn: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** Whether changes arrive: a watch is open. */
  readonly isCurrent: () => boolean;
  /** When the pods last matched the server's: now while they are current; null: never. */
  readonly atMs: () => MonoMs | null;
  /** Whether the server has listed them: not the pods of an earlier run. */
  readonly hasListed: () => boolean;
  /** The API server answers again, and its list is still to come: up to 2 s after its first answer. */
  readonly isListDue: () => boolean;
  /** How many times all pods were listed. */
  readonly lists: () => number;
  /** Lists the pods soon if no watch is open, whatever the back-off. */
  readonly refresh: () => void;
  /**
   * Call before requesting an object by the name of the pod with this uid. The result takes in the answer, or null if there is
   * none, unless list or watch have told of the pod since: that may be newer.
   */
  readonly asking: (uid: PodUid) => (object: unknown) => void;
  /** The pod by such an answer, as long as there is no list; null: none has told of it. */
  readonly learnt: (uid: PodUid) => ApiPod | null;
  /** By such an answer, the pod belongs to another node. */
  readonly isElsewhere: (uid: PodUid) => boolean;
  readonly close: () => void;
};

/** C1 */
const LIST_DEADLINE_MS = 10_000;
/** A server that is up has listed the pods by then. */
const STAND_IN_MS = 1_000;
/** As at the start (D13). */
const LIST_WAIT_MS = 2_000;
/** So many pods are remembered that were requested by name and are in no list. */
const MAX_ANSWERS = 1_000;

/** The pods of one node (beside-a-kubelet.md D1, D2). It ends only by `close`. */
export function watchPods(needs: WatchNeeds): PodWatch {
  const { connection, clock, nodeName, findings, onChange, kept = null } = needs;
  const protectNamespaces = new Set(needs.protectNamespaces);
  const cache = createPodCache();
  let isKeptInForce = false;
  let hasListed = false;
  let isNewlyListed = false;
  let isClosed = false;
  let upMs: MonoMs | null = null;
  /** By name. `elsewhere`: on another node, while its containers run here; what else there is gives way to a list. */
  const answers = new Map<PodUid, ApiPod | 'elsewhere'>();
  const asked = new Set<{ readonly uid: PodUid; isOutdated: boolean }>();
  const heardOf = (uid?: string): void => {
    for (const one of asked) if (uid === undefined || one.uid === uid) one.isOutdated = true;
  };
  let cancelTell: (() => void) | null = null;

  const watch = watchObjects({
    ...{ connection, clock, from: 'cached', listDeadlineMs: LIST_DEADLINE_MS },
    ...(needs.chance === undefined ? {} : { chance: needs.chance }),
    path: pathWith('/api/v1/pods', { fieldSelector: `spec.nodeName=${nodeName}` }),
    reduce: (object) => readPod(object, protectNamespaces, nodeName),
    replace: (all) => {
      heardOf();
      for (const [uid, answer] of answers) if (answer !== 'elsewhere') answers.delete(uid);
      cache.replace(all);
      hasListed = true;
      isNewlyListed = true;
      tell();
    },
    put: (one) => {
      heardOf(one.uid);
      cache.put(one);
      tell();
    },
    remove: (one) => {
      heardOf(one.uid);
      cache.remove(one);
      tell();
    },
    refused: (status, detail) => findings.raise(podsRefused(status, detail)),
    answered: () => findings.clear(PODS_NOT_LISTED),
    late: standIn,
  });

  /** Until there is a list, the pods of an earlier run are better than none. */
  function standIn(): void {
    cancelStandIn();
    if (isKeptInForce || kept === null) return;
    isKeptInForce = true;
    isNewlyListed = true;
    tell();
  }
  const cancelStandIn = kept === null ? () => undefined : clock.after(STAND_IN_MS, standIn);

  connection.onState((state) => {
    upMs = state === 'up' ? clock.monoMs() : null;
  });

  function stoodIn(): Reading<ReadonlyMap<PodUid, ApiPod>> {
    if (isKeptInForce && kept !== null) return known(kept.pods);
    return unknown('not-asked', `the pods of node ${nodeName}`, watch.failure());
  }

  function tell(): void {
    cancelTell ??= clock.after(0, () => {
      cancelTell = null;
      const unreadable = cache.unreadable();
      if (unreadable.length > 0) findings.raise(podsUnreadable(unreadable));
      else findings.clear(PODS_UNREADABLE);
      const annotated = cache.annotated();
      if (annotated.length > 0) findings.raise(podsAnnotated(annotated, needs.protectNamespaces));
      else findings.clear(PODS_ANNOTATED);
      if (cache.leftOut() > 0) findings.raise(tooManyPods(cache.leftOut()));
      else findings.clear(TOO_MANY_PODS);
      onChange(isNewlyListed);
      isNewlyListed = false;
    });
  }

  function learn(object: unknown, uid: PodUid): void {
    const read = readPod(object, protectNamespaces, nodeName);
    if (isClosed || read.uid !== uid) return;
    if (hasListed && !read.isElsewhere) {
      cache.put(read);
      tell();
      return;
    }
    const answer = read.isElsewhere ? 'elsewhere' : valueOrNull(read.pod);
    // A mirror pod stands for the pod of a manifest, which has another uid.
    if (answer === null || (answer !== 'elsewhere' && answer.declared.uid !== uid)) return;
    const [oldest] = answers.keys();
    if (answers.size >= MAX_ANSWERS && oldest !== undefined) answers.delete(oldest);
    answers.set(uid, answer);
  }

  return {
    pods: () => (hasListed ? known(cache.pods()) : stoodIn()),
    stoodIn,
    isCurrent: watch.isOpen,
    asking: (uid) => {
      const one = { uid, isOutdated: false };
      asked.add(one);
      return (object) => {
        asked.delete(one);
        if (!one.isOutdated && object !== null) learn(object, uid);
      };
    },
    learnt: (uid) => {
      const answer = answers.get(uid);
      return answer === undefined || answer === 'elsewhere' ? null : answer;
    },
    isElsewhere: (uid) => answers.get(uid) === 'elsewhere',
    atMs: () => (watch.isOpen() || hasListed || kept === null ? watch.atMs() : kept.atMs),
    hasListed: () => hasListed,
    isListDue: () => upMs !== null && !watch.isOpen() && clock.monoMs() - upMs < LIST_WAIT_MS,
    lists: watch.lists,
    refresh: () => {
      if (!watch.isOpen()) watch.relist();
    },
    close: () => {
      isClosed = true;
      watch.close();
      cancelStandIn();
      cancelTell?.();
    },
  };
}

type LookupNeeds = {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly isUp: () => boolean;
  /** All pods are about to be listed. */
  readonly isListDue: () => boolean;
  /** Called before each request; its result with the object of the answer, which may be anything; null: there is none. */
  readonly asking: (uid: PodUid) => (object: unknown) => void;
  /** Called after every answer, when it was taken in. */
  readonly answered: () => void;
};

const ASK_MS = 2_000;
/** The minimum time between two requests for one pod, and the maximum number of requests in flight. */
const AGAIN_MS = 5_000;
const MOST_IN_FLIGHT = 5;
/** H14. */
const MAX_ASKED = 1_000;

/** How long the choice of a victim waits for an answer: as long as a kill (beside-a-kubelet.md B6). */
const WAIT_MS = 100;

/**
 * Asks the API server for single pods that run here but are in neither its list nor its watch (beside-a-kubelet.md C9). True
 * while the answer about this pod is due within 100 ms of the request, or the list is.
 */
export function createPodLookup({
  clock,
  get,
  isUp,
  isListDue,
  asking,
  answered,
}: LookupNeeds): (pod: PodRef) => boolean {
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
    if (!isUp()) return isListDue();
    const { uid } = pod;
    if (underWay.size < MOST_IN_FLIGHT && sinceAskedMs(uid) >= AGAIN_MS) {
      forget();
      if (askedMs.size < MAX_ASKED) ask(pod);
    }
    return isListDue() || (underWay.has(uid) && sinceAskedMs(uid) < WAIT_MS);
  };
}
