import pkg from '../../package.json' with { type: 'json' };
import type { Actor } from '../act/actor.ts';
import { createAnnouncer } from '../act/announce.ts';
import { observedOf } from '../config/core-config.ts';
import type { Effective } from '../config/effective.ts';
import { evictionsOf, resumeEvictions } from '../core/eviction/under-way.ts';
import type { Observation } from '../core/observation.ts';
import { sayCause } from '../core/reading.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createClock, readBootId, sleep } from '../host/clock.ts';
import { directoryHangs } from '../host/disk/hung-disk.ts';
import { hostName } from '../host/host-name.ts';
import { createStdout } from '../host/own/stdout.ts';
import { type Notify, openNotify } from '../host/systemd/notify.ts';
import { createCommandRunner } from '../host/systemd/transient.ts';
import type { OpenMode } from '../mode.ts';
import { createOomWatch } from '../observe/oom-kills.ts';
import type { Clock } from '../ports.ts';
import type { RecordEntry } from '../record/entry.ts';
import { createBootNotes } from '../record/writing/boot-notes.ts';
import { createRecorders } from '../record/writing/recorder.ts';
import { askDaemon } from '../serve/ask.ts';
import type { ShutdownContext } from '../serve/shutdown-status.ts';
import { createSignalHistory, type SignalHistory } from '../serve/signal-history.ts';
import { isReport, type StatusReport } from '../serve/status.ts';
import { openShutdown } from '../shutdown/open.ts';
import { createStandalone } from '../standalone/open.ts';
import { sayNext } from '../words/doctor.ts';
import { NO_KUBECONFIG } from '../words/doctor-kube.ts';
import { startSentence } from '../words/start.ts';
import { openAnswers } from './answers.ts';
import { createBesideKubelet } from './beside-kubelet.ts';
import { type OpenParts, openParts, type PartsHost } from './compose.ts';
import { type Counters, createCounters } from './counters.ts';
import { createGoingDown } from './going-down.ts';
import { runLoop } from './loop.ts';
import { createNotifier } from './notifier.ts';
import { distrustOwn } from './own-files.ts';
import { createReload, instead, type Loaded, loadToRun, withDryRun } from './reload.ts';

type DaemonOptions = {
  /** null = the default path, or all defaults if no file exists there. */
  readonly configFile: string | null;
  readonly dryRun: boolean;
  readonly log: 'stdout' | 'none';
  /** Prints why it did not start. */
  readonly complain?: (line: string) => void;
  readonly onReport?: (report: StatusReport) => void;
  readonly onEntry?: (entry: RecordEntry) => void;
  /** Called once it observes. */
  readonly onReady?: () => void;
};
type Host = PartsHost & {
  readonly notify: Notify;
  readonly options: DaemonOptions;
  /** They also outlive the parts, so that a reload resets no count. */
  readonly counters: Counters;
  readonly history: SignalHistory;
  isFirst: boolean;
  readonly startedIn: { record: string | null };
  /** SIGHUP arrived, perhaps during a reload, when nothing else listened for it. */
  isHungUp: boolean;
};

/** How long effects in progress may continue after the stop; the next run resumes the others. */
const LAST_EFFECTS_MS = 1_000;
/** If another agent does not answer within this time, its lock still reveals it. */
const BESIDE_MS = 1_000;
/** When the directory of the manifests of a refused configuration is asked again; the pause doubles. */
const FIRST_ASK_MS = 5_000;
const MOST_ASK_MS = 600_000;

