import { goneAs } from '../../act/ended.ts';
import { killCgroup } from '../../act/kill.ts';
import type { Asked, KillEnd, KillOrder } from '../../act/kill-order.ts';
import { largestProcesses } from '../../act/largest-processes.ts';
import { oldestStartMs } from '../../act/oldest-start.ts';
import { NOT_MEASURED, releasedBy, usageBytes } from '../../act/released-memory.ts';
import type { Survivors } from '../../act/survivors.ts';
import type { Hasten } from '../../core/eviction/hasten.ts';
import type { Outcome, Signalled } from '../../core/outcome.ts';
import { podName } from '../../core/pod/pod.ts';
import { assertNever, ifKnown, known, type Reading, unknown } from '../../core/reading.ts';
import { graceFrom as graceOf } from '../../core/shutdown/chain.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { isMoved, isPopulated, isSame, whereIs } from '../../host/cgroup/cgroupfs.ts';
import { chargedBytes } from '../../host/cgroup/escaped.ts';
import { sleep } from '../../host/clock.ts';
import type { DyingHelp } from '../../host/process/dying-help.ts';
import { busUp } from '../../host/systemd/bus.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { CgroupRef, Clock, Findings, Killer, StopOrder } from '../../ports.ts';
import { resists, resistsId, sayStillCharged } from '../../words/finding-eviction.ts';
import type { LivePod, StandaloneSource } from '../pods/source.ts';
import type { Restart } from '../restart/restart.ts';
import type { ShutdownGrace } from './shutdown-grace.ts';
import type { ShutdownStops } from './shutdown-stops.ts';
import { lastWordIn } from './slice-units.ts';
import { isBetweenRuns, stopBetweenRuns, UNHEARD } from './stop-between-runs.ts';
import { createStopForShutdown, type SignalHeard } from './stop-for-shutdown.ts';
import { stopIdle } from './stop-idle.ts';
import { askedBy, askMeasured, type Ending, type StopTarget, savedRef, stopTarget } from './stop-target.ts';
import { askUnit, isStopping, isUnitDown } from './stop-units.ts';

type StandaloneKillerNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly systemd: Systemd;
  readonly source: Pick<StandaloneSource, 'find' | 'pods' | 'stopBegan' | 'stopEnded' | 'askedAnew'>;
  /** Null: nothing is restarted (dry run). */
  readonly restart: Pick<Restart, 'hold' | 'release'> | null;
  /** Null: stops of a shutdown are not remembered (dry run). */
  readonly shutdownStops: Pick<
    ShutdownStops,
    'request' | 'withSentBefore' | 'began' | 'toldAt' | 'ended' | 'cancel' | 'isAwaited'
  > | null;
  readonly findings: Findings;
  readonly survivors: Pick<Survivors, 'watch' | 'tellUnreaped'>;
  /** Its unit is active without processes; absent: no unit is. */
  readonly isIdle?: (uid: string) => boolean;
  /** As in Ties. Absent: no unit is said to be started again. */
  readonly doubtRestart?: (uid: string) => void;
  /** Absent: processes that were sent SIGKILL die without help. */
  readonly help?: DyingHelp | undefined;
};

/** It was told to end, and its time is over: it is ended where it was measured, whatever systemd may say yet (D3). */
const isOverdue = ({ why, first, sentBefore, victim }: StopOrder): boolean =>
  why === 'eviction' && first === 'sigkill' && sentBefore !== undefined && savedRef(victim) !== null;

/** An eviction that is resumed at the start may find bindings that systemd has not reported yet. */
const FIND_MS = 5_000;
const FIND_POLL_MS = 50;
const SIGKILL = 9;
/** Most dead processes are reaped by then. */
const UNREAPED_MS = 1_000;
const NOT_KILLED =
  'it had survived its eviction, and not every process that was left is known to have been sent SIGKILL';
