import type { CandidateLimit, PodUid, PodView } from '../../core/pod/pod.ts';
import { isCriticalPriority } from '../../core/pod/spec.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import { GIVEN_BACK_BYTES } from '../../host/cgroup/cgroupfs.ts';
import type { BoundPod, CgroupRef } from '../../ports.ts';
import { type ApiPod, type Deletable, isTerminal, type PodRef, type RestartPolicy } from '../api/api-pod.ts';
import type { RuntimeContainer, RuntimeSandbox } from '../cri/runtime.ts';
import type { FinishedPods } from './finished-pods.ts';
import type { FoundPods, PodCgroup } from './pod-cgroups.ts';
import { type FoundContainers, nameContainers, type RuntimeIndex } from './pod-containers.ts';

/** A pod of this node: as the API declares it, where its cgroup is, or both. */
export type LivePod = FoundContainers & {
  /** Null: only its cgroup is known, and priority and requests are not. */
  readonly pod: ApiPod | null;
  /** The object to name in a deletion. Null: unknown, or not ours to delete. */
  readonly object: Deletable | null;
  /** The API has it on another node: it is never deleted. Absent: not as far as known. */
  readonly isElsewhere?: true;
  readonly declared: BoundPod['declared'];
  readonly cgroup: Reading<CgroupRef>;
  /** False: all its containers are known to be dead, and what is left of it, such as its sandbox, holds nothing. */
  readonly frees: boolean;
  /** As in BoundPod. */
  readonly comesBack?: true;
  /** It has no process in a container, and the runtime may know of a later run than the API. Absent: it is known what there was. */
  readonly mayStartMore?: true;
};
/** Further facts about the pods, queried for each pod at each look. */
type Known = {
  readonly runtime: RuntimeIndex;
  /** B14, B11: the limit that our earlier stops put on choosing it; null: none. */
  readonly ownLimitOf: (uid: string) => CandidateLimit | null;
  /** C9: queries the API for an undeclared pod. True while a choice waits for the answer. */
  readonly lookUp: (pod: PodRef) => boolean;
  /** The API has answered that this pod, which is in no list of ours, belongs to another node. */
  readonly isElsewhere: (uid: PodUid) => boolean;
  /** What the API has answered about this pod, which it has not listed; null: nothing. */
  readonly learnt: (uid: PodUid) => ApiPod | null;
  /** A stop of ours is under way, or was survived. */
  readonly isStopping: (uid: string) => boolean;
  readonly finished: Omit<FinishedPods, 'keep'>;
  readonly populated: (cgroup: CgroupRef) => Reading<boolean>;
  /** Else it is not known of any cgroup. */
  readonly isPopulatedAsked: boolean;
  /** Its process memory and the files of its memory volumes, including its children: what no reclaim frees. */
  readonly heldBytes: (cgroup: CgroupRef) => Reading<number>;
  /** Its process memory. */
  readonly ownBytes: (cgroup: CgroupRef) => Reading<number>;
  /** Null: it has none, or it cannot be read. */
  readonly memoryLimit: (cgroup: CgroupRef) => number | null;
  readonly wallMs: number;
  /** beside-a-kubelet.md F6 (i). */
  readonly isKubeletEvicting: boolean;
  /** A shutdown may delete pods (E11, E13, E14). */
  readonly isDrained: boolean;
  /** The pod that the agent itself runs in; null: in none. */
  readonly ownUid: string | null;
  /** As saved by an earlier run in this boot: they name the containers before the API has listed the pods. */
  readonly saved: ReadonlyMap<PodUid, Pick<ApiPod, 'containers'>>;
};

/** Not a possible name in the API, which does not allow this character. */
const NOT_KNOWN = '?';

/**
 * The active pods (D4), from the API's declarations and from the cgroups. `gone`: the last declarations of pods that the API
 * no longer has.
 */
