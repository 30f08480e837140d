import type { DecisionId } from '../../core/decision.ts';
import type { Unconfirmed } from '../../core/observation.ts';
import { type PodUid, podName } from '../../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import { isObject, isText, parseJson } from '../../core/shape.ts';
import { within } from '../../host/clock.ts';
import { listDirectory, readText } from '../../host/files.ts';
import type { UndoneStops } from '../../mode.ts';
import type { Clock, Findings, Log } from '../../ports.ts';
import {
  API_AWAY,
  cordonLeft,
  cordonStays,
  notCordoned,
  sayCordon,
  sayDeleted,
  sayUndone,
} from '../../words/node-condition.ts';
import { type ApiPod, isTerminal } from '../api/api-pod.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import { NOTHING_OF_OURS } from '../api/own-node.ts';
import { createRepeatedWrite } from '../api/repeated-write.ts';
import { type NotDone, reportWrite } from '../api/write-failure.ts';
import { EARLIER_MAX, loadTold, saveTold, type ToldShutdown } from './shutdown-file.ts';

type ShutdownNeeds = {
  readonly clock: Clock;
  readonly log: Log;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  readonly runtimeDirectory: string;
  readonly bootId: string;
  readonly kubeletDirectory: string;
  readonly writes: Pick<ApiWrites, 'verify' | 'cordon' | 'uncordon'>;
  readonly isAway: () => boolean;
  readonly pods: () => Reading<ReadonlyMap<PodUid, ApiPod>>;
  /** Asks for the pods again if they may be out of date. */
  readonly refreshPods: () => void;
  /** Pods with processes, by the kubelet's uid. */
  readonly running: () => Reading<readonly PodUid[]>;
  /** Whether pods may be deleted may have changed. */
  readonly wake: () => void;
  /** The condition and the event for the shutdown (E6). Nothing waits for them. */
  readonly tell: (decision: DecisionId, totalMs: number) => void;
};
/** What a shutdown writes to the API, sees confirmed there, and undoes if it is cancelled. */
export type KubeShutdown = {
  /** E4: cordon and taint. Resolves with a sentence about the result. */
  readonly announce: (shutdown: {
    readonly decision: DecisionId;
    readonly totalMs: number;
    readonly byKubelet: boolean;
  }) => Promise<string>;
  /** Its deletion is about to be sent. Call the result with what became of it; null: not known. */
  readonly deleting: (pod: ApiPod) => (isDeleted: boolean | null) => void;
  /** E4: false until the cordon was tried of a shutdown that began while the API was away. */
  readonly mayDelete: () => boolean;
  /** E16, E17, E10. */
  readonly unconfirmed: () => Reading<Unconfirmed>;
  /** E18. Resolves once it is done, or has been tried for long enough; it is tried on. */
  readonly undo: () => Promise<UndoneStops>;
  readonly hasTold: () => boolean;
  /** The shutdown that an earlier run has begun is known to go on: its late cordon waits for that. */
  readonly goOn: () => void;
  /** The system went down and came back: nothing to report, but the node accepts pods again. */
  readonly forget: () => void;
  /** The API is back. */
  readonly retry: () => void;
  readonly rewrite: () => void;
  /** `isLast`: no run follows that would take back what is left of a cancelled shutdown. */
  readonly close: (isLast: boolean) => Promise<void>;
};

/** The maximum age of the node's `volumesInUse`. */
const VOLUMES_MS = 500;
/** At most so often are the pods listed if no watch shows their end. */
const PODS_MS = 1_000;
/** How long a cancel tries before it says that the cordon is left. An agent that is to end meanwhile waits for that. */
const UNDO_MS = 30_000;
/** For the last try of an agent that ends. */
const LAST_MS = 5_000;
const NOT_ASKED = unknown('not-asked', 'the volumes of the node', 'they are being asked for');