/** Most units have ended by then, and need no query. */
const KILL_MODE_MS = 1_000;
/** How long the kernel may take to free the memory of processes that have ended by themselves. */
const FREED_MS = 200;
const FREED_POLL_MS = 20;

/** product.md section 7: stops units and podman scopes through systemd, and everything else by its cgroup. */
export function createStandaloneKiller(needs: StandaloneKillerNeeds): Killer {
  const { clock, mounts, source, shutdownStops, survivors } = needs;

  /** Null: the pod no longer exists. */
  async function find(uid: string): Promise<LivePod | null> {
    const endsMs = clock.monoMs() + FIND_MS;
    let live = source.find(uid);
    while (live !== null && !live.cgroup.known && live.cgroup.why === 'not-asked' && clock.monoMs() < endsMs) {
      await sleep(clock, FIND_POLL_MS);
      live = source.find(uid);
    }
    return live;
  }

  /** It had ended, also while no agent ran, or its cgroup is not where it was any more. */
  function gone(order: StopOrder, ref: CgroupRef, unit: string | null, isStartedAnew: boolean): Ending {
    const { why, sentBefore, usedBefore = NOT_MEASURED } = order;
    if (why === 'eviction' && sentBefore === undefined && isMoved(mounts, ref))
      return { kind: 'dropped', because: 'moved' };
    return goneAs(order, askedBy(unit), releasedBy(mounts, ref, usedBefore), isStartedAnew);
  }

  /** What was measured, whatever has its path by now. */
  function measured(victim: StopOrder['victim']): Reading<CgroupRef> {
    const saved = savedRef(victim);
    if (saved !== null) return known(whereIs(mounts, saved) ?? saved);
    return source.find(victim.uid)?.cgroup ?? unknown('absent', victim.uid, 'no such pod');
  }

  function isEmpty({ cgroup }: LivePod): boolean {
    if (!cgroup.known) return cgroup.why === 'absent';
    const populated = isPopulated(mounts, cgroup.value);
    return populated.known && !populated.value;
  }

  async function stop(
    order: StopOrder,
    hasten: Hasten,
    signalled?: SignalHeard,
    grace?: ShutdownGrace,
    became?: (outcome: Outcome) => void,
  ): Promise<Outcome> {
    // Not awaited if it is known at once: the first signal must not wait for a turn.
    const now = source.find(order.victim.uid);
    const live = now?.cgroup.known || isOverdue(order) ? now : await find(order.victim.uid);
    const outcome = { of: order.decision };
    const isIdle = needs.isIdle?.(order.victim.uid) === true;
    if (live !== null && grace !== undefined && isIdle && isEmpty(live)) {
      return stopIdle(needs, live, order, { signalled, grace });
    }
    if (live !== null && !isIdle && isBetweenRuns(order, live)) {
      const keptDown = await stopBetweenRuns(needs, live, order, signalled);
      if (typeof keptDown === 'object') return keptDown;
      // What this run has asked to stop is the victim, whenever it started.
      const next: StopOrder = keptDown === 'started' ? order : { ...order, sentBefore: 'sigterm', resumedFromMs: null };
      const end = await stop(next, hasten, signalled, grace, became);
      const isMaybe = keptDown === 'unheard' && end.kind === 'ended' && end.via === 'stop-unit';
      return isMaybe ? { ...outcome, atMs: end.atMs, kind: 'unknown', detail: UNHEARD } : end;
    }
    const target = stopTarget(needs, order, live);
    if ('kind' in target) {
      const saved = savedRef(order.victim);
      if (target.kind === 'survived' && saved !== null) survivors.watch({ uid: order.victim.uid, refs: [saved] });
      return { ...outcome, atMs: clock.monoMs(), ...target };
    }
    const { ref, unit } = target;
    const end = await stopIt(needs, target, order, { hasten, signalled, grace });
    if (end.kind === 'spared' && order.why === 'eviction' && unit !== null) needs.restart?.release(unit);
    if (end.kind === 'survived') {
      const ended = (): void => {
        const releasedBytes = releasedBy(mounts, ref, order.usedBefore ?? NOT_MEASURED);
        const how =
          end.killedBy === undefined
            ? ({ kind: 'unknown', detail: NOT_KILLED } as const)
            : ({ kind: 'ended', via: end.killedBy, releasedBytes } as const);
        became?.({ ...outcome, atMs: clock.monoMs(), ...how });
      };
      survivors.watch({ uid: order.victim.uid, refs: [ref], escaped: end.escaped, ended });
    }
    return { ...outcome, atMs: clock.monoMs(), ...toOutcome(end, order, (isAnew) => gone(order, ref, unit, isAnew)) };
  }

  const stopForShutdown = createStopForShutdown(needs, stop);

  return {
    cancel: shutdownStops?.cancel,
    stop: async (given, hasten, signalled, became) => {
      const order = shutdownStops?.withSentBefore(given) ?? given;
      if (order.why === 'shutdown') return stopForShutdown(order, hasten, signalled);
      return stop(order, hasten, signalled, undefined, became);
    },
    whenFound: async ({ uid }) => void (await find(uid)),
    usedBytes: (victim) => ifKnown(measured(victim), (ref) => usageBytes(mounts, ref)),
    largestProcesses: (victim, count, budgetMs) =>
      ifKnown(measured(victim), (ref) => largestProcesses({ mounts, refs: [ref], clock, count, budgetMs })),
  };
}

