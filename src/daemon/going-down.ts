import type { Effective } from '../config/effective.ts';
import type { Observation } from '../core/observation.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import { neededTotalMs } from '../core/shutdown/plan.ts';
import { isByLogind, isUnderWay, phasesOf } from '../core/shutdown/stopping.ts';
import type { State } from '../core/state/state.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { Verdict } from '../core/verdict.ts';
import { sleep } from '../host/clock.ts';
import type { Notify } from '../host/systemd/notify.ts';
import type { Clock } from '../ports.ts';
import type { ShutdownContext } from '../serve/shutdown-status.ts';
import type { ShutdownSide } from '../shutdown/open.ts';
import { sayLock } from '../shutdown/progress.ts';
import { NOT_ARMED, notArmed } from '../words/finding-own.ts';
import { watchKubeletLock } from './beside-kubelet.ts';
import type { OpenParts } from './compose.ts';

export type GoingDownNeeds = {
  readonly clock: Clock;
  readonly side: Omit<ShutdownSide, 'systemd'>;
  readonly parts: Pick<
    OpenParts,
    | 'inbox'
    | 'findings'
    | 'progress'
    | 'mode'
    | 'log'
    | 'state'
    | 'core'
    | 'actor'
    | 'undoStops'
    | 'isUndoing'
    | 'ofShutdown'
    | 'shutdownOver'
  > & { readonly recorder: Pick<OpenParts['recorder'], 'left'> };
  readonly notify: Pick<Notify, 'status' | 'extendMs'>;
  readonly effective: () => Effective;
  /** What a run that starts now would have, but for its command line. Null: it would not start. */
  readonly atStart: () => Effective | null;
};
/** The daemon's part in a shutdown of the machine, outside the loop. */
type GoingDown = {
  /** Before the first look: resumes what an earlier run began. */
  readonly resume: () => Promise<void>;
  readonly seen: (observation: Observation, verdict: Verdict) => void;
  /** The agent got SIGTERM. True: it may stop at once; false: the machine is going down, and the phases come first. */
  readonly stopAsked: () => Promise<boolean>;
  /** These phases are over. */
  readonly isOver: () => boolean;
  /** A phase runs, the machine is about to go down, or what was stopped is being started again: no reload now. */
  readonly isBusy: () => boolean;
  /** Whether the machine was known to go down when the agent got SIGTERM. */
  readonly machine: () => 'stays' | 'goes-down';
  readonly context: (last: string | null) => ShutdownContext;
  readonly close: () => void;
  /** Last of all: an agent whose stop was cancelled must not stay down. */
  readonly leave: () => Promise<void>;
};

const SETTLE_POLL_MS = 20;
/** A bus that is just coming back answers within this. */
const ASK_MS = 10_000;
const CANCEL_LOOK_MS = 500;
/** Once systemd stops everything, it waits for the agent no longer than this. */
const HOLD_LOOK_MS = 200;
/** How long an agent that is held over believes in a shutdown that nobody confirms. */
const DOUBT_MS = 10_000;
/** How long systemd is asked, each time, to wait for the agent's end. Asked repeatedly: one request may get lost. */
const EXTEND_MS = 30_000;
const EXTEND_EVERY_MS = 5_000;

