import { EVICT_FOR } from '../../core/pod/evict-for.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import { podName } from '../../core/pod/pod.ts';
import type { Reading } from '../../core/reading.ts';
import { isObject, isText, partOf } from '../../core/shape.ts';
import { evictForMistake, isUid } from '../../document/pod.ts';
import { type ApiPod, OURS, SPARING } from '../api/api-pod.ts';
import { readableOf } from './readable-pod.ts';

/** H14: far more than a node can have. */
const MAX_PODS = 10_000;
/** An unreadable pod is only reported. */
const MAX_UNREADABLE = 1_000;

/** A pod object that was refused. */
type UnreadablePod = {
  readonly pod: string;
  readonly why: string;
  /** Only part of it cannot be read. */
  readonly isPart: boolean;
  readonly isKept: boolean;
};
/** An object after it was read: only what it was reduced to is kept. */
type ReadPod = {
  readonly uid: string;
  readonly name: string;
  readonly pod: Reading<ApiPod>;
  readonly isElsewhere: boolean;
  /** What could not be read although the rest could; null: nothing. */
  readonly problem: string | null;
  /** Its name, if it has annotations of ours that have no effect here; else null. */
  readonly annotated: string | null;
};
type PodCache = {
  /** By the kubelet's uid. */
  readonly pods: () => ReadonlyMap<PodUid, ApiPod>;
  /** Stores an object that exists. */
  readonly put: (read: ReadPod) => void;
  readonly remove: (read: Pick<ReadPod, 'uid'>) => void;
  /** Replaces all pods: those not included are gone. */
  readonly replace: (reads: readonly ReadPod[]) => void;
  readonly unreadable: () => readonly UnreadablePod[];
  /** Pods with annotations of ours that have no effect here. */
  readonly annotated: () => readonly string[];
  /** How many were left out because there are too many. */
  readonly leftOut: () => number;
};

export function readPod(object: unknown, protectNamespaces: ReadonlySet<string>, nodeName: string): ReadPod {
  const names = namesIn(object);
  const { pod, problem } = readableOf(object, protectNamespaces, nodeName);
  const annotated = annotatedAs(
    names.name,
    partOf(object, 'metadata')['annotations'],
    protectNamespaces.has(names.namespace),
  );
  return { ...names, pod, problem, isElsewhere: pod.known && pod.value.isElsewhere === true, annotated };
}

function annotatedAs(name: string, annotations: unknown, maySpare: boolean): string | null {
  const given = isObject(annotations) ? annotations : {};
  const ours = Object.keys(given).filter((key) => key.startsWith(OURS));
  if (ours.some((key) => !maySpare || !SPARING.includes(key))) return name;
  const evictFor = given[EVICT_FOR];
  const mistake = isText(evictFor) ? evictForMistake(evictFor) : null;
  return mistake === null ? null : `${name} (${EVICT_FOR} ${mistake})`;
}

/** The pods of this node as reported by the API server. An object is identified by its uid, not its name. */
export function createPodCache(): PodCache {
  const kept = new Map<string, ApiPod>();
  const uidByName = new Map<string, string>();
  const unreadable = new Map<string, Omit<UnreadablePod, 'isKept'>>();
  const annotated = new Map<string, string>();
  const leftOut = new Set<string>();
  let byPodUid: ReadonlyMap<PodUid, ApiPod> | null = null;

  function forget(uid: string): void {
    annotated.delete(uid);
    unreadable.delete(uid);
    leftOut.delete(uid);
    const pod = kept.get(uid);
    if (pod === undefined) return;
    kept.delete(uid);
    uidByName.delete(podName(pod.object));
    byPodUid = null;
  }

  function put({ uid, name, pod: read, problem, annotated: as }: ReadPod): void {
    const before = kept.get(uid);
    const isWorse = problem !== null && before !== undefined && before.declared.unsaid === undefined;
    if (!read.known || isWorse) {
      // The last readable version stays: an unreadable change must not cost the pod its requests.
      if (unreadable.size < MAX_UNREADABLE || unreadable.has(uid)) {
        unreadable.set(uid, { pod: name, why: problem ?? sayWhy(read), isPart: false });
      }
      return;
    }
    // A kubelet 1.20 replaces the whole status of a pod that it evicts, containers and all.
    const isBared = isOver(read.value) && !hasRun(read.value) && before !== undefined;
    const pod = isBared ? { ...read.value, containers: before.containers } : read.value;
    // D4: rejected before it had a container. Anybody could bind ten thousand of these to the node.
    if (isOver(pod) && !hasRun(pod)) {
      forget(uid);
      return;
    }
    if (kept.size >= MAX_PODS && !kept.has(uid)) {
      if (leftOut.size < MAX_PODS) leftOut.add(uid);
      return;
    }
    const namesake = uidByName.get(name);
    if (namesake !== undefined && namesake !== uid) forget(namesake);
    if (problem === null || unreadable.size >= MAX_UNREADABLE) unreadable.delete(uid);
    else unreadable.set(uid, { pod: name, why: problem, isPart: true });
    leftOut.delete(uid);
    if (as !== null) annotated.set(uid, as);
    else annotated.delete(uid);
    kept.set(uid, pod);
    uidByName.set(name, uid);
    byPodUid = null;
  }

  return {
    pods: () => {
      byPodUid ??= indexed([...kept.values()]);
      return byPodUid;
    },
    put,
    remove: ({ uid }) => forget(uid),
    replace: (reads) => {
      const seen = new Set(reads.map(({ uid }) => uid));
      for (const uid of [...kept.keys(), ...unreadable.keys(), ...leftOut]) if (!seen.has(uid)) forget(uid);
      for (const read of reads) put(read);
    },
    unreadable: () => [...unreadable].map(([uid, pod]) => ({ ...pod, isKept: kept.has(uid) })),
    annotated: () => [...annotated.values()],
    leftOut: () => leftOut.size,
  };
}

const sayWhy = (read: Reading<ApiPod>): string => (read.known ? '' : `${read.where}: ${read.detail}`);
const hasRun = ({ containers }: ApiPod): boolean => containers.some(({ id }) => id !== null);
const isOver = ({ phase }: ApiPod): boolean => phase === 'Succeeded' || phase === 'Failed';

/**
 * A mirror pod is known by the uid of its manifest, which comes from an annotation: it never replaces a pod that has that uid
 * itself, nor does the later of two mirrors replace the earlier one.
 */
function indexed(pods: readonly ApiPod[]): ReadonlyMap<PodUid, ApiPod> {
  const since = ({ declared }: ApiPod): number => declared.startedAtWallMs ?? Number.POSITIVE_INFINITY;
  const inOrder = [...pods].sort((a, b) => Number(b.isMirror) - Number(a.isMirror) || since(b) - since(a));
  return new Map(inOrder.map((pod) => [pod.declared.uid, pod]));
}

/**
 * The names in an object that may be anything. Without a uid, it is known by its name, which never looks like a uid.
 */
function namesIn(object: unknown): { readonly uid: string; readonly name: string; readonly namespace: string } {
  const { uid, name, namespace } = partOf(object, 'metadata');
  const part = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 253) : '?');
  const whole = `${part(namespace)}/${part(name)}`;
  return { uid: isUid(uid) ? uid : whole, name: whole, namespace: part(namespace) };
}