export function createKubeShutdown(needs: ShutdownNeeds): KubeShutdown {
  const { clock, log, writes, runtimeDirectory, bootId } = needs;
  const loaded = loadTold(runtimeDirectory, bootId);
  let told: ToldShutdown | null = loaded.told;
  /** For E10: the pods as they were before; null: we stop them. */
  let ofKubelet: ReadonlyMap<PodUid, ApiPod> | null = null;
  let announcing: Promise<unknown> = Promise.resolve();
  let undoing: Promise<unknown> = Promise.resolve();
  /** Deleted by earlier shutdowns. */
  let leaving: ToldShutdown['deleted'] = loaded.leaving;
  let isCordoning = false;
  /** Cancelled, or the system came back; until the next shutdown. */
  let isOver = false;
  /** An earlier run began it, and it may have been cancelled since. */
  let isDoubtful = told !== null;
  let isSaving = false;
  let volumes: Reading<readonly string[]> = NOT_ASKED;
  let volumesAskedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let podsAskedMs: MonoMs = Number.NEGATIVE_INFINITY;
  const heard: ((failed: NotDone | null) => void)[] = [];
  let notUndone: NotDone | null = null;
  const lane = createRepeatedWrite(clock, uncordon);

  function save(): void {
    isSaving = false;
    const failed = saveTold(runtimeDirectory, bootId, { told, leaving });
    if (failed !== null)
      log.warn({ event: 'cordon' }, `what the shutdown has written to the API could not be saved: ${failed}`);
  }

  function setDeleted(podUid: string, pod: ToldShutdown['deleted'][number] | null): void {
    if (told === null) return;
    const others = told.deleted.filter(({ uid }) => uid !== podUid);
    told = { ...told, deleted: pod === null ? others : [...others, pod] };
    saveSoon();
  }

  /** All pods of a phase arrive in one turn of the event loop. */
  function saveSoon(): void {
    if (!isSaving) queueMicrotask(save);
    isSaving = true;
  }

  async function cordon(shutdownId: string): Promise<string> {
    const said = await writes.cordon({ bootId, shutdownId });
    reportWrite(needs.findings, 'patch nodes', said.kind === 'done' ? null : said);
    return said.kind === 'done' ? sayCordon(said.cordon) : notCordoned(said.text);
  }

  /** Null if nothing of ours is left on the node, or the next shutdown has begun. */
  async function uncordon(): Promise<NotDone | null> {
    await announcing;
    if (told === null || !isOver) return null;
    const marks = idsOf(told).map((shutdownId) => ({ bootId, shutdownId }));
    const writing = marks.length === 0 ? NOTHING_OF_OURS : writes.uncordon(marks);
    undoing = Promise.resolve(writing);
    const said = await writing;
    // An autoscaler drains the node and removes it (F16).
    const isUndone = said.kind === 'done' || said.kind === 'nothing-of-ours' || said.kind === 'autoscaler';
    const failed = isUndone ? null : said;
    reportWrite(needs.findings, said.kind === 'done' ? 'patch nodes' : null, failed);
    if (!isOver) return null;
    if (failed === null) {
      leaving = [...leaving, ...told.deleted];
      told = null;
      save();
      const isUncordoned = said.kind === 'done' && said.uncordoned;
      log.info({ event: 'cordon' }, sayUndone(isUncordoned));
      tellUndone(null);
    }
    notUndone = failed;
    return failed;
  }

  function tellUndone(failed: NotDone | null): void {
    for (const tell of heard.splice(0)) tell(failed);
  }

  /** The API was away when the shutdown began, of which an earlier run may have heard. */
  async function cordonLate(): Promise<void> {
    if (told?.toCordonMs === undefined || isDoubtful || isOver || needs.isAway()) return;
    const { isUncordoned, toCordonMs, ...cordoned } = told;
    told = cordoned;
    save();
    isCordoning = true;
    needs.tell(told.shutdownId, toCordonMs);
    const cordoning = undoing.then(() => cordon(cordoned.shutdownId));
    announcing = cordoning;
    log.info({ event: 'cordon' }, await cordoning);
    isCordoning = false;
    needs.wake();
  }

  function end(): Promise<NotDone | null> {
    isOver = true;
    if (told?.toCordonMs !== undefined) {
      const { toCordonMs: _, ...rest } = told;
      told = rest;
      save();
    }
    ofKubelet = null;
    volumes = NOT_ASKED;
    const undone = new Promise<NotDone | null>((resolve) => heard.push(resolve));
    lane.poke();
    return within(clock, UNDO_MS, undone, () => notUndone ?? late(UNDO_MS));
  }

  /** A kubelet reports a pod as failed and without containers before it asks these to stop. */
  function leftByKubelet(
    before: ReadonlyMap<PodUid, ApiPod>,
    now: ReadonlyMap<PodUid, ApiPod>,
    running: readonly PodUid[],
  ): readonly string[] {
    const isShown = ([uid, { object }]: readonly [PodUid, ApiPod]): boolean => {
      const pod = now.get(uid);
      return pod?.object.uid === object.uid && !isTerminal(pod);
    };
    const shown = [...before].filter(isShown).map(([uid]) => uid);
    return [...new Set([...shown, ...running])].map((uid) => {
      const pod = now.get(uid) ?? before.get(uid);
      return pod === undefined ? uid : sayPod(pod);
    });
  }

  /** `status.volumesInUse`, beside the loop. */
  function askVolumes(): void {
    if (clock.monoMs() - volumesAskedMs < VOLUMES_MS) return;
    volumesAskedMs = clock.monoMs();
    void writes.verify().then((node) => {
      if (node.kind === 'node') volumes = known(node.volumesInUse);
      else volumes = unknown('unreadable', 'the volumes of the node', node.text);
    });
  }

  /** The watch may have been lost with the answers to the deletions, and its back-off is longer than this wait. */
  function askPods(): void {
    if (clock.monoMs() - podsAskedMs < PODS_MS) return;
    podsAskedMs = clock.monoMs();
    needs.refreshPods();
  }

  return {
    announce: async ({ decision, totalMs, byKubelet }) => {
      isOver = isDoubtful = false;
      // Its own cordon takes the place of the one that is left.
      tellUndone(null);
      const pods = needs.pods();
      const active = pods.known ? [...pods.value].filter(([, pod]) => !isTerminal(pod)) : [];
      ofKubelet = byKubelet ? new Map(active) : null;
      // The mark of a cordon that could not be removed yet stays on the node.
      const earlierIds = told === null ? [] : idsOf(told).slice(0, EARLIER_MAX);
      const isAway = needs.isAway();
      const isThere = ({ uid }: { readonly uid: string }): boolean =>
        !pods.known || [...pods.value.values()].some(({ object }) => object.uid === uid);
      leaving = [...leaving, ...(told?.deleted ?? [])].filter(isThere);
      told = {
        ...{ shutdownId: decision, earlierIds, deleted: [] },
        ...(isAway ? { isUncordoned: true, toCordonMs: totalMs } : {}),
      };
      save();
      if (isAway) return API_AWAY;
      needs.tell(decision, totalMs);
      const cordoned = undoing.then(() => cordon(decision));
      announcing = cordoned;
      return cordoned;
    },
    deleting: ({ object, owner }) => {
      const known = told?.deleted.find(({ uid }) => uid === object.uid);
      if (known === undefined) setDeleted(object.uid, { ...object, owner: owner?.kind ?? null });
      return (isDeleted) => {
        if (isDeleted === false && leaving.some(({ uid }) => uid === object.uid)) {
          leaving = leaving.filter(({ uid }) => uid !== object.uid);
          saveSoon();
        }
        const one = told?.deleted.find(({ uid }) => uid === object.uid);
        if (one === undefined || isDeleted === null) return;
        setDeleted(object.uid, isDeleted ? { ...one, isAccepted: true } : null);
      };
    },
    mayDelete: () => isOver || !(isCordoning || told?.toCordonMs !== undefined),
    unconfirmed: () => {
      const waited = new Set([...leaving, ...(told?.deleted ?? [])].map(({ uid }) => uid));
      if (ofKubelet === null && waited.size === 0) return known({ pods: [], volumes: [], isNothingDeleted: true });
      if (needs.isAway()) return unknown('unreadable', 'the API server', 'it is away');
      askPods();
      const pods = needs.pods();
      if (!pods.known) return pods;
      askVolumes();
      if (!volumes.known) return volumes;
      const running = needs.running();
      if (ofKubelet !== null) {
        if (!running.known) return running;
        return known({ pods: leftByKubelet(ofKubelet, pods.value, running.value), volumes: volumes.value });
      }
      const left = [...pods.value.values()].filter(({ object }) => waited.has(object.uid));
      const staying = (running.known ? running.value : []).filter(
        (uid) => !waited.has(pods.value.get(uid)?.object.uid ?? uid),
      );
      return known({
        pods: left.map(sayPod),
        volumes: withoutVolumesOf(staying, volumes.value, needs.kubeletDirectory),
      });
    },
    undo: async () => {
      if (told === null) return { started: [], notUndone: [] };
      const { deleted } = told;
      const failed = await end();
      return {
        started: [],
        notUndone: [...deleted.map(sayDeleted), ...(failed === null ? [] : [cordonLeft(failed.text)])],
      };
    },
    hasTold: () => told !== null,
    goOn: () => {
      isDoubtful = false;
    },
    forget: () => {
      if (told !== null) void end();
    },
    retry: () => {
      void cordonLate();
      lane.retry();
    },
    rewrite: save,
    close: async (isLast) => {
      await lane.close();
      const isLeft = isOver && told !== null;
      const failed = isLast && isLeft ? await within(clock, LAST_MS, uncordon(), () => late(LAST_MS)) : null;
      if (failed !== null) log.warn({ event: 'cordon' }, cordonStays(failed.text));
      tellUndone(notUndone ?? late(UNDO_MS));
    },
  };
}