export function createGoingDown(needs: GoingDownNeeds): GoingDown {
  const { clock, side, parts, notify, effective } = needs;
  const { inbox, findings, progress, mode } = parts;
  let shutdown: State['shutdown'] = parts.state.shutdown;
  let machine: 'stays' | 'goes-down' = 'stays';
  /** A look has noticed that the agent got SIGTERM while the machine is going down. */
  let isStopSeen = false;
  /** It got SIGTERM during a shutdown, which continues, and whose outcome it waits for. */
  let isHeldOver = false;
  /** When logind's delay is over at the latest; until the first look, nothing is known of one. */
  let delayEndsMs = clock.monoMs();
  /** `shutdown -c` came during the delay, and logind shuts down nevertheless. */
  let isCancelIgnored = false;
  /** Once the first look has heard of a cancel, and the mode with it. */
  let whenSeen: (() => void) | null = null;
  let isClosed = false;
  /** Since the stop of the agent in a machine that goes down, whether that was cancelled. */
  let stop: 'none' | 'watched' | 'cancelled' = 'none';
  let cancelWatch: () => void = () => undefined;
  let cancelExtend: () => void = () => undefined;
  let cancelHold: () => void = () => undefined;
  const seeKubelet = watchKubeletLock({ clock, findings, isConfigured: () => effective().shutdown.isKubelets });
  mode.setShuttingDown(isDown());
  const endListening = side.listen({
    log: parts.log,
    heard: inbox.put,
    changed: () => tellLock(),
    cancelNotHonoured: () => {
      isCancelIgnored = true;
      progress.tell({ what: 'cancel-not-honoured' }, clock.monoMs());
    },
  });

  function isDown(): boolean {
    return isUnderWay(shutdown);
  }

  /** New parts may be a dry run, which starts nothing, and after the agent no other run may follow. */
  function isBusy(): boolean {
    return isDown() || parts.isUndoing();
  }

  function tellLock(): void {
    const status = side.inhibitor.status();
    const { lock } = status;
    if (!isDown()) {
      notify.status(sayLock(status));
      mode.shows?.lock(status);
    }
    // No lock is granted while the machine goes down, and a new configuration applies to the next shutdown.
    if (lock.kind === 'not-armed' && !isDown() && !lock.isPending) findings.raise(notArmed(lock.why));
    else findings.clear(NOT_ARMED);
    inbox.wake();
  }

  /** Only once the pods are known: a signal before that would find no pod to stop. */
  function want(): void {
    if (!mode.isSettled()) return;
    const { dryRun } = effective();
    const isFirst = side.inhibitor.status().lock.kind === 'off';
    // A dry run must not take the lock from the real agent beside it. A shutdown continues as it began, and one that an
    // earlier run began has to be watched.
    if (isFirst ? dryRun : isDown()) return;
    const neededMs = neededTotalMs(parts.core());
    // What is cancelled by now, logind need not say again.
    side.inhibitor.want(dryRun || neededMs <= 0 ? null : neededMs, isByLogind(shutdown));
  }

  /** From logind and systemd, which may still be starting; `inDoubt`: neither can say. */
  async function ask(question: () => Promise<Reading<boolean>>, inDoubt: boolean): Promise<boolean> {
    const endsMs = clock.monoMs() + ASK_MS;
    for (;;) {
      const answer = await question();
      if (answer.known) return answer.value;
      if (clock.monoMs() >= endsMs) return inDoubt;
      await sleep(clock, SETTLE_POLL_MS);
    }
  }

  /** Whether the system went down and came back since the last look of the earlier run, whose state still exists. */
  async function isBack(): Promise<boolean> {
    const { lastLookMs, stops } = parts.state;
    if (lastLookMs === null || !(isDown() || stops.length > 0 || mode.hasStops())) return false;
    return ask(() => side.cameBackSince(lastLookMs), false);
  }

  /** Continues the stops that an earlier run had decided; after a cancel, what was not asked yet is spared. */
  function resumeStops(): void {
    const pods = mode.running();
    for (const stop of parts.state.stops) {
      const running = pods.find(({ uid }) => uid === stop.uid) ?? null;
      parts.actor.resumeStop(stop, running, parts.recorder.left(stop.decision));
    }
  }

  /** Continues in the middle of a shutdown that an earlier run had begun. */
  function goOn(): void {
    mode.goOn?.();
    resumeStops();
    if (shutdown.kind !== 'stopping') return;
    const { phase, tier } = shutdown;
    const nowMs = clock.monoMs();
    const { lastLookMs } = parts.state;
    const within =
      lastLookMs === null ? '' : ` within the last ${sayDuration(Math.ceil((nowMs - lastLookMs) / 100) * 100)}`;
    if (tier === 'logind') {
      progress.tell({ what: 'lock-lost', detail: `nodewarden, which held it, ended${within}` }, nowMs);
    }
    progress.tell({ what: 'resumed', phase }, nowMs);
  }

  /** Asks systemd to wait for the end of this run, beyond its TimeoutStopSec, while it is held over. */
  function askToWait(): void {
    notify.extendMs(EXTEND_MS);
    cancelExtend = clock.after(EXTEND_EVERY_MS, () => {
      if (!isClosed && (isHeldOver || shutdown.kind === 'stopping')) askToWait();
    });
  }

  /**
   * Its phases run to the end. After them the shutdown may still be refused or cancelled, and without a run that follows, nobody
   * else would start again what this one has stopped. If one does, what orders the restart may be what delays the shutdown.
   */
  function holdOver(doubtMs: MonoMs | null = null): void {
    cancelHold = clock.after(HOLD_LOOK_MS, async () => {
      if (shutdown.kind === 'stopping') return holdOver();
      const stopping = await side.secondTier.isMachineStopping();
      const isAsked = !isYes(stopping) && (await side.secondTier.isToStart());
      const isToStart = isAsked && (isDown() || wouldGoOn());
      if (isClosed) return;
      const nowMs = clock.monoMs();
      const sinceMs = stopping.known ? null : (doubtMs ?? nowMs);
      const isUnsaid = sinceMs !== null && nowMs >= sinceMs + DOUBT_MS;
      const isSettled = isDown() ? nowMs >= delayEndsMs + DOUBT_MS : !parts.isUndoing();
      if (!isYes(stopping) && !isToStart && !isUnsaid && !isSettled) return holdOver(sinceMs);
      if (isYes(stopping) && !(await isNothingLeft(true))) isStopSeen = false;
      isHeldOver = false;
      inbox.wake();
    });
  }

  /** A run that follows starts again what was stopped: not a dry run, nor one that does not know of it. */
  function wouldGoOn(): boolean {
    const now = effective();
    const next = needs.atStart();
    if (now.dryRun || next === null || next.dryRun) return false;
    return next.mode === now.mode && next.runtimeDirectory === now.runtimeDirectory;
  }

  /** The agent is to stop now. False: the phases come first. */
  async function isNothingLeft(isAnnounced: boolean): Promise<boolean> {
    const { dryRun, shutdown: configured } = parts.ofShutdown();
    const leftMs = await side.secondTier.leftMs(isAnnounced);
    if (leftMs === null) return true;
    machine = 'goes-down';
    const hasPhases = phasesOf(shutdown, configured.phases).length > 0;
    const isToAct = shutdown.kind === 'stopping' || (hasPhases && !dryRun);
    if (!configured.secondTier || !isToAct) return true;
    // Pods that the phases left running are stopped now, if there are any (beside-a-kubelet.md E12).
    if (shutdown.kind === 'released' && parts.core().tiers === undefined) return true;
    inbox.put({ kind: 'stopped-without-signal', leftMs: finite(leftMs) });
    watchForCancel();
    return false;
  }

  /**
   * A service is not notified when its stop is cancelled (systemctl cancel). Its next run starts again what it stopped.
   */
  function watchForCancel(): void {
    stop = 'watched';
    cancelWatch = clock.after(CANCEL_LOOK_MS, async () => {
      const stays = await staysUp();
      // Another timer would keep the process alive, and systemd waiting for it.
      if (isClosed) return;
      if (!stays) return watchForCancel();
      stop = 'cancelled';
      machine = 'stays';
      await side.secondTier.comeBack();
      inbox.put({ kind: 'cancelled', machineStays: true });
    });
  }

  async function staysUp(): Promise<boolean> {
    const goesDown = await side.goesDown();
    return goesDown.known && !goesDown.value;
  }

  return {
    resume: async () => {
      if (await isBack()) {
        parts.log.info(
          { event: 'shutdown' },
          'the system went down and came back without a reboot of the machine (soft-reboot)',
        );
        mode.forgetStops();
        mode.setShuttingDown(false);
        parts.shutdownOver();
        shutdown = { kind: 'unarmed', why: 'came back' };
        inbox.put({ kind: 'came-back' });
        return;
      }
      const wasDown = isDown();
      if (parts.state.stops.length > 0 || shutdown.kind === 'stopping')
        while (!mode.isSettled()) await sleep(clock, SETTLE_POLL_MS);
      // beside-a-kubelet.md E9: a saved state proves nothing about the machine, and in doubt no pod is stopped. Asked last: it
      // may have been announced again meanwhile.
      const isStaying = wasDown && !(await ask(side.goesDown, false));
      if (isStaying && machine !== 'goes-down' && !side.inhibitor.status().isPreparing) {
        inbox.put({ kind: 'cancelled', machineStays: true });
        whenSeen = resumeStops;
        return;
      }
      if (wasDown) return goOn();
      resumeStops();
      // An earlier run died between a cancel and its end.
      if (mode.hasStops()) parts.undoStops();
    },
    seen: (observation, verdict) => {
      const hear = whenSeen;
      whenSeen = null;
      hear?.();
      const wasDown = isDown();
      shutdown = verdict.state.shutdown;
      isCancelIgnored &&= isDown();
      if (isHeldOver) machine = isDown() ? 'goes-down' : 'stays';
      if (shutdown.kind === 'stopping') delayEndsMs = shutdown.startedMs + (shutdown.delayMaxMs ?? 0);
      if (shutdown.kind === 'released') delayEndsMs = Math.max(delayEndsMs, shutdown.atMs);
      isStopSeen ||= observation.shutdownEvents.some(({ kind }) => kind === 'stopped-without-signal');
      progress.seen(observation, verdict);
      if (wasDown && !isDown()) {
        parts.shutdownOver();
        tellLock();
      }
      seeKubelet(observation, side.inhibitor.status());
      want();
    },
    stopAsked: async () => {
      const isAnnounced = isDown() && side.inhibitor.status().isPreparing;
      // The agent is restarted or stopped during a shutdown: logind waits for the lock, which this run holds to the
      // end. A cancelled one is over once it is undone, which the next look may be the first to hear of.
      if (isBusy() && !isYes(await side.secondTier.isMachineStopping()) && isBusy()) {
        if (isAnnounced) machine = 'goes-down';
        isStopSeen = true;
        isHeldOver = true;
        askToWait();
        holdOver();
        return false;
      }
      return isNothingLeft(isAnnounced);
    },
    isOver: () => isStopSeen && !isHeldOver && shutdown.kind !== 'stopping',
    isBusy,
    machine: () => machine,
    context: (last) => {
      const { dryRun, shutdown: configured } = parts.ofShutdown();
      return {
        nowMs: clock.monoMs(),
        inhibitor: side.inhibitor.status(),
        stopTimeoutMs: side.secondTier.stopTimeoutMs(),
        last,
        secondTier: configured.secondTier && !dryRun,
        isCancelIgnored,
      };
    },
    close: () => {
      isClosed = true;
      cancelWatch();
      cancelExtend();
      cancelHold();
      endListening();
    },
    leave: async () => {
      if (stop === 'none' || !(await staysUp())) return;
      if (stop === 'watched') await side.secondTier.comeBack();
      // Another cancel takes back that start, which waits for the end of this run.
      await side.secondTier.comeBackLater();
    },
  };
}

const isYes = (said: Reading<boolean>): boolean => said.known && said.value;
/** No time-out at all: longer than any phases. */
const NO_LIMIT_MS: MonoMs = 30 * 24 * 3_600_000;
const finite = (ms: number): number => Math.min(ms, NO_LIMIT_MS);
