import { mayGoFor } from '../../core/pod/evict-for.ts';
import { type Inherited, type PodUid, podName } from '../../core/pod/pod.ts';
import type { BoundPod } from '../../ports.ts';
import type { TieGraph } from './tie-graph.ts';

/** D16 and the order of stops, as the pods declare them from then on. */
export function withTies(
  pods: readonly BoundPod[],
  graph: TieGraph,
  isUp: (pod: BoundPod) => boolean,
): readonly BoundPod[] {
  const byUid = new Map(pods.map((pod) => [pod.declared.uid, pod]));
  const running = (uids: readonly PodUid[]): readonly BoundPod['declared'][] =>
    uids.flatMap((uid) => {
      const found = byUid.get(uid);
      return found !== undefined && isUp(found) ? [found.declared] : [];
    });
  const inherited = inheritance(pods, graph, running);
  return pods.map((pod) => {
    const { uid } = pod.declared;
    const ties = graph.of(uid);
    const from = inherited.get(uid);
    if (ties === null && from === undefined) return pod;
    const along = running(ties?.pods ?? []);
    const takesAlong = [...along.map(podName), ...(ties?.units ?? [])];
    const risked = [...along, ...running(ties?.displaced ?? [])];
    const spared = pod.declared.isStaticCritical ? undefined : risked.find(isLimitSpared);
    const stopsAfter = ties?.after.filter((other) => byUid.has(other)) ?? [];
    const stopsAfterUnits = ties?.afterUnits ?? [];
    const endsMachine = ties?.machineAction;
    return {
      ...pod,
      declared: {
        ...pod.declared,
        // A pod whose stop also stops a pod that must not be chosen, or only last, must not be chosen before that one.
        isStaticCritical: pod.declared.isStaticCritical || risked.some(({ isStaticCritical }) => isStaticCritical),
        isProtected: pod.declared.isProtected || risked.some(({ isProtected }) => isProtected),
        ...narrowest([pod.declared, ...risked]),
        ...(from === undefined ? {} : { inherited: from }),
        ...(takesAlong.length === 0 ? {} : { takesAlong }),
        ...(spared === undefined ? {} : { limitSpares: podName(spared) }),
        ...(stopsAfter.length === 0 ? {} : { stopsAfter }),
        ...(stopsAfterUnits.length === 0 ? {} : { stopsAfterUnits }),
        ...(endsMachine === undefined ? {} : { endsMachine }),
      },
    };
  });
}

/** D7, D16: it does not end because another pod is over its storage limit. */
const isLimitSpared = (pod: BoundPod['declared']): boolean =>
  (pod.isStaticCritical || pod.isProtected || !mayGoFor(pod, 'nodefs.available')) && !pod.isTerminating;

/**
 * D16, also for a pod that is stopped with the last of several: one of these has to outlast the others, the one that does
 * already, and so do the pods that would stop that one.
 */
function inheritance(
  pods: readonly BoundPod[],
  graph: TieGraph,
  running: (uids: readonly PodUid[]) => readonly BoundPod['declared'][],
): ReadonlyMap<PodUid, Inherited> {
  const found = new Map<PodUid, Inherited>();
  const own = new Map(pods.map(({ declared }) => [declared.uid, declared.priority]));
  const rank = (uid: PodUid): number => found.get(uid)?.priority ?? own.get(uid) ?? Number.NEGATIVE_INFINITY;
  const pass = (uids: readonly PodUid[], to: readonly PodUid[]): boolean => {
    let isNew = false;
    for (const pod of running(uids)) {
      const given = found.get(pod.uid) ?? { priority: pod.priority, from: podName(pod) };
      for (const uid of to) {
        if (!own.has(uid) || given.priority <= rank(uid)) continue;
        found.set(uid, given);
        isNew = true;
      }
    }
    return isNew;
  };
  const lasts = (holders: readonly PodUid[]): number => Math.min(...holders.map(rank));
  const passAll = (): boolean => {
    const direct = pods.map(({ declared: { uid } }) => {
      const ties = graph.of(uid);
      return ties !== null && pass([...ties.pods, ...ties.displaced], [uid]);
    });
    const shared = graph.shared.map(({ pods: uids, heldBy }) => {
      const [last = []] = heldBy.toSorted((a, b) => lasts(b) - lasts(a));
      return pass(uids, last);
    });
    return [...direct, ...shared].includes(true);
  };
  while (passAll());
  return found;
}

/** The resources for which all of them may be evicted. */
function narrowest(pods: readonly BoundPod['declared'][]): Pick<BoundPod['declared'], 'evictFor'> {
  const lists = pods.flatMap(({ evictFor }) => (evictFor === undefined ? [] : [evictFor]));
  const [first] = lists;
  if (first === undefined) return {};
  return { evictFor: first.filter((resource) => lists.every((list) => list.includes(resource))) };
}