/** The shutdowns whose marks may be on the node. */
const idsOf = ({ shutdownId, earlierIds = [], isUncordoned }: ToldShutdown): readonly string[] =>
  isUncordoned === true ? earlierIds : [shutdownId, ...earlierIds];
const late = (ms: number): NotDone => ({
  kind: 'unheard',
  isTimeout: true,
  text: `it was not done within ${ms / 1_000} s`,
});
const sayPod = ({ object }: ApiPod): string => `${podName(object)} (${object.uid})`;

/** The name of a CSI volume in the node's `volumesInUse`. */
const csiName = (driver: string, handle: string): string => `kubernetes.io/csi/${driver}^${handle}`;
const CSI = 'kubernetes.io~csi';
/** Never attached, so never in `volumesInUse`. */
const LOCAL = ['empty-dir', 'configmap', 'secret', 'projected', 'downward-api', 'host-path', 'local-volume', 'nfs'].map(
  (plugin) => `kubernetes.io~${plugin}`,
);
/** The kubelet's own file: a few hundred bytes. */
const DATA_BYTES_MAX = 64 * 1024;
const ENTRIES_MAX = 1_000;

/**
 * The volumes in `inUse` that the kubelet has not mounted for these pods. A volume of theirs whose directory does not give its
 * name could be any of `inUse`, so one entry is left out for each.
 */
