import { type Actor, createActor, type Effects } from '../act/actor.ts';
import { dryParts } from '../act/dry-run.ts';
import { createPreKill } from '../act/pre-kill.ts';
import { createReclaim, cutOff } from '../act/reclaim.ts';
import { warmUp } from '../act/warm-up.ts';
import { createWhatFills } from '../act/what-fills.ts';
import { observedOf, toCoreConfig } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import type { CoreConfig } from '../core/core-config.ts';
import type { Decision } from '../core/decision.ts';
import { trueConditions } from '../core/eviction/condition.ts';
import { actOf, evictionsOf } from '../core/eviction/under-way.ts';
import type { Observation } from '../core/observation.ts';
import { basisOf } from '../core/pod/basis.ts';
import type { OomScore } from '../core/pod/oom-score.ts';
import type { MonoMs } from '../core/reading.ts';
import { isUnderWay } from '../core/shutdown/stopping.ts';
import { countsSwap } from '../core/signal.ts';
import type { Eviction, State } from '../core/state/state.ts';
import type { Verdict } from '../core/verdict.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createDiskWalker } from '../host/disk/disk-walk.ts';
import { watchWakeups } from '../host/memory/memory-wakeups.ts';
import { readSharedMemory } from '../host/memory/shared-memory.ts';
import { createStdout } from '../host/own/stdout.ts';
import { createProcfs } from '../host/procfs.ts';
import type { CommandRunner } from '../host/systemd/transient.ts';
import { userName } from '../host/user-name.ts';
import type { KubeSettings, Mode, OpenMode } from '../mode.ts';
import { createObserver, type ObserverNeeds, type OpenObserver } from '../observe/look.ts';
import type { OomWatch } from '../observe/oom-kills.ts';
import type { Clock, Findings, Inbox, Log } from '../ports.ts';
import type { RecordEntry } from '../record/entry.ts';
import { createFindings } from '../record/writing/findings.ts';
import { createLog } from '../record/writing/log.ts';
import type { OpenRecorder, RecorderNeeds } from '../record/writing/recorder.ts';
import { loadState, stateFilePath } from '../record/writing/state-file.ts';
import type { ShutdownSide } from '../shutdown/open.ts';
import { createProgress, type Progress } from '../shutdown/progress.ts';
import { sayDropped } from '../words/decision.ts';
import { createInbox } from './loop.ts';
import type { Notifier } from './notifier.ts';
import { createOomKills } from './oom-kills.ts';
import { type OwnFiles, openOwnFiles } from './own-files.ts';
import { undoing } from './undoing.ts';

export type PartsHost = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly bootId: string;
  readonly log: 'stdout' | 'none';
  readonly onEntry: ((entry: RecordEntry) => void) | undefined;
  readonly shutdown: ShutdownSide;
  /** Runs the operator's commands. */
  readonly run: CommandRunner;
  readonly notifier: Pick<Notifier, 'follow'>;
  /** These outlive the parts, so that nothing is written twice, and no kill is lost between two configurations. */
  readonly openRecorder: (needs: RecorderNeeds) => OpenRecorder;
  readonly oomWatch: OomWatch;
  readonly openMode: OpenMode;
  /** A sentence about the shutdown in progress, for display. */
  readonly show: (line: string) => void;
};
/** Everything that is built from one configuration. */
export type OpenParts = {
  readonly log: Log;
  readonly findings: Findings;
  readonly inbox: Inbox;
  readonly recorder: OpenRecorder;
  readonly observer: OpenObserver;
  readonly actor: Actor;
  /** Follows a shutdown and reports it. */
  readonly progress: Progress;
  /** What the kernel would choose by. */
  readonly oomScores: () => readonly OomScore[];
  /** The mode's pods, and how they are stopped when the machine goes down. */
  readonly mode: Pick<
    Mode,
    | 'pods'
    | 'looked'
    | 'isSettled'
    | 'running'
    | 'hasStops'
    | 'goOn'
    | 'forgetStops'
    | 'setShuttingDown'
    | 'shows'
    | 'isTaken'
    | 'isToBeStopped'
    | 'kubeletConfigz'
  >;
  readonly undoStops: () => void;
  readonly isUndoing: () => boolean;
  /** The configuration that the shutdown in progress began with; if there is none, the one in force. */
  readonly ofShutdown: () => Effective;
  readonly shutdownOver: () => void;
  /** The state as the last run of this boot left it. */
  readonly state: State;
  readonly core: () => CoreConfig;
  /** Call once, after READY: the first eviction is then as fast as later ones. */
  readonly warmUp: (stop: AbortSignal) => Promise<void>;
  /** After each look: the cause of pressure that no eviction relieves is searched for and reported. */
  readonly whatFills: (observation: Observation, verdict: Verdict) => void;
  /** After each look: kills by the kernel are logged and recorded. */
  readonly oomKills: (atMs: MonoMs, state: State) => void;
  /** Restores state, record and runtime directory if they are removed. */
  readonly ownFiles: Pick<OwnFiles, 'alsoCheck' | 'alsoRestore' | 'seen' | 'isTaken'>;
  /** `isOver`: as in `Mode.close`. */
  readonly close: (isOver: boolean) => Promise<void>;
};