type Heard = { readonly signalled: SignalHeard | undefined; readonly grace: ShutdownGrace | undefined };

async function stopIt(
  needs: StandaloneKillerNeeds,
  { ref, unit, live }: StopTarget,
  order: StopOrder,
  { hasten, signalled, grace }: Pick<KillOrder, 'hasten'> & Heard,
): Promise<KillEnd> {
  const { clock, mounts, source, restart, survivors } = needs;
  const { uid } = order.victim;
  const populated = isPopulated(mounts, ref);
  const isEmpty = populated.known ? !populated.value : !isSame(mounts, ref);
  if (isEmpty && (order.why === 'shutdown' || chargedBytes(mounts, ref) === 0)) return { kind: 'gone' };
  if (isEmpty && order.sentBefore === undefined) return goneOrHeld(needs, ref);
  const oldestMs = order.resumedFromMs === null ? null : oldestStartMs(mounts, ref);
  // Resumed: every process in it started after the decision, so the victim had already ended.
  if (order.resumedFromMs !== null && oldestMs !== null && oldestMs > order.resumedFromMs)
    return { kind: 'gone', isStartedAnew: true };
  const isAtOnce = order.first === 'sigkill';
  const isOver = isOverIn(needs, unit, order);
  if (isAtOnce && (await isOver?.()) === true) return { kind: 'spared' };
  if (live !== null) source.stopBegan(uid);
  const isUnit = live?.manifest.target.kind === 'unit';
  if (isUnit && unit !== null && order.why === 'eviction') restart?.hold(live.manifest, unit, live.facts);
  const request = requestOf(needs, { ref, unit, live }, order, grace);
  // D12: sent first, so that Restart= does not answer the SIGKILL, and not awaited.
  if (isAtOnce) void request?.();
  const ask = isAtOnce ? null : request;
  const whenLeftBehind = isAtOnce || unit === null ? undefined : unitLeftBehind(needs, unit, order);
  const { first, graceMs, givesBack, usedBefore, turn, sentBeforeMs } = order;
  const graceFrom = turn === undefined ? undefined : (toldMs: number): number => graceOf(turn, toldMs);
  const { help, findings } = needs;
  const pod = podName(order.victim);
  const tellLeft = (who: string | null): void => {
    if (who === null) {
      findings.clear(resistsId(uid));
      survivors.tellUnreaped(ref, order.victim);
    } else findings.raise(resists(uid, pod, who));
  };
  const isCleaningUp =
    order.why === 'shutdown' && unit !== null ? (): Promise<boolean> => isStopping(needs, unit) : undefined;
  const lastWord = unit?.endsWith('.slice') === true ? lastWordIn(needs, unit) : null;
  const how = {
    graceMs,
    first,
    givesBack,
    usedBefore,
    hasten,
    ask,
    whenLeftBehind,
    isCleaningUp,
    isOver: isAtOnce ? undefined : isOver,
    graceFrom,
    leastGraceMs: grace?.leastMs,
    isTakenOver: grace?.isTakenOver,
    sentBeforeMs,
    signalled:
      lastWord === null
        ? signalled
        : (sent: Signalled['with']): void => {
            const toldMs = sentBeforeMs ?? clock.monoMs();
            lastWord.begin(() => Math.min(hasten.endsMs(toldMs), toldMs + (grace?.leastMs(toldMs) ?? graceMs)));
            signalled?.(sent);
          },
    help,
    resists: tellLeft,
  };
  const bySignals = await killCgroup({ mounts, ref, clock, ...how });
  // The unit's stop was quicker than the SIGKILL after it.
  const isByRequest = isAtOnce && request !== null && bySignals.kind === 'gone';
  if (isByRequest) signalled?.('sigterm');
  const killed: KillEnd = isByRequest
    ? { kind: 'ended', via: 'stop-unit', releasedBytes: releasedBy(mounts, ref, usedBefore ?? NOT_MEASURED) }
    : bySignals;
  const end = (killed.kind === 'ended' && order.why === 'eviction' ? heldOutside(mounts, ref) : null) ?? killed;
  lastWord?.cancel();
  findings.clear(resistsId(uid));
  if (end.kind === 'ended' && end.unreaped !== undefined)
    clock.after(UNREAPED_MS, () => survivors.tellUnreaped(ref, order.victim));
  if (live !== null) source.stopEnded(uid, end.kind === 'survived' ? 'survived' : 'ended', ref.inode);
  if (end.kind === 'ended' && (await isTimedOut(needs.systemd, order, unit, end.via))) {
    return { ...end, via: 'stop-timeout' };
  }
  // An earlier run had asked it to stop.
  return end.kind === 'ended' && end.via === 'stop-unit' && unit === null ? { ...end, via: 'sigterm' } : end;
}

