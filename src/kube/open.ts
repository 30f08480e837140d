import { createSurvivorMemory, createSurvivors, type SurvivorMemory } from '../act/survivors.ts';
import type { CandidateLimit, PodUid } from '../core/pod/pod.ts';
import { ifKnown, known } from '../core/reading.ts';
import { shmemIn } from '../host/cgroup/cgroup-memory.ts';
import { directoryOf } from '../host/cgroup/cgroup-walk.ts';
import { createDiskWalker } from '../host/disk/disk-walk.ts';
import { createDyingHelp } from '../host/process/dying-help.ts';
import type { KubeSettings, Mode, ModeNeeds, OpenMode } from '../mode.ts';
import { sayArmed, sayBootEnd, sayGoingDown } from '../words/node-condition.ts';
import { readConfigz } from './api/configz.ts';
import { openRuntime } from './cri/open-runtime.ts';
import { openRuntimeReclaim, type SeenImages } from './cri/reclaim.ts';
import { createKubeMarks, isAliveHere, ownAgentId } from './node-marks.ts';
import { type KubeApi, openKubeApi } from './open-api.ts';
import { createRefusals, createRestartGuard } from './pods/candidate-limits.ts';
import { createKubePodDisk } from './pods/pod-disk.ts';
import { createKubeSource } from './pods/source.ts';
import { createKubeShutdown } from './shutdown/shutdown.ts';
import { createUndoCordon } from './shutdown/undo-cordon.ts';
import { createEvents } from './spool/events.ts';
import { createKubeKiller, leftOf } from './stop/stop.ts';

/** Mode kubelet, for one run of the agent. */
export function createKube(): OpenMode {
  const images: SeenImages = { sightings: new Map() };
  const survived = createSurvivorMemory();
  return (needs) => {
    if (needs.kube === null) throw new Error('mode kubelet needs kubernetes.kubeconfig');
    return openKube(needs, needs.kube, images, survived);
  };
}

type KubeNeeds = Pick<
  ModeNeeds,
  'clock' | 'mounts' | 'cgroupRoot' | 'runtimeDirectory' | 'findings' | 'log' | 'note' | 'wake' | 'dry' | 'conditions'
>;

/** The maximum age of a writable layer's figures. */
const LAYERS_MS = 10_000;

/** Pods come from the API server, their cgroups and containers from the machine (beside-a-kubelet.md). */
export function openKube(
  needs: KubeNeeds,
  settings: KubeSettings,
  images: SeenImages,
  survived?: SurvivorMemory,
): Mode {
  const { clock, mounts, findings, log, wake, dry } = needs;
  let goingDown = new AbortController();
  /** Its sandbox lives on for as long as the kubelet does not stop it. */
  const isRunning = (uid: PodUid): boolean => {
    const pod = source.find(uid);
    return pod.known && pod.value?.frees === true && source.running().some((declared) => declared.uid === uid);
  };
  let isListed = false;
  // From now on, it is known whose runtime it is; image ages and facts wait for that (D11).
  const listed = (): void => {
    if (!isListed && api.pods().known) {
      isListed = true;
      void runtime.connectProven();
    }
    needs.wake();
  };
  const api = openKubeApi({ ...needs, isRunning, wake: listed }, settings);
  const isKnownPod = (uid: PodUid): boolean => {
    const pods = api.pods();
    return pods.known && pods.value.has(uid);
  };
  const runtime = openRuntime({ clock, findings, endpoint: settings.runtimeEndpoint, knownPods: api.pods });
  const refusals = createRefusals(clock, findings);
  const guard = createRestartGuard(clock);
  const walker = createDiskWalker(clock);
  const ownLimitOf = (uid: PodUid): CandidateLimit | null =>
    guard.isBarred(uid) ? 'restart-guard' : refusals.limitOf(uid);
  const shutdown = createKubeShutdown({
    ...{ clock, log, findings, runtimeDirectory: needs.runtimeDirectory },
    ...{ bootId: api.bootId, writes: api.writes, isAway: api.isAway, pods: api.pods, refreshPods: api.refresh },
    ...{ kubeletDirectory: settings.kubeletDirectory },
    running: () => source.allRunning(),
    wake,
    tell: (decision, totalMs) => {
      shown.marks.event('NodeShutdown', sayGoingDown(totalMs), { decision, pod: null, annotations: {} });
    },
  });
  const source = createKubeSource({
    ...{ clock, mounts, findings, cgroupRoot: needs.cgroupRoot, runtime, ownLimitOf, wake },
    configuredDriver: settings.cgroupDriver,
    apiPods: api.pods,
    savedPods: api.savedPods,
    lookUp: api.lookUp,
    isElsewhere: api.isElsewhere,
    learnt: api.learnt,
    isKubeletEvicting: api.isKubeletEvicting,
    isDrained: () => settings.isDrained && !api.isAway() && shutdown.mayDelete(),
    disk: createKubePodDisk({
      walker,
      kubeletRoot: settings.kubeletDirectory,
      podLogsDir: settings.podLogsDir,
      layers: () => runtime.writableLayers(LAYERS_MS),
    }),
  });
  // Started in advance: when needed, there may be neither memory nor a free process ID.
  const help = dry ? undefined : createDyingHelp(mounts);
  const reclaim = openRuntimeReclaim({
    ...{ clock, log, findings, runtime, seen: images },
    minImageAgeMs: () => settings.imageMinimumGCAgeMs,
    isGone: (uid) => api.isCurrent() && api.pods().known && !isKnownPod(uid),
  });
  const survivors = createSurvivors({
    ...{ clock, mounts, findings, refsOf: (uid) => leftOf({ mounts, source }, uid) },
    ...(survived === undefined ? {} : { memory: survived }),
  });
  const { close: closeMarks, ...shown } = openMarks(needs, settings, api);
  if (!dry) api.whenUp(shutdown.retry);
  return {
    pods: source,
    killer: createKubeKiller({
      ...{ clock, mounts, source, tell: api.tell, refusals, guard, findings, survivors, help, runtime },
      deleting: shutdown.deleting,
      cancel: () => goingDown.signal,
      note: needs.note,
    }),
    ...shown,
    setShuttingDown: (isShuttingDown) => {
      if (!isShuttingDown) goingDown.abort();
      else if (goingDown.signal.aborted) goingDown = new AbortController();
      shown.setShuttingDown(isShuttingDown);
    },
    scratch: { empty: async () => null },
    reclaim: reclaim.reclaim,
    places: {
      podsCgroup: source.kubepods,
      podsShared: () => ifKnown(source.kubepods(), (path) => shmemIn(mounts, directoryOf(mounts, path))),
      latePaths: () =>
        ifKnown(runtime.filesystems(), ({ imagefs, containerfs }) =>
          known({ imagefsPath: imagefs, containerfsPath: containerfs }),
        ),
    },
    announce: shutdown.announce,
    unconfirmed: shutdown.unconfirmed,
    goOn: () => {
      shutdown.goOn();
      if (!dry && api.isUp()) shutdown.retry();
    },
    // The file belongs to the agent that acts.
    undoStops: dry ? async () => ({ started: [], notUndone: [] }) : shutdown.undo,
    hasStops: () => !dry && shutdown.hasTold(),
    forgetStops: dry ? () => undefined : shutdown.forget,
    kubeletConfigz: () => readConfigz({ clock, ...settings, nodeName: api.nodeName }),
    isSettled: source.isSettled,
    running: source.running,
    // The kubelet's business (kubelet-eviction.md 8.5).
    oomScores: () => [],
    rewrite: dry ? () => undefined : shutdown.rewrite,
    close: async (isOver) => {
      survivors.close();
      help?.close();
      await shutdown.close(isOver);
      await closeMarks(isOver);
      reclaim.close();
      await source.close();
      walker.close();
      runtime.close();
      await api.close();
    },
  };
}