const GOES_DOWN: readonly Decision['kind'][] = ['announce-shutdown', 'stop-for-shutdown', 'release-lock'];
const SILENT = { writeLine: () => {} };

/** A dry run that was switched on may have dropped one before this state heard of it; the live agent decides anew. */
function withoutDryDrops(state: State, { left }: Pick<OpenRecorder, 'left'>): State {
  const isDropped = ({ decision }: Eviction): boolean => {
    const { outcome } = left(decision);
    return outcome?.kind === 'dropped' && outcome.because === 'dry-run';
  };
  return { ...state, act: actOf(evictionsOf(state).filter((eviction) => !isDropped(eviction))) };
}

/**
 * Builds the parts; throws if one of our own directories cannot be created. `effective` returns the latest
 * configuration.
 */
export function openParts(host: PartsHost, made: Effective, effective: () => Effective): OpenParts {
  const { clock, mounts, bootId, oomWatch, run } = host;
  const log = createLog(made.logLevel, host.log === 'stdout' ? createStdout(clock) : SILENT);
  const procfs = createProcfs();
  const cpus = procfs.onlineCpus();
  procfs.close();
  const core = memoized(effective, (config) => toCoreConfig(config, cpus.known ? cpus.value : 1));
  const findings = createFindings({ clock, log });
  const stateFile = stateFilePath(made.runtimeDirectory, made.dryRun);
  const ownFiles = openOwnFiles({ ...made, clock, bootId, findings, stateFile });
  const saved = loadState(stateFile, bootId, clock, {
    recordDirectory: made.stateDirectory,
    dry: made.dryRun,
    measured: JSON.stringify(observedOf(made)),
  });
  const recorder = host.openRecorder({
    clock,
    stateFile,
    recordDirectory: made.stateDirectory,
    adopted: saved.state,
    dry: made.dryRun,
    bootId,
    findings,
    config: core,
    onRecordLost: ownFiles.recordLost,
    ...(host.onEntry === undefined ? {} : { onEntry: host.onEntry }),
  });
  findings.recordIn(recorder);
  host.notifier.follow({
    configured: () => (effective().dryRun ? null : effective().notify),
    findings,
    decisionOf: (of) => recorder.left(of).decision,
  });
  for (const finding of saved.findings) findings.raise(finding);
  const inbox = createInbox(clock);
  const { inhibitor, systemd } = host.shutdown;
  const common = { clock, mounts, log, findings, note: recorder.note, wake: inbox.wake };
  const { podManifests, runtimeDirectory, cgroupRoot, dryRun } = made;
  const own = [podManifests, runtimeDirectory, made.stateDirectory, made.socket, process.execPath];
  const mode = host.openMode({
    ...common,
    systemd,
    podManifests,
    runtimeDirectory,
    cgroupRoot,
    conditions: trueConditions(saved.state.conditionLastMetMs),
    dry: dryRun,
    isDryNow: () => effective().dryRun,
    setOomScores: made.oomScoreAdj === 'off' ? undefined : run,
    run,
    own,
    kube: kubeOf(made),
  });
  const oomKills = createOomKills({ ...common, ...made, bootId, oomWatch, recorder, mode });
  const progress = createProgress({
    log,
    note: recorder.note,
    show: host.show,
    inhibitor: inhibitor.status,
    hasEnded: inbox.hasEnded,
    adopted: saved.state,
    left: recorder.left,
  });
  ownFiles.watch({
    rewrite: () => {
      recorder.rewrite();
      mode.rewrite();
      oomKills.keep();
    },
    checkRecord: recorder.checkRecord,
  });
  const { undoStops, isUndoing } = undoing({ clock, mode, progress, wake: inbox.wake });
  /** The configuration when the shutdown in progress began; null: there is none. */
  let atBegin: Effective | null = isUnderWay(saved.state.shutdown) ? made : null;
  const ofShutdown = (): Effective => atBegin ?? effective();
  const shutdownOver = (): void => {
    atBegin = null;
  };
  const { pods, podsLately, follow: followPods, unsettled: podsUnsettled } = mode.pods;
  const ofPods = {
    ...{ pods, followPods },
    ...(podsLately === undefined ? {} : { podsLately }),
    ...(podsUnsettled === undefined ? {} : { podsUnsettled }),
  };
  const isSwapCounted = (): boolean => core().thresholds.some(({ signal }) => countsSwap(signal));
  const observer = createObserver({
    ...common,
    ...observedOf(made),
    ...ofPods,
    ...mode.places,
    isSwapCounted,
    emptying: mode.scratch.emptying,
    ...confirmedBy(mode),
  });
  // A child of its own, so that a long search for what fills a disk does not delay the walks of the pods.
  const surveyor = createDiskWalker(clock);
  const whatFills = createWhatFills({
    ...common,
    ...observedOf(made),
    ...mode.places,
    mode: made.mode,
    walker: surveyor,
    sharedMemory: readSharedMemory,
    isReadOnly: observer.isReadOnly,
    pods,
    userName,
  });
  const live: Required<Effects> & Pick<Mode, 'announce'> = {
    ...(mode.announce === undefined ? {} : { announce: mode.announce }),
    killer: mode.killer,
    marks: mode.marks,
    reclaim: createReclaim({
      ...common,
      observer,
      commands: () => effective().reclaimCommands,
      run,
      runtime: mode.reclaim,
    }),
    scratch: mode.scratch,
    preKill: createPreKill({ configured: () => effective().preKill, run, findings }),
  };
  const dry = { ...dryParts(clock, mode.killer), announce: async () => sayDropped('dry-run') };
  // Dry run is the kill switch: it applies to the next decision, before the reload. But the machine goes down all the same, and
  // its pods with it: a shutdown is finished in order, like an eviction.
  const acting = () => (effective().dryRun ? dry : live);
  const actingInShutdown = () => (ofShutdown().dryRun ? dry : live);
  const actor = createActor({
    ...common,
    observer,
    recorder,
    inbox,
    isDry: () => effective().dryRun,
    killer: {
      stop: (order, ...how) => (order.why === 'shutdown' ? actingInShutdown() : acting()).killer.stop(order, ...how),
      cancel: mode.killer.cancel,
      whenFound: mode.killer.whenFound,
      usedBytes: mode.killer.usedBytes,
      largestProcesses: mode.killer.largestProcesses,
    },
    marks: {
      setCondition: (condition, status, message) => acting().marks.setCondition(condition, status, message),
      event: (reason, message, about) => acting().marks.event(reason, message, about),
    },
    lock: inhibitor,
    announce: ({ id, totalMs, byKubelet }) =>
      void actingInShutdown()
        .announce?.({ decision: id, totalMs, byKubelet })
        .then((detail) => inbox.put({ kind: 'announced', decision: id, detail })),
    undoStops: () => {
      shutdownOver();
      undoStops();
    },
    basisOf: ({ uid }) => basisOf(core(), pods(), uid),
    reclaim: (decision) => acting().reclaim(decision),
    scratch: { empty: (...victim) => acting().scratch.empty(...victim) },
    preKill: { collect: (decision) => acting().preKill.collect(decision), skipped: () => acting().preKill.skipped() },
  });
  for (const reclaim of saved.cutOff) {
    // If it had an outcome, the state did not know. Asked at once: `left` forgets what the record has and no state waits for.
    const hasOutcome = recorder.left(reclaim.decision).outcome !== null;
    if (!hasOutcome) recorder.outcome(cutOff({ clock, log, isDry: dryRun }, reclaim));
  }
  // Kernel events about the node may shorten a wait (D2); without them, the pace alone applies.
  const unwatch =
    mounts.version === 2
      ? watchWakeups(`${mounts.memory}${made.cgroupRoot}/memory.events`, clock, inbox.wake)
      : () => {};
  return {
    log,
    findings,
    inbox,
    recorder,
    observer,
    actor: {
      ...actor,
      begin: (decision) => {
        // Before the first stop, even if there is nothing to stop: units that an eviction holds down must not be
        // started now.
        if (GOES_DOWN.includes(decision.kind)) {
          atBegin = decision.kind === 'announce-shutdown' ? effective() : ofShutdown();
          mode.setShuttingDown(true);
        }
        actor.begin(decision);
      },
    },
    progress,
    ownFiles,
    oomScores: mode.oomScores,
    mode,
    undoStops,
    isUndoing,
    ofShutdown,
    shutdownOver,
    state: made.dryRun ? saved.state : withoutDryDrops(saved.state, recorder),
    core,
    warmUp: (stop) =>
      warmUp(
        {
          clock,
          mounts,
          config: core,
          podsNow: observer.podsNow,
          killer: mode.killer,
          rehearse: recorder.rehearse,
          log: createLog(made.logLevel, SILENT),
        },
        stop,
      ),
    whatFills,
    oomKills: oomKills.seen,
    close: async (isOver) => {
      host.notifier.follow(null);
      unwatch();
      observer.close();
      surveyor.close();
      await mode.close(isOver);
      // Last, because kills are no longer read afterwards, unless a reload follows, whose parts report them from here
      // on.
      await oomKills.last();
      findings.close();
      await recorder.close();
      oomKills.keep();
      ownFiles.close();
    },
  };
}