/** The daemon, until `stop`. 0: it stopped cleanly; 2: the configuration is bad; 1: anything else. */
export async function runDaemon(options: DaemonOptions, stop: AbortSignal): Promise<0 | 1 | 2> {
  const complain = options.complain ?? (() => {});
  const clock = createClock();
  const read = loadToRun(options.configFile, complain);
  if (read === null) return 2;
  const loaded = withDryRun(read, options.dryRun);
  const { effective } = loaded;
  const { mode, kubernetes, dryRun, runtimeDirectory } = effective;
  if (mode === 'kubelet' && kubernetes === null) {
    complain(NO_KUBECONFIG);
    return 1;
  }
  const mounts = findCgroupMounts();
  const bootId = readBootId();
  for (const fact of [mounts, bootId]) if (!fact.known) complain(`${fact.where}: ${fact.detail}`);
  if (!mounts.known || !bootId.known) return 1;
  const inTheWay = distrustOwn(effective) ?? (await refuseBeside(effective.socket, dryRun, clock));
  if (inTheWay !== null) {
    complain(inTheWay);
    return 1;
  }
  const { log } = options;
  const sayOnConsole = log === 'none' ? () => {} : consoleOf(clock);
  const notify = openNotify(process.env, clock, sayOnConsole);
  const shutdown = openShutdown(clock, runtimeDirectory);
  const run = createCommandRunner({ systemd: shutdown.systemd, clock });
  const notifier = createNotifier({ clock, run, node: hostName() });
  const show = (line: string): void => {
    notify.status(line);
    // On a terminal the log says the same.
    if (process.stdout.isTTY !== true) sayOnConsole(line);
  };
  const counters = createCounters(clock.wallMs());
  const onEntry = (entry: RecordEntry): void => {
    counters.recorded(entry);
    notifier.seen(entry);
    options.onEntry?.(entry);
  };
  const common = { clock, mounts: mounts.value, bootId: bootId.value, log, onEntry, shutdown, show, notifier, run };
  const ofRun = {
    openRecorder: createRecorders(),
    oomWatch: createOomWatch(mounts.value, clock),
    openMode: await loadMode(mode),
    notify,
    options,
    counters,
    history: createSignalHistory(clock),
  };
  const host: Host = { ...common, ...ofRun, isFirst: true, startedIn: { record: null }, isHungUp: false };
  const hungUp = (): void => {
    host.isHungUp = true;
  };
  process.on('SIGHUP', hungUp);
  try {
    let turn: Turn | null = { next: loaded, former: null };
    while (turn !== null) turn = await runParts(host, turn, stop);
    return 0;
  } catch (error) {
    complain(sayCause(error));
    return 1;
  } finally {
    process.off('SIGHUP', hungUp);
    host.oomWatch.close();
    notifier.close();
    await shutdown.close();
    notify.close();
  }
}

/** The Kubernetes clients are loaded only if they are needed. */
async function loadMode(mode: Effective['mode']): Promise<OpenMode> {
  return mode === 'kubelet' ? (await import('../kube/open.ts')).createKube() : createStandalone();
}

/**
 * Why it must not start; null: it may. Two real agents would each choose and stop pods; two dry runs would write one record.
 * One of each is fine: a dry run has files of its own.
 */
async function refuseBeside(socket: string, dryRun: boolean, clock: Clock): Promise<string | null> {
  const asked = await askDaemon(socket, { ask: 'status' }, clock, { answerMs: BESIDE_MS });
  if (asked.kind !== 'answer') return null;
  if (!dryRun) return `another nodewarden is running (it answers on ${socket}); only --dry-run can run beside it`;
  return isReport(asked.answer) && asked.answer.node.dryRun
    ? `another dry run is running (it answers on ${socket}); a second one needs a configuration with its own socket, stateDirectory and runtimeDirectory`
    : null;
}

/** Writes to standard error, which the unit connects to the console. */
function consoleOf(clock: Clock): (line: string) => void {
  const console = createStdout(clock, 2);
  return (line) => console.writeLine(`nodewarden: ${escapeUnsafe(line)}`);
}

/** The configuration whose parts are built next, and the one before it; null: it is the first. */
type Turn = { readonly next: Loaded; readonly former: Loaded | null };

/**
 * Builds the parts, runs the loop, closes the parts. Null: stopped; otherwise the configuration to continue with, whose parts
 * differ. What must outlive this is in the state file, or belongs to the host.
 */