type OpenMarks = Pick<Mode, 'marks' | 'shows' | 'isTaken' | 'setShuttingDown'> & {
  readonly close: (isOver: boolean) => Promise<void>;
};
const NO_MARKS: OpenMarks = {
  marks: { setCondition: () => undefined, event: () => undefined },
  setShuttingDown: () => undefined,
  close: async () => undefined,
};

/** Our conditions and taints on the node; none in a dry run. */
function openMarks(
  { clock, findings, log, wake, dry, conditions = [] }: KubeNeeds,
  settings: KubeSettings,
  api: KubeApi,
): OpenMarks {
  if (dry) return NO_MARKS;
  const { writes, isUp, nodeName, bootId, spool } = api;
  let taken: string | null = null;
  const events = createEvents({ clock, nodeName, writes, isUp, spool, findings });
  const marks = createKubeMarks({
    ...{ clock, isUp, writes, findings, conditions, tellEvent: events.tell },
    objectOf: (uid) => {
      const pods = api.pods();
      return pods.known ? (pods.value.get(uid)?.object ?? null) : null;
    },
    wants: { conditions: settings.areConditionsSet, taints: settings.taintKeys },
    agent: ownAgentId(),
    isAlive: isAliveHere,
    taken: ({ pid }) => {
      takeBack.close();
      taken = `another nodewarden (process ${pid}) sets the conditions of the node ${nodeName}`;
      wake();
    },
  });
  api.whenUp(marks.retry);
  const takeBack = createUndoCordon({ clock, findings, log, writes, isUp, nodeName, bootId });
  return {
    marks,
    shows: {
      lock: (status) => {
        const said = sayArmed(status);
        if (said === null) marks.untell('NodewardenShutdownArmed');
        else if (said !== undefined) marks.tell('NodewardenShutdownArmed', said.status, said.reason, said.message);
      },
      // E21: the comparison of plan and outcome comes last.
      lastBoot: (said) =>
        takeBack.whenDone(() => {
          const { status, reason, message } = sayBootEnd(said, bootId);
          marks.tell('NodewardenLastBoot', status, reason, message);
          if (!said.isNew) return;
          const about = { decision: `boot-${bootId}`, pod: null, annotations: {} };
          marks.event('NodeShutdown', message, about);
        }),
    },
    isTaken: () => taken,
    setShuttingDown: takeBack.setShuttingDown,
    close: async (isOver) => {
      takeBack.close();
      if (isOver) await marks.clear();
      else await marks.close();
      events.close();
    },
  };
}
