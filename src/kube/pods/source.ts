import { createUnreapedDead } from '../../act/unreaped-dead.ts';
import { type CandidateLimit, type PodUid, podName } from '../../core/pod/pod.ts';
import { ifKnown, known, type MonoMs, type Reading, sumOf, unknown, valueOrNull } from '../../core/reading.ts';
import { cgroupPathOf } from '../../host/cgroup/cgroup-members.ts';
import { openMemory } from '../../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { anonBytes, hasProcesses, isPopulated } from '../../host/cgroup/cgroupfs.ts';
import type { CgroupDriver } from '../../host/cgroup/kubepods.ts';
import type { BoundPod, CgroupRef, Clock, Findings, PodSource } from '../../ports.ts';
import type { ApiPod, PodRef } from '../api/api-pod.ts';
import type { Runtime } from '../cri/runtime.ts';
import { isPodUid, podOfPath } from './cgroup-paths.ts';
import { createFinishedPods } from './finished-pods.ts';
import { heldByDead } from './held-by-dead.ts';
import { type LivePod, livePods } from './live-pods.ts';
import { createPodCgroups, type FoundPods } from './pod-cgroups.ts';
import { createRuntimeIndex, type RuntimeIndex, shortId } from './pod-containers.ts';
import { createSourceFindings } from './source-findings.ts';

type KubeSourceNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly findings: Findings;
  /** The kubelet's cgroup root: the parent of kubepods. */
  readonly cgroupRoot: string;
  /** From the kubelet's configuration, for a runtime that does not report it (D7); null: not set there either. */
  readonly configuredDriver: CgroupDriver | null;
  /** The pods of this node only. Unknown until the first list, or the saved pods. */
  readonly apiPods: () => Reading<ReadonlyMap<string, ApiPod>>;
  /** Saved by an earlier run in this boot; empty: there are none. */
  readonly savedPods: ReadonlyMap<PodUid, ApiPod>;
  readonly runtime: Pick<Runtime, 'facts' | 'refresh' | 'cgroupDriver'>;
  /** B14, B11: the limit that our earlier stops put on choosing a pod; null: none. */
  readonly ownLimitOf: (uid: string) => CandidateLimit | null;
  /** F6 (i): a pod of this node became Failed with the reason Evicted in the last 15 s. */
  readonly isKubeletEvicting: () => boolean;
  /** A shutdown may delete pods. */
  readonly isDrained: () => boolean;
  /** How a pod's disk is measured, beside the loop (kube/pods/pod-disk.ts). */
  readonly disk: (pod: LivePod, soFar: Parameters<BoundPod['disk']>[0]) => ReturnType<BoundPod['disk']>;
  /** C9: queries the API server for this pod, in the background. True while a choice waits for the answer. */
  readonly lookUp: (pod: PodRef) => boolean;
  /** What it answered: the pod belongs to another node. */
  readonly isElsewhere: (uid: PodUid) => boolean;
  /** What it answered otherwise, as long as it has not listed the pods; null: nothing. */
  readonly learnt: (uid: PodUid) => ApiPod | null;
  readonly wake: () => void;
};
export type KubeSource = PodSource & {
  /** The pod with its current containers, to stop it. Null: there is no such pod; unknown: cgroups cannot be read. */
  readonly find: (uid: string) => Reading<LivePod | null>;
  /** False until the first list, for a moment after the start: running pods may not have names yet. */
  readonly isSettled: () => boolean;
  /** The declarations of the pods that have processes. */
  readonly running: () => readonly BoundPod['declared'][];
  /** The same by their uids, for whoever waits for their end. Unknown: of one of them it cannot be read. */
  readonly allRunning: () => Reading<readonly PodUid[]>;
  /** The cgroup of all pods, as of the last look at them. Unknown `absent`: the kubelet has made none. */
  readonly kubepods: () => Reading<string>;
  /** The pod is terminating until `stopEnded`, or, if it survived, until it has another cgroup. */
  readonly stopBegan: (uid: string) => void;
  readonly stopEnded: (uid: string, how: 'ended' | 'survived') => void;
};

