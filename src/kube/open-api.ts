import { HARD_GRACE_SECONDS } from '../core/pod/grace.ts';
import type { PodUid } from '../core/pod/pod.ts';
import { ifKnown, known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { readBootId } from '../host/clock.ts';
import { hostName } from '../host/host-name.ts';
import type { KubeSettings, ModeNeeds } from '../mode.ts';
import { apiAway, credentialsRefused } from '../words/finding-api.ts';
import { EVICTIONS_UNKNOWN, evictionsUnknown, NOT_OUR_NODE, notOurNode } from '../words/finding-writes.ts';
import { type ApiPod, isTerminal, type PodRef } from './api/api-pod.ts';
import { type ApiWrites, createApiWrites } from './api/api-writes.ts';
import { discoverEviction, type EvictionVersion } from './api/eviction.ts';
import { openConnection } from './api/open-connection.ts';
import { lookAtNode } from './api/own-node.ts';
import { victimOf } from './api/write-rules.ts';
import { createKubeletEvictions } from './pods/candidate-limits.ts';
import { keepCheckpoint, loadCheckpoint } from './pods/checkpoint.ts';
import { createPodLookup, watchPods } from './pods/pod-watch.ts';
import { openSpool, type Spool } from './spool/spool.ts';
import { tellRefusedDeletions } from './stop/refused-deletions.ts';
import { createStaleMarks } from './stop/stale-marks.ts';
import { createStopThroughApi, LOW_ON_RESOURCES } from './stop/stop-through-api.ts';

/** Everything that this node reads from the API server and writes to it. */
export type KubeApi = {
  /**
   * Unknown until the node of our name is proven to be this machine (D3), and until its pods are listed. A checkpoint of this
   * boot replaces both until the server answers (D15).
   */
  readonly pods: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** As an earlier run in this boot had them last; empty: it had none, or not of this node. */
  readonly savedPods: ReadonlyMap<PodUid, ApiPod>;
  /** Whether the pods are known to match the server's. */
  readonly isCurrent: () => boolean;
  /** For whoever waits for pods to go: lists them soon if they are not known to match. */
  readonly refresh: () => void;
  /** C9: the answer is treated like an event of the watch. True while it is awaited. */
  readonly lookUp: (pod: PodRef) => boolean;
  readonly isElsewhere: (uid: PodUid) => boolean;
  /** What the server has answered about this pod, as long as it has not listed them; null: nothing. */
  readonly learnt: (uid: PodUid) => ApiPod | null;
  readonly tell: ReturnType<typeof createStopThroughApi>;
  readonly writes: ApiWrites;
  readonly nodeName: string;
  readonly bootId: string;
  readonly isUp: () => boolean;
  readonly isAway: () => boolean;
  /** Calls `run` whenever the API server answers again. */
  readonly whenUp: (run: () => void) => void;
  readonly spool: Pick<Spool, 'put' | 'said'>;
  /** F6 (i). */
  readonly isKubeletEvicting: () => boolean;
  readonly close: () => Promise<void>;
};

/** A query that is needed once per connection is repeated until it is answered. */
const ASK_AGAIN_MS = 5_000;
const ASK_MS = 5_000;
/** D3: how often to verify that the node is this machine. */
const VERIFY_MS = 30_000;
const RECOVERED_MS = 60_000;
/** Right after a list, no watch is open yet. */
const FRESH_MS = 5_000;

export function openKubeApi(
  needs: Pick<ModeNeeds, 'clock' | 'runtimeDirectory' | 'findings' | 'log' | 'note' | 'wake' | 'dry'> & {
    /** Whether the pod with this kubelet's uid runs, or holds anything. */
    readonly isRunning: (uid: PodUid) => boolean;
  },
  settings: KubeSettings,
): KubeApi {
  const { clock, findings, log, dry } = needs;
  const nodeName = settings.nodeName ?? hostName().toLowerCase();
  const boot = readBootId();
  // Without it, no node can be proven to be this machine.
  const bootId = boot.known ? boot.value : '';
  const connection = openConnection({
    ...{ clock, findings, kubeconfig: settings.kubeconfig },
    words: { away: (why) => apiAway(why, hasPods()), refused: credentialsRefused },
    // Of another cluster: it would take the pods here for gone.
    whyNotServer: async (get) => {
      const seen = await lookAtNode(get, { nodeName, bootId }, ASK_MS);
      if (seen.kind === 'not-our-node') return seen.text;
      writes.doubt();
      return null;
    },
  });
  let version: EvictionVersion | null = null;
  let isVersionDue = true;
  let failedDiscoveries = 0;
  let isOurs: boolean | null = null;
  let whyNot = 'the API server has not confirmed yet that this machine is its node';
  let isClosed = false;
  let cancel = (): void => undefined;

  const { get, send, state } = connection;
  const sent = createApiWrites({
    ...{ get, send, clock, nodeName, bootId, evictionVersion: () => version },
    taintKeys: settings.taintKeys ?? 'own',
  });
  const { writes, see: seeRefused } = tellRefusedDeletions(sent, clock, findings);
  const isUp = (): boolean => state() === 'up';
  const isAway = (): boolean => state() === 'away';
  const spool = openSpool({
    ...{ clock, bootId, writes, isUp, hasRecovered, isOver, findings, log, note: needs.note },
    // The entries in the file belong to the agent that acts.
    directory: `${settings.stateDirectory}/${dry ? 'spool-dry' : 'spool'}`,
    unsavedPath: `${needs.runtimeDirectory}/kube-spool${dry ? '-dry' : ''}.jsonl`,
  });
  const staleMarks = createStaleMarks({
    ...{ clock, writes, findings },
    pods: () => {
      const pods = watch.pods();
      return pods.known ? pods.value.values() : [];
    },
    isCurrent: () => isOurs === true && watch.isCurrent(),
  });
  const evictions = createKubeletEvictions(clock);
  const { stateDirectory } = settings;
  const { checkpoint, finding } = loadCheckpoint(stateDirectory, { bootId, nodeName }, clock);
  if (finding !== null) findings.raise(finding);
  const saved = checkpoint?.isProven === true ? checkpoint : null;
  const watch = watchPods({
    ...{ connection, clock, nodeName, findings },
    kept: saved,
    protectNamespaces: settings.protectNamespaces,
    onChange: (isListed) => {
      const pods = watch.pods();
      if (pods.known) {
        evictions.see(pods.value.values(), isListed);
        seeRefused(pods.value.values());
        if (!dry) staleMarks.see();
      }
      // C7: what could not be sent is sent after a list, which shows which pods still exist.
      // A list that is slow is still to come when the last known pods stand in for it.
      if (isListed && watch.hasListed() && !dry) spool.flush(isThere);
      kept.changed();
      needs.wake();
    },
  });
  const kept = keepCheckpoint({
    ...{ stateDirectory, bootId, nodeName, clock, findings },
    watch: { pods: ourPods, atMs: watch.atMs },
  });
  function ourPods(): Reading<ReadonlyMap<PodUid, ApiPod>> {
    if (isOurs === true) return watch.pods();
    const kept = watch.stoodIn();
    return isOurs === null && kept.known ? kept : unknown('not-asked', `the node ${nodeName}`, whyNot);
  }
  /** Pods that an earlier run saved may not stand in yet. */
  function hasPods(): boolean {
    return ourPods().known || (isOurs === null && saved !== null);
  }
  /** Null: it does not exist. Unknown: the pods are not listed. */
  function podOf(objectUid: PodUid): Reading<ApiPod | null> {
    return ifKnown(watch.pods(), (pods) =>
      known([...pods.values()].find(({ object }) => object.uid === objectUid) ?? null),
    );
  }
  /** On this node, and to be deleted yet. A pod may run here that is in no list of ours. */
  function isThere(uid: PodUid): boolean | null {
    const pod = podOf(uid);
    if (!pod.known || pod.value === null || pod.value.isElsewhere === true) return null;
    return pod.value.deletionWallMs === null;
  }
  function isOver(uid: PodUid): boolean {
    const pod = podOf(uid);
    return pod.known && pod.value !== null && isTerminal(pod.value);
  }
  /** C5. Whether the signal is clear is not checked: while it is not, the pod can be chosen again. */
  function hasRecovered(uid: PodUid, sinceMs: MonoMs): boolean | null {
    const pod = podOf(uid);
    if (clock.monoMs() - sinceMs < RECOVERED_MS) return false;
    if (clock.monoMs() - (watch.atMs() ?? 0) > FRESH_MS) return null;
    if (!pod.known || pod.value?.readySinceWallMs === undefined) return false;
    const { readySinceWallMs } = pod.value;
    if (clock.wallMs() - readySinceWallMs < RECOVERED_MS || !needs.isRunning(pod.value.declared.uid)) return false;
    // Ready since before the kill: the kubelet has not told the server yet what became of the pod.
    return readySinceWallMs > clock.wallMs() - (clock.monoMs() - sinceMs) ? true : null;
  }

  /** Whether the node is this machine, and which eviction API the server accepts. */
  async function ask(): Promise<void> {
    const wasOurs = isOurs;
    const seen = await writes.verify();
    if (seen.kind === 'node') {
      isOurs = true;
      findings.clear(NOT_OUR_NODE);
      if (wasOurs !== true) kept.changed();
    } else {
      whyNot = seen.text;
      if (seen.kind === 'not-our-node') {
        isOurs = false;
        findings.raise(notOurNode(seen.text));
        kept.forget();
      }
    }
    if (isVersionDue) await discover();
    if (isClosed) return;
    if (isOurs !== wasOurs) needs.wake();
    const isDone = isOurs === true && !isVersionDue;
    cancel();
    cancel = clock.after(isDone ? VERIFY_MS : ASK_AGAIN_MS, () => void ask());
  }
  async function discover(): Promise<void> {
    const found = await discoverEviction(get, ASK_MS);
    if (found.known) {
      version = found.value;
      isVersionDue = false;
      failedDiscoveries = 0;
      findings.clear(EVICTIONS_UNKNOWN);
      return;
    }
    failedDiscoveries = isUp() ? failedDiscoveries + 1 : 0;
    // That the server is away is another finding.
    if (version === null && failedDiscoveries > 1) findings.raise(evictionsUnknown(found.detail));
  }
  void ask();
  connection.onState((now) => {
    if (now === 'away') {
      // It may return as another version, but until it has said so, this one is the better guess: a wrong one is refused.
      isVersionDue = true;
      // Without the server, pods are evicted.
      failedDiscoveries = 0;
      findings.clear(EVICTIONS_UNKNOWN);
      log.warn({ event: 'api-away' }, 'the API server is away: evictions continue without it');
    }
    if (now !== 'up') return;
    log.info({ event: 'api-away' }, 'the API server answers');
    cancel();
    void ask();
  });

  const tell = createStopThroughApi({
    clock,
    writes,
    isAway,
    isOver,
    findings,
    isBudgetRequired: settings.isBudgetRequired,
    heard: (pod) => spool.heard(pod.object.uid),
    later: async (pod, decision, madeAtMs, endKnown) => {
      const victim = victimOf(pod);
      if (victim === null) return;
      const said = {
        kind: 'delete',
        why: 'EvictionByNodewarden',
        message: LOW_ON_RESOURCES,
        ...writes.ofNode(),
      } as const;
      spool.put({ ...said, graceSeconds: HARD_GRACE_SECONDS, decision, victim, madeAtMs, bootId }, endKnown);
      await spool.saved();
    },
  });
  return {
    pods: ourPods,
    savedPods: saved?.pods ?? new Map(),
    isCurrent: () => isOurs === true && watch.isCurrent(),
    refresh: watch.refresh,
    isElsewhere: watch.isElsewhere,
    learnt: (uid) => (isOurs === true ? watch.learnt(uid) : null),
    lookUp: createPodLookup({
      ...{ clock, get, asking: watch.asking, answered: needs.wake },
      isUp: () => isUp() && isOurs === true,
      isListDue: () => isOurs !== false && watch.isListDue(),
    }),
    tell,
    writes,
    nodeName,
    bootId,
    isUp,
    isAway,
    whenUp: (run) => connection.onState((now) => (now === 'up' ? run() : undefined)),
    spool,
    isKubeletEvicting: evictions.isRecent,
    close: async () => {
      isClosed = true;
      cancel();
      await kept.close();
      staleMarks.close();
      watch.close();
      await spool.close();
      connection.close();
    },
  };
}