async function runParts(host: Host, turn: Turn, stop: AbortSignal): Promise<Turn | null> {
  const { clock, notify, options } = host;
  /** In force. */
  let now = turn.next;
  /** `isReady`: its parts may be opened, and it was not refused. */
  let next = null as { readonly loaded: Loaded; readonly isReady: boolean } | null;
  const open = (): OpenParts => openParts(host, now.effective, () => now.effective);
  let parts: OpenParts;
  try {
    parts = open();
  } catch (error) {
    if (turn.former === null) throw error;
    now = instead(turn.next, turn.former, sayCause(error));
    parts = open();
  }
  const made = now;
  // Before an eviction is resumed, which needs its pod.
  await parts.mode.pods.opened?.();
  const { actor, inbox, observer, recorder, findings, log } = parts;
  /** New parts know no pods while the directory of their manifests does not answer. */
  const takeIfAnswered = async (loaded: Loaded): Promise<void> => {
    const { mode, podManifests } = loaded.effective;
    const hangs = mode === 'standalone' ? await directoryHangs(podManifests) : null;
    if (next?.loaded !== loaded) return;
    if (hangs === null) next = { loaded, isReady: true };
    else {
      reload.refuse(
        loaded,
        `podManifests: ${podManifests}: ${hangs.detail}. It is asked again, every 10 minutes at most`,
      );
      reloadOnceAnswered(podManifests, FIRST_ASK_MS);
    }
    inbox.wake();
  };
  /** Until another configuration is read. More and more rarely: a mount that hangs may keep the child that asks. */
  let cancelAsk = (): void => undefined;
  const reloadOnceAnswered = (podManifests: string, afterMs: number): void => {
    let isWanted = true;
    const cancelTimer = clock.after(afterMs, async () => {
      const hangs = await directoryHangs(podManifests);
      if (!isWanted) return;
      if (hangs === null) reload.now();
      else reloadOnceAnswered(podManifests, Math.min(2 * afterMs, MOST_ASK_MS));
    });
    cancelAsk = () => {
      isWanted = false;
      cancelTimer();
    };
  };
  const reload = createReload({
    clock,
    log,
    findings,
    ...{ configFile: options.configFile, dryRun: options.dryRun },
    loaded: made,
    isRebuild: !host.isFirst,
    apply: (inForce, loaded) => {
      cancelAsk();
      now = inForce;
      next = loaded === null ? null : { loaded, isReady: false };
      inbox.wake();
      if (loaded !== null) void takeIfAnswered(loaded);
    },
  });
  parts.ownFiles.alsoRestore(reload.keep);
  if (host.isHungUp) reload.now();
  const goingDown = createGoingDown({
    ...{ clock, side: host.shutdown, parts, notify },
    effective: () => now.effective,
    atStart: () => loadToRun(options.configFile, () => undefined)?.effective ?? null,
  });
  const ended = new AbortController();
  const end = (): void => {
    ended.abort();
    inbox.wake();
  };
  const stopAsked = (): void => {
    void goingDown.stopAsked().then((isAtOnce) => (isAtOnce ? end() : undefined));
  };
  if (stop.aborted) stopAsked();
  stop.addEventListener('abort', stopAsked);
  const { stateDirectory: directory, dryRun: dry } = made.effective;
  const lastBoot = createBootNotes({ ...host, parts, directory, dry });
  const besideKubelet = createBesideKubelet({ clock, findings, mode: parts.mode, effective: () => now.effective });
  const shutdownContext = (): ShutdownContext => goingDown.context(lastBoot.sentence());
  const answers = await openAnswers({ ...host, onReport: options.onReport }, parts, {
    loaded: () => now,
    lastReload: reload.last,
    shutdownContext,
  });
  const isOver = (): boolean =>
    next?.isReady === true && !stop.aborted && actor.underWay() === 0 && !goingDown.isBusy();
  const tell = createAnnouncer({ log, findings });
  for (const { text } of now.warnings) log.warn({ event: 'config' }, text);
  const ready = (): void => {
    options.onReady?.();
    log.info(
      { event: 'config', ...startFacts(host, now.effective) },
      startSentence({ ...now.effective, ...observedOf(now.effective) }),
    );
    log.info({ event: 'config' }, sayNext(options.configFile));
    void lastBoot.tell();
  };
  const pulse = createPulse(clock, notify, {
    ready,
    isSettled: parts.mode.isSettled,
    // Only now: if memory is short at the start, the choice of a victim must not wait for it.
    settled: () => void parts.warmUp(ended.signal),
  });
  const resumed = resumeEvictions(parts.state, clock.monoMs());
  host.counters.resumed(evictionsOf(resumed));
  for (const eviction of evictionsOf(resumed)) actor.resume(eviction, recorder.left(eviction.decision));
  await goingDown.resume();
  await runLoop(
    resumed,
    {
      observer: {
        ...observer,
        look: (want, arrived) => timedLook(host, () => observer.look(answers.wanted(want), arrived)),
      },
      freshenPods: parts.mode.pods.freshen,
      recorder,
      inbox,
      config: () => parts.core(),
      prepare: actor.prepare,
      begin: actor.begin,
      publish: (observation, verdict) => {
        tell(observation, verdict);
        parts.mode.looked?.();
        parts.whatFills(observation, verdict);
        goingDown.seen(observation, verdict);
        lastBoot.seen(observation.atMs);
        besideKubelet.seen(observation);
        parts.oomKills(observation.atMs, verdict.state);
        parts.ownFiles.seen(observation.atMs);
        if (parts.ownFiles.isTaken() !== null || isNodeTaken(parts)) end();
        answers.seen(observation, verdict);
        pulse(observation);
        if (goingDown.isOver()) end();
        if (isOver()) end();
      },
      isOver,
    },
    ended.signal,
  );
  stop.removeEventListener('abort', stopAsked);
  host.isHungUp = false;
  // An answer that comes later changes nothing any more.
  const then = next?.isReady ? next.loaded : null;
  cancelAsk();
  reload.close();
  goingDown.close();
  besideKubelet.close();
  host.isFirst = false;
  if (stop.aborted) lastBoot.stopped(goingDown.machine());
  else if (then !== null) lastBoot.goesOn(then.effective);
  lastBoot.close();
  if (then === null) notify.stopping();
  else notify.reloading();
  await settled(clock, actor);
  await answers.close();
  // A dry run changes nothing, so the agent's marks are removed from the node before it begins.
  const isLast = then === null || then.effective.dryRun;
  await parts.close(isLast && goingDown.machine() === 'stays');
  await goingDown.leave();
  const taken = parts.ownFiles.isTaken();
  if (taken !== null) throw new Error(`this agent stops: its directory was removed and ${taken}`);
  if (isNodeTaken(parts)) throw new Error(`this agent stops: ${parts.mode.isTaken?.()}`);
  return stop.aborted || then === null ? null : { next: then, former: now };
}