const NOT_ASKED = unknown('not-asked', 'cgroup', 'no pod is chosen');
/** How often findings are refreshed; `pods` always returns the pods as they are at that moment. */
const REFRESH_MS = 2_000;
const FAR_REFRESH_MS = 10_000;
/** Far from every threshold, containers are compared only this often: stopping a pod compares them anyway. */
const COMPARE_MS = 60_000;
/** Whenever containers are compared, the unreaped dead of so many pods are counted: far from every threshold, of 100 in 5 minutes. */
const DEAD_AT_ONCE = 20;
/** How long no pod is chosen because the list is missing (D13), and how long a shutdown waits for it. */
const SETTLE_MS = 2_000;
const SETTLE_SHUTDOWN_MS = 500;
/** F6 (i): the longest wait for what the kubelet frees, which may be nothing. Which pods wait: core/eviction/kubelet-wait.ts. */
const KUBELET_EVICTS_MS = 10_000;
/** The minimum time between queries to the runtime while there are containers that it has not listed. */
const ASK_RUNTIME_MS = 1_000;
/** The same for unnamed pods: a choice may wait for them, and their sandbox may be listed any moment. */
const ASK_NAME_MS = 100;
/** If it does not list them either, the pause doubles up to this: a cgroup may have been left behind. */
const ASK_RUNTIME_MOST_MS = 60_000;

type Populated = (cgroup: CgroupRef) => Reading<boolean>;
type Pods = ReadonlyMap<string, LivePod>;
type Rough = {
  readonly found: FoundPods;
  readonly runtime: RuntimeIndex;
  readonly api: ReadonlyMap<string, ApiPod> | null;
  readonly pods: Pods;
};
/** `inode`: of the cgroup that a stop did not empty; null: the stop is under way. */
type Stopping = { readonly inode: number | null };