export function livePods(
  declared: Iterable<ApiPod>,
  gone: ReadonlyMap<string, ApiPod>,
  byUid: FoundPods,
  facts: Known,
): ReadonlyMap<string, LivePod> {
  const live = new Map<string, LivePod>();
  const elsewhere = new Set<string>();
  for (const pod of declared) {
    const { uid, qos } = pod.declared;
    if (pod.isElsewhere) {
      elsewhere.add(uid);
      continue;
    }
    const found = inClass(byUid.get(uid), qos);
    // Rejected at admission, or finished.
    if (found === null && isTerminal(pod)) continue;
    live.set(uid, knownPod(pod, found, isTerminal(pod), facts));
  }
  for (const [uid, places] of byUid) {
    if (live.has(uid)) continue;
    const [place] = places;
    const learnt = facts.learnt(uid);
    if (learnt !== null) {
      live.set(uid, knownPod(learnt, inClass(places, learnt.declared.qos), isTerminal(learnt), facts));
      continue;
    }
    const last = elsewhere.has(uid) ? undefined : gone.get(uid);
    const found = last === undefined ? (place ?? null) : inClass(places, last.declared.qos);
    if (last !== undefined) live.set(uid, knownPod(last, found, true, facts));
    else if (found !== null) live.set(uid, undeclaredPod(found, elsewhere.has(uid) || facts.isElsewhere(uid), facts));
  }
  return live;
}

/** D7: the path that its QoS class implies, else any that exists. */
function inClass(places: readonly PodCgroup[] | undefined, qos: PodCgroup['qos']): PodCgroup | null {
  return places?.find((place) => place.qos === qos) ?? places?.[0] ?? null;
}

function knownPod(pod: ApiPod, found: PodCgroup | null, isEnding: boolean, facts: Known): LivePod {
  const { declared, isMirror } = pod;
  const { uid } = declared;
  const containers = nameContainers(found?.containers ?? [], pod, facts.runtime);
  const isStoppable = !isMirror && !isCriticalPriority(declared.priority);
  const hasMore = frees(containers, found, facts);
  const isOver = isEnding || declared.isTerminating || facts.isStopping(uid);
  const isLast = isOver || !isRestartedAnyway(pod);
  const isEmpty = (): boolean => isLast && hasNoProcess(containers, found, facts);
  const sinceMs = facts.isPopulatedAsked
    ? facts.finished.sinceMs(uid, isEmpty() ? idsOf(pod, found, facts) : null)
    : null;
  const isAsked = sinceMs === null || facts.runtime.atMs >= sinceMs;
  const next = isOver ? 'none' : nextOf(pod, isAsked, facts);
  const freed = sinceMs === null ? null : freedSoon(uid, next, sinceMs, facts);
  return {
    ...containers,
    pod,
    object: pod,
    declared: {
      ...declared,
      ...endOf(pod, containers, isEnding, facts),
      limitedBy: hasMore && freed !== null ? freed : limitOf(uid, isStoppable && hasMore, null, facts),
      ...leavesAs(pod, isEnding, facts),
    },
    cgroup: found === null ? unknown('absent', `cgroup of ${declared.name}`, 'it has none') : known(found.cgroup),
    frees: hasMore,
    ...(next === 'none' && (sinceMs === null || freed !== null) ? { comesBack: true } : {}),
    ...(next === 'unknown' && !isAsked ? { mayStartMore: true } : {}),
  };
}

/**
 * Deleted, finished, or gone from the API. If this was not our request and its containers still run, the pod is ranked like
 * any other (F6). The rest of its grace period is never extended (F17).
 */
function endOf(
  { declared, deletionWallMs }: ApiPod,
  { containers }: FoundContainers,
  isEnding: boolean,
  facts: Known,
): Pick<PodView, 'isTerminating' | 'isDeletedByOthers' | 'terminationGraceSeconds'> {
  const { isTerminating, terminationGraceSeconds } = declared;
  const isOurs = facts.isStopping(declared.uid);
  if (!isTerminating && !isEnding) return { isTerminating: isOurs, terminationGraceSeconds };
  const left = deletionWallMs === null ? terminationGraceSeconds : Math.ceil((deletionWallMs - facts.wallMs) / 1_000);
  const isRunning = !isOurs && containers.some(({ cgroup }) => hasProcesses(cgroup, facts));
  return {
    isTerminating: true,
    ...(isRunning ? { isDeletedByOthers: true } : {}),
    terminationGraceSeconds: Math.max(1, Math.min(terminationGraceSeconds, left)),
  };
}