function timedLook({ clock, counters }: Host, look: () => Observation): Observation {
  const startedMs = clock.monoMs();
  const observation = look();
  counters.looked(clock.monoMs() - startedMs);
  return observation;
}

/** beside-a-kubelet.md F18. */
const isNodeTaken = ({ mode }: OpenParts): boolean => (mode.isTaken?.() ?? null) !== null;

async function settled(clock: Clock, actor: Actor): Promise<void> {
  const untilMs = clock.monoMs() + LAST_EFFECTS_MS;
  while (actor.underWay() > 0 && clock.monoMs() < untilMs) await sleep(clock, 10);
}

/**
 * Sends READY at the first look that really observes, or that finds no node: systemd removes an empty slice, and may start the
 * agent before the first unit in it. Then the watchdog messages while looks continue.
 */
function createPulse(
  clock: Clock,
  notify: Notify,
  on: { readonly ready: () => void; readonly isSettled: () => boolean; readonly settled: () => void },
): (observation: Observation) => void {
  let isReady = false;
  let isSettled = false;
  let pingedMs = clock.monoMs();
  return ({ atMs, signals }) => {
    const memory = signals['memory.available'];
    if (!isReady && (memory.known || memory.why === 'absent')) {
      isReady = true;
      notify.ready();
      on.ready();
    }
    if (!isSettled && isReady && on.isSettled()) {
      isSettled = true;
      on.settled();
    }
    if (notify.watchdogMs !== null && atMs - pingedMs >= notify.watchdogMs) {
      pingedMs = atMs;
      notify.watchdog();
    }
  };
}

function startFacts(host: Host, effective: Effective) {
  const { mode, dryRun, file } = effective;
  const { cgroupRoot } = observedOf(effective);
  return { version: pkg.version, mode, dryRun, cgroupRoot, cgroupLayout: host.mounts.layout, file };
}