function kubeOf(made: Effective): KubeSettings | null {
  const { kubernetes } = made;
  if (made.mode === 'standalone' || kubernetes === null) return null;
  return {
    kubeconfig: kubernetes.kubeconfig,
    nodeName: kubernetes.nodeName ?? null,
    taintKeys: kubernetes.taints === true ? 'own' : kubernetes.taints || null,
    areConditionsSet: kubernetes.conditions,
    isBudgetRequired: kubernetes.pdb === 'required',
    protectNamespaces: kubernetes.protectNamespaces,
    kubeletDirectory: made.nodefsPath,
    podLogsDir: made.podLogsDir,
    runtimeEndpoint: made.containerRuntimeEndpoint,
    cgroupDriver: made.cgroupDriver,
    stateDirectory: made.stateDirectory,
    imageMinimumGCAgeMs: made.imageMinimumGCAgeMs,
    isDrained: kubernetes.shutdownMode === 'drain',
  };
}

const confirmedBy = ({ unconfirmed }: Mode): Pick<ObserverNeeds, 'unconfirmed'> =>
  unconfirmed === undefined ? {} : { unconfirmed };

/** Returns the last answer while the argument is the same. */
function memoized<A, B>(ask: () => A, answer: (asked: A) => B): () => B {
  let last: { readonly asked: A; readonly answered: B } | null = null;
  return () => {
    const asked = ask();
    if (last === null || last.asked !== asked) last = { asked, answered: answer(asked) };
    return last.answered;
  };
}