/** The pods of this node at this moment (D13), combined from the API, the runtime and the cgroups. */
export function createKubeSource(needs: KubeSourceNeeds): KubeSource {
  const { clock, mounts, runtime, cgroupRoot, configuredDriver } = needs;
  const driver = (): Reading<CgroupDriver> => {
    const said = runtime.cgroupDriver();
    return said.known || configuredDriver === null ? said : known(configuredDriver);
  };
  const cgroups = createPodCgroups({ mounts, cgroupRoot, driver });
  const index = createRuntimeIndex(runtime.facts);
  const told = createSourceFindings(needs);
  const tellDead = createUnreapedDead(mounts, needs.findings, DEAD_AT_ONCE);
  const startMs = clock.monoMs();
  const stopping = new Map<string, Stopping>();
  const stops = new Map<string, number>();
  const finished = createFinishedPods(clock);
  /** The last declarations of the pods that had a cgroup at the last look. */
  let declaredBefore: ReadonlyMap<string, ApiPod> = new Map();
  /** The last result of `podsRoughly`, and its inputs. */
  let rough: Rough | null = null;
  /** For several readers within one look; dropped before anything else runs. */
  let ofThisLook: Reading<Pods> | null = null;
  let ownUid: string | null = null;
  let hasSettled = false;
  let evictingSinceMs: MonoMs | null = null;
  let askedRuntimeMs: MonoMs = Number.NEGATIVE_INFINITY;
  /** What the runtime has not listed. `unnamed`: the pods without a name. */
  const untold = { pods: '', unnamed: new Set<string>(), againMs: ASK_RUNTIME_MS };
  let refreshedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let comparedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let identities = '';
  /** The pods at the last refresh. */
  let seen: Reading<Pods> = unknown('not-asked', 'the pods of this node', 'they have not been read yet');
  let isFar = false;
  let isClosed = false;
  let cancelTimer: () => void = () => undefined;

  function podsNow(): Reading<Pods> {
    if (ofThisLook !== null) return ofThisLook;
    const isAlive = (cgroup: CgroupRef): Reading<boolean> => isPopulated(mounts, cgroup);
    ofThisLook = ifKnown(cgroups.now('pods'), (found) => known(livePodsOf(found, isAlive)));
    queueMicrotask(() => {
      ofThisLook = null;
    });
    return ofThisLook;
  }

  /**
   * For readers that choose no pod: it does not read which pods are empty, which costs ten times as much as to list them.
   * `isLate`: what changes by itself, such as a limit, is as of the last change of cgroups, declarations or names.
   */
  function podsRoughly(of: 'pods' | 'containers', isLate: boolean): Reading<Pods> {
    return ifKnown(cgroups.now(of), (found) => {
      const from = { found, runtime: index(), api: valueOrNull(needs.apiPods()) };
      if (isLate && rough?.found === found && rough.runtime === from.runtime && rough.api === from.api) {
        askOf([...rough.pods.values()].filter(isUntold));
        return known(rough.pods);
      }
      const pods = livePodsOf(found, null);
      // An undeclared pod is queried each time.
      rough = [...pods.values()].every(({ pod }) => pod !== null) ? { ...from, pods } : null;
      return known(pods);
    });
  }

  function forget(): void {
    ofThisLook = null;
    rough = null;
  }

  /** Without a list, no pod is known to be gone. */
  function declaredPods(): ReadonlyMap<string, ApiPod> {
    const api = needs.apiPods();
    if (api.known) hasSettled = true;
    return api.known ? api.value : declaredBefore;
  }

  const factsBy = (populated: Populated | null): Parameters<typeof livePods>[3] => ({
    runtime: index(),
    ownLimitOf: needs.ownLimitOf,
    lookUp: needs.lookUp,
    isElsewhere: needs.isElsewhere,
    learnt: needs.learnt,
    isStopping: (uid) => stopping.has(uid),
    finished,
    populated: populated ?? (() => NOT_ASKED),
    isPopulatedAsked: populated !== null,
    heldBytes,
    ownBytes: (cgroup) => anonBytes(mounts, cgroup),
    memoryLimit,
    wallMs: clock.wallMs(),
    isKubeletEvicting: isKubeletEvicting(),
    isDrained: needs.isDrained(),
    ownUid,
    saved: needs.savedPods,
  });

  /** A stop asks for its pod many times, and the first signal waits for it: the others are not read. */
  function find(uid: string): Reading<LivePod | null> {
    const places = isPodUid(uid) ? cgroups.of(uid) : known([]);
    if (!places.known) return places;
    const pod = declaredPods().get(uid);
    const found: FoundPods = new Map(places.value.length > 0 ? [[uid, places.value]] : []);
    const facts = factsBy((cgroup) => isPopulated(mounts, cgroup));
    return known(livePods(pod === undefined ? [] : [pod], declaredBefore, found, facts).get(uid) ?? null);
  }

  function livePodsOf(found: FoundPods, populated: Populated | null): Pods {
    const live = livePods(declaredPods().values(), declaredBefore, found, factsBy(populated));
    declaredBefore = new Map(
      [...live].flatMap(([uid, { pod }]) => (pod !== null && found.has(uid) ? [[uid, pod] as const] : [])),
    );
    finished.keep(live);
    for (const uid of stops.keys()) if (!live.has(uid)) stops.delete(uid);
    for (const [uid, { inode }] of stopping) {
      const cgroup = live.get(uid)?.cgroup;
      if (inode !== null && !(cgroup?.known === true && cgroup.value.inode === inode)) stopping.delete(uid);
    }
    askOf([...live.values()].filter(isUntold));
    return live;
  }

  function heldBytes({ path }: CgroupRef): Reading<number> {
    const memory = openMemory(mounts, path);
    const stat = memory.stat();
    memory.close();
    return ifKnown(stat, ({ anonBytes, shmemBytes }) => sumOf([anonBytes, shmemBytes]));
  }

  function memoryLimit({ path }: CgroupRef): number | null {
    const memory = openMemory(mounts, path);
    const limit = memory.limit();
    memory.close();
    return limit.known ? limit.value : null;
  }

  function isKubeletEvicting(): boolean {
    if (!needs.isKubeletEvicting()) evictingSinceMs = null;
    else evictingSinceMs ??= clock.monoMs();
    return evictingSinceMs !== null && clock.monoMs() - evictingSinceMs < KUBELET_EVICTS_MS;
  }

  const isUnnamed = ({ pod, declared }: LivePod): boolean => pod === null && !index().podOf.has(declared.uid);

  /** The runtime may be able to name it, or one of its containers, or may know of one that has run. */
  const isUntold = (live: LivePod): boolean =>
    isUnnamed(live) || live.mayStartMore === true || live.containers.some(({ name }) => name === null);

  /** Queries the runtime at once if a pod is unnamed for the first time. */
  function askOf(live: readonly LivePod[]): void {
    const pods = live.map(({ declared }) => declared.uid).join(' ');
    const unnamed = new Set(live.filter(isUnnamed).map(({ declared }) => declared.uid));
    const leastMs = unnamed.size > 0 ? ASK_NAME_MS : ASK_RUNTIME_MS;
    if ([...unnamed].some((uid) => !untold.unnamed.has(uid))) untold.againMs = 0;
    else if (pods !== untold.pods) untold.againMs = leastMs;
    untold.pods = pods;
    untold.unnamed = unnamed;
    if (pods === '' || !askRuntime(untold.againMs)) return;
    untold.againMs = Math.min(Math.max(2 * untold.againMs, leastMs), ASK_RUNTIME_MOST_MS);
  }

  /** Returns false without a query if the last one is more recent than the pause. */
  function askRuntime(pauseMs = ASK_RUNTIME_MS): boolean {
    if (isClosed || clock.monoMs() - askedRuntimeMs < pauseMs) return false;
    askedRuntimeMs = clock.monoMs();
    void runtime.refresh().then((answer) => {
      if (untold.unnamed.size === 0 || isClosed) return;
      // Who does not answer has not left them out.
      if (!answer.known) untold.againMs = Math.min(untold.againMs, ASK_RUNTIME_MS);
      needs.wake();
    });
    return true;
  }

  const podsHere = (): Reading<Pods> => ofThisLook ?? podsRoughly('pods', true);

  const bound = (live: Reading<Pods>): Reading<readonly BoundPod[]> =>
    ifKnown(live, (pods) => known([...pods.values()].map(boundPod)));

  function boundPod(live: LivePod): BoundPod {
    const { declared, cgroup, containers, comesBack } = live;
    return {
      declared,
      cgroup,
      // Only those that run, as in the kubelet's statistics.
      containers: containers.map(({ id, name, cgroup: own }) => ({ name: name ?? shortId(id), cgroup: known(own) })),
      stops: stops.get(declared.uid) ?? 0,
      ...(comesBack ? { comesBack } : {}),
      disk: (soFar) => needs.disk(live, soFar),
    };
  }

  /** Runs beside the loop: it updates findings and wakes the loop if another look is worthwhile. */
  function refresh(): void {
    refreshedMs = clock.monoMs();
    const path = cgroupPathOf(mounts, process.pid);
    ownUid = path.known ? (podOfPath(cgroupRoot, path.value)?.uid ?? null) : null;
    const isDeep = !isFar || refreshedMs - comparedMs >= COMPARE_MS;
    if (isDeep) comparedMs = refreshedMs;
    const pods = podsRoughly(isDeep ? 'containers' : 'pods', isFar);
    const isSame = pods.known && seen.known && pods.value === seen.value;
    seen = pods;
    const live = isDeep && pods.known ? [...pods.value.values()] : null;
    if (live !== null) tellDead(live);
    const held = live && heldByDead(mounts, live);
    if (told.tell({ pods, api: needs.apiPods(), runtime: index(), cgroups, held })) askRuntime();
    if (isSame) return;
    const now = pods.known ? JSON.stringify([...pods.value.values()].map(identityOf)) : '';
    if (now !== identities) needs.wake();
    identities = now;
  }

  function tick(): void {
    if (isClosed) return;
    refresh();
    const nameMs = untold.unnamed.size > 0 ? untold.againMs : Number.POSITIVE_INFINITY;
    tickAfter(Math.min(isFar ? FAR_REFRESH_MS : REFRESH_MS, nameMs));
  }

  function tickAfter(ms: number): void {
    cancelTimer();
    cancelTimer = clock.after(ms, tick);
  }

  tick();

  return {
    pods: () => bound(podsNow()),
    podsLately: () => bound(seen),
    unsettled: (forWhat) => {
      const patienceMs = forWhat === 'all' ? SETTLE_SHUTDOWN_MS : SETTLE_MS;
      const api = hasSettled || clock.monoMs() - startMs >= patienceMs ? null : needs.apiPods();
      return api === null || api.known ? null : unknown('stale', 'the pods of this node', api.detail);
    },
    follow: (afterMs) => {
      const wasFar = isFar;
      isFar = afterMs > REFRESH_MS;
      if (wasFar && !isFar) tickAfter(Math.max(0, REFRESH_MS - (clock.monoMs() - refreshedMs)));
    },
    find,
    // The agent holds the lock even if the API server does not answer.
    isSettled: () => hasSettled || clock.monoMs() - startMs >= SETTLE_MS,
    running: () => {
      const pods = podsHere();
      if (!pods.known) return [];
      const isRunning = ({ cgroup }: LivePod): boolean => cgroup.known && hasProcesses(mounts, cgroup.value);
      return [...pods.value.values()].filter(isRunning).map(({ declared }) => declared);
    },
    allRunning: () =>
      ifKnown(podsHere(), (pods) => {
        const running: PodUid[] = [];
        for (const { cgroup, declared } of pods.values()) {
          const populated = ifKnown(cgroup, (ref) => isPopulated(mounts, ref));
          if (!populated.known && populated.why !== 'absent') return populated;
          if (populated.known && populated.value) running.push(declared.uid);
        }
        return known(running);
      }),
    kubepods: cgroups.kubepods,
    stopBegan: (uid) => {
      stopping.set(uid, { inode: null });
      forget();
    },
    stopEnded: (uid, how) => {
      const pods = podsNow();
      const cgroup = pods.known ? pods.value.get(uid)?.cgroup : undefined;
      if (how === 'survived' && cgroup?.known === true) stopping.set(uid, { inode: cgroup.value.inode });
      else stopping.delete(uid);
      stops.set(uid, (stops.get(uid) ?? 0) + 1);
      forget();
    },
    close: async () => {
      isClosed = true;
      cancelTimer();
    },
  };
}

/** The parts of a pod whose change makes a look worthwhile. */
function identityOf({ declared, cgroup, containers }: LivePod): readonly unknown[] {
  const { isTerminating, limitedBy } = declared;
  return [
    podName(declared),
    isTerminating,
    limitedBy,
    cgroup.known && cgroup.value.inode,
    containers.map(({ id }) => id),
  ];
}