/** C9: its QoS class by its path, its name by the runtime. A static pod is never stopped. */
function undeclaredPod(found: PodCgroup, isElsewhere: boolean, facts: Known): LivePod {
  const { uid, qos, cgroup } = found;
  const sandbox = facts.runtime.podOf.get(uid);
  const containers = nameContainers(found.containers, facts.saved.get(uid) ?? null, facts.runtime);
  const isStatic = isStaticPod(uid, sandbox);
  const hasMore = frees(containers, found, facts);
  const isApi = sandbox?.source === 'api';
  const { namespace, name } = sandbox ?? { namespace: NOT_KNOWN, name: uid };
  const request = requestOf(found, facts);
  const object = isApi && !isElsewhere ? { namespace, name, uid } : null;
  const isLookedUp = object !== null && facts.lookUp(object);
  const awaited = isApi ? (isLookedUp ? 'looked-up' : null) : 'unnamed';
  return {
    ...containers,
    pod: null,
    object: object === null ? null : { object, isMirror: false, isUnplaced: true },
    ...(isElsewhere ? { isElsewhere } : {}),
    declared: {
      uid,
      namespace,
      name,
      qos,
      priority: 0,
      requests: { memoryBytes: request ?? 0, ephemeralStorageBytes: 0 },
      unsaid: { why: 'undeclared', priority: true, requests: request === null },
      podLevelMemoryRequest: null,
      ephemeralStorageLimit: null,
      containers: [],
      volumes: [],
      tolerations: [],
      terminationGraceSeconds: 30,
      startedAtWallMs: null,
      ownerKey: null,
      isDaemonSet: false,
      isStaticCritical: isStatic,
      isProtected: false,
      isTerminating: facts.isStopping(uid),
      limitedBy: limitOf(uid, !isStatic && hasMore, awaited, facts),
      leaves: isStatic ? 'last' : 'with-agent',
    },
    cgroup: known(cgroup),
    frees: hasMore,
  };
}

/** From the runtime; else D5: the API server's uids have dashes, those that the kubelet derives from a manifest do not. */
function isStaticPod(uid: string, sandbox: RuntimeSandbox | undefined): boolean {
  const source = sandbox?.source ?? null;
  return source === null ? !uid.includes('-') : source !== 'api';
}

/**
 * Whether its end frees anything. If all its containers are known to be dead and only the sandbox lives, it depends on what
 * the pod still holds: in a sandbox that runs the containers inside itself, or in a memory volume.
 */
function frees({ containers, sandboxes }: FoundContainers, pod: PodCgroup | null, facts: Known): boolean {
  if (pod === null) return false;
  const isEmpty = ({ cgroup }: { readonly cgroup: CgroupRef }): boolean => {
    const populated = facts.populated(cgroup);
    return populated.known && !populated.value;
  };
  if (!containers.every(isEmpty)) return true;
  if (!sandboxes.some((cgroup) => hasProcesses(cgroup, facts))) return containers.length > 0;
  const held = facts.heldBytes(pod.cgroup);
  return !held.known || held.value >= GIVEN_BACK_BYTES;
}

const policyOf = ({ restartPolicy, restarts = [] }: ApiPod, name: string): RestartPolicy =>
  restarts.find((one) => one.name === name)?.policy ?? restartPolicy;

/** Whatever their end, one of its containers is started again. */
const isRestartedAnyway = (pod: ApiPod): boolean =>
  pod.declared.containers.some(({ name, kind }) => kind === 'app' && policyOf(pod, name) === 'Always');

/** None of its containers has a process, nor its sandbox, if that runs them inside itself. */
export function hasNoProcess(
  { containers }: Pick<FoundContainers, 'containers'>,
  found: Pick<PodCgroup, 'cgroup'> | null,
  facts: Pick<Known, 'populated' | 'ownBytes'>,
): boolean {
  const isOver = ({ cgroup }: { readonly cgroup: CgroupRef }): boolean => {
    const populated = facts.populated(cgroup);
    return populated.known ? !populated.value : populated.why === 'absent';
  };
  if (found === null || !containers.every(isOver)) return false;
  const own = facts.ownBytes(found.cgroup);
  return own.known ? own.value < GIVEN_BACK_BYTES : own.why === 'absent';
}