/**
 * The processes that a unit's own stop does not signal: KillMode=process signals only the main process, KillMode=none
 * signals none, and systemd leaves the others running.
 */
function unitLeftBehind(
  { systemd, clock }: Pick<StandaloneKillerNeeds, 'systemd' | 'clock'>,
  unit: string,
  { resumedFromMs }: StopOrder,
): (run: () => void) => () => void {
  return (run) => {
    const check = async (): Promise<void> => {
      if (await isUnitDown(systemd, unit)) run();
    };
    // It may have stopped while no agent ran.
    if (resumedFromMs !== null) void check();
    const forget = systemd.whenJobEnds((job) => {
      if (job.unit === unit) void check();
    });
    // If ExecStopPost= is set, systemd waits for a main process that was never signalled before the unit is down.
    let cancel = clock.after(KILL_MODE_MS, () => {
      void systemd.killMode(unit).then((mode) => {
        if (mode.known && mode.value === 'none') void whenPastStop();
      });
    });
    let isForgotten = false;
    const whenPastStop = async (): Promise<void> => {
      const now = await systemd.ties(unit);
      if (isForgotten) return;
      if (now.known && now.value.activeState === 'deactivating' && now.value.subState !== 'stop') run();
      else cancel = clock.after(KILL_MODE_MS, () => void whenPastStop());
    };
    return () => {
      isForgotten = true;
      forget();
      cancel();
    };
  };
}