function withoutVolumesOf(
  pods: readonly PodUid[],
  inUse: readonly string[],
  kubeletDirectory: string,
): readonly string[] {
  if (inUse.length === 0) return [];
  const named = new Set<string>();
  let unnamed = 0;
  for (const uid of pods) {
    const volumes = `${kubeletDirectory}/pods/${uid}/volumes`;
    for (const plugin of namesIn(volumes)) {
      if (LOCAL.includes(plugin)) continue;
      for (const volume of namesIn(`${volumes}/${plugin}`)) {
        const name = plugin === CSI ? csiVolume(`${volumes}/${plugin}/${volume}/vol_data.json`) : null;
        if (name === null) unnamed += 1;
        else named.add(name);
      }
    }
  }
  return inUse.filter((name) => !named.has(name)).slice(unnamed);
}

function csiVolume(path: string): string | null {
  const text = readText(path, DATA_BYTES_MAX);
  const data = text.known ? parseJson(text.value) : null;
  if (!isObject(data)) return null;
  const { driverName, volumeHandle } = data;
  return isText(driverName) && isText(volumeHandle) ? csiName(driverName, volumeHandle) : null;
}

function namesIn(directory: string): readonly string[] {
  const names = listDirectory(directory, ENTRIES_MAX);
  return names.known ? names.value : [];
}