/**
 * Whether one of the containers of a pod without a process is yet to be started, or is started again, by what the API and the
 * runtime say. The runtime does not say how one has ended. `isAsked`: it has been asked since the pod has no process.
 */
type Next = 'none' | 'starts' | 'unknown';
function nextOf(pod: ApiPod, isAsked: boolean, facts: Known): Next {
  const apps = pod.declared.containers.filter(({ kind }) => kind === 'app');
  const next = apps.map(({ name }) => nextOfContainer(pod, name, facts));
  if (next.includes('starts')) return isAsked ? 'starts' : 'unknown';
  return next.includes('unknown') || pod.restarts?.some(({ hasRules }) => hasRules) ? 'unknown' : 'none';
}

function nextOfContainer(pod: ApiPod, name: string, facts: Known): Next {
  const policy = policyOf(pod, name);
  if (policy === 'Always') return 'starts';
  const said = pod.containers.find((one) => one.name === name);
  if (said !== undefined && said.id !== null) {
    if (policy === 'Never' || said.ended === 'succeeded') return 'none';
    if (said.ended === undefined) return 'unknown';
  }
  const runs = listedOf(pod.declared.uid, facts).filter((one) => one.name === name && one.state !== 'created');
  const last = runs.toSorted((a, b) => b.createdAtWallMs - a.createdAtWallMs)[0];
  if (last === undefined || last.id === said?.id) return 'starts';
  // The API does not show its last run yet.
  return policy === 'Never' ? 'none' : 'unknown';
}

/** Since `sinceMs`, it has had no process. Null: the kubelet frees nothing of it, or has not in its time. */
function freedSoon(uid: PodUid, next: Next, sinceMs: MonoMs, facts: Known): 'finished' | 'maybe-finished' | null {
  if (next === 'none') return facts.finished.isRecent(sinceMs) ? 'finished' : null;
  return next === 'unknown' && facts.finished.isRecentOnce(uid, sinceMs) ? 'maybe-finished' : null;
}

const listedOf = (uid: PodUid, { runtime }: Known): readonly RuntimeContainer[] =>
  [...runtime.containers.values()].filter(({ podUid }) => podUid === uid);

/** All its containers that anybody knows of, those that have ended included. */
const idsOf = ({ declared, containers }: ApiPod, found: PodCgroup | null, facts: Known): readonly string[] => [
  ...containers.flatMap(({ id }) => (id === null ? [] : [id])),
  ...listedOf(declared.uid, facts).map(({ id }) => id),
  ...(found?.containers ?? []).map(({ id }) => id),
];

function hasProcesses(cgroup: CgroupRef, facts: Known): boolean {
  const populated = facts.populated(cgroup);
  return populated.known && populated.value;
}

/** BestEffort requests nothing, and the request of a Guaranteed pod is its limit. Null: unknown. */
function requestOf({ qos, cgroup }: PodCgroup, facts: Known): number | null {
  if (qos === 'BestEffort') return 0;
  return qos === 'Guaranteed' ? facts.memoryLimit(cgroup) : null;
}

/** E11: deleting a bare pod destroys it, and the pod of a DaemonSet comes back at once. */
function leavesAs(
  { isMirror, owner, declared }: ApiPod,
  isEnding: boolean,
  facts: Known,
): Partial<Pick<PodView, 'leaves'>> {
  if (isMirror) return { leaves: 'last' };
  const isMovable = owner !== null && owner.kind !== 'Node' && !declared.isDaemonSet && !isEnding;
  return isMovable && facts.isDrained ? {} : { leaves: 'with-agent' };
}

function limitOf(
  uid: string,
  isStoppable: boolean,
  awaited: 'unnamed' | 'looked-up' | null,
  facts: Known,
): BoundPod['declared']['limitedBy'] {
  if (!isStoppable || uid === facts.ownUid) return 'not-stoppable';
  const own = facts.ownLimitOf(uid);
  if (own === 'restart-guard') return own;
  if (awaited !== null) return awaited;
  return facts.isKubeletEvicting ? 'kubelet-evicting' : own;
}