/** As in the order; but what systemd stops, or may be stopping, ends in any case. */
function isOverIn(
  { systemd, clock }: Pick<StandaloneKillerNeeds, 'systemd' | 'clock'>,
  unit: string | null,
  { isOver }: StopOrder,
): (() => Promise<boolean>) | undefined {
  if (isOver === undefined || unit === null) return isOver;
  return async () => {
    if (!(await isOver())) return false;
    await busUp(systemd, clock);
    const facts = await systemd.unit(unit);
    return facts.known && facts.value.activeState === 'active' && !facts.value.hasJob;
  };
}

/** A stop through systemd may have ended by systemd's own SIGKILL. */
async function isTimedOut(systemd: Systemd, { why }: StopOrder, unit: string | null, via: string): Promise<boolean> {
  if (why !== 'shutdown' || via !== 'stop-unit' || unit?.endsWith('.service') !== true) return false;
  const said = await systemd.serviceEnd(unit);
  if (!said.known || said.value.result !== 'timeout') return false;
  if (said.value.exitStatus === SIGKILL) return true;
  // Its ExecStop= took too long: SIGTERM followed, with a time of its own.
  const commands = await systemd.stopCommands(unit);
  return commands.known && commands.value === 0;
}

/**
 * Its cgroup is empty, and memory stays charged to it: processes that left it hold that. They are not signalled, but while they
 * hold it, nobody else may have to go for it (D3). Null: nothing stays.
 */
function heldOutside(mounts: CgroupMounts, ref: CgroupRef): Extract<KillEnd, { kind: 'survived' }> | null {
  const now = whereIs(mounts, ref) ?? ref;
  const bytes = chargedBytes(mounts, now);
  if (bytes === 0) return null;
  return { kind: 'survived', left: [], detail: sayStillCharged(now.path, bytes), escaped: { cgroup: { ...now } } };
}

/** Of an empty cgroup whose processes were not asked to end. */
async function goneOrHeld({ clock, mounts }: StandaloneKillerNeeds, ref: CgroupRef): Promise<KillEnd> {
  const endsMs = clock.monoMs() + FREED_MS;
  while (chargedBytes(mounts, ref) > 0 && clock.monoMs() < endsMs) await sleep(clock, FREED_POLL_MS);
  return heldOutside(mounts, ref) ?? { kind: 'gone' };
}

/** How it is asked to stop if not by SIGTERM; null: by SIGTERM. */
function requestOf(
  needs: StandaloneKillerNeeds,
  { ref, unit, live }: StopTarget,
  order: StopOrder,
  grace: ShutdownGrace | undefined,
): (() => Promise<Asked>) | null {
  if (live === null) return unit === null ? null : () => askMeasured(needs, unit, ref, order);
  if (grace !== undefined && needs.shutdownStops !== null) return needs.shutdownStops.request(live, order, grace);
  return unit === null ? null : () => askInTime(needs, unit, ref, order);
}

/** An eviction is resumed before the bus is connected, which takes milliseconds. */
async function askInTime(
  needs: StandaloneKillerNeeds,
  unit: string,
  ref: CgroupRef,
  { resumedFromMs, first }: StopOrder,
): Promise<Asked> {
  if (resumedFromMs !== null && !needs.systemd.isUp()) {
    await busUp(needs.systemd, needs.clock);
    // It may have ended and been started again. What was sent SIGKILL is kept down, despite Restart= (D12).
    const oldestMs = oldestStartMs(needs.mounts, ref);
    if (first === 'sigterm' && (oldestMs === null || oldestMs > resumedFromMs)) return 'not-told';
  }
  return askUnit(needs, unit);
}

function toOutcome(end: KillEnd, { why }: StopOrder, gone: (isStartedAnew: boolean) => Ending): Ending {
  switch (end.kind) {
    case 'ended':
      return end;
    case 'survived': {
      const { killedBy: _, ...survived } = end;
      return survived;
    }
    case 'gone':
      return gone(end.isStartedAnew === true);
    case 'spared':
      return { kind: 'dropped', because: why === 'eviction' ? 'not-killed' : 'cancelled' };
    default:
      return assertNever(end);
  }
}
