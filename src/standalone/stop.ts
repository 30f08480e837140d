import { goneAs } from '../act/ended.ts';
import { createEscapes, type Following } from '../act/escapes.ts';
import { killCgroup } from '../act/kill.ts';
import type { Asked, KillEnd, KillOrder } from '../act/kill-order.ts';
import { largestProcesses } from '../act/largest-processes.ts';
import { oldestStartMs } from '../act/oldest-start.ts';
import { NOT_MEASURED, releasedBy, usageBytes } from '../act/released-memory.ts';
import type { Hasten } from '../core/eviction/hasten.ts';
import type { Escaped, Outcome, Signalled } from '../core/outcome.ts';
import { podName } from '../core/pod/pod.ts';
import { assertNever, ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import { graceFrom as graceOf } from '../core/shutdown/chain.ts';
import { busUp } from '../host/bus.ts';
import type { CgroupMounts } from '../host/cgroup-mounts.ts';
import { isMoved, isPopulated, isSame, unreaped, whereIs } from '../host/cgroupfs.ts';
import { sleep } from '../host/clock.ts';
import type { DyingHelp } from '../host/dying-help.ts';
import { chargedBytes, heldOutside } from '../host/escaped.ts';
import type { Systemd } from '../host/systemd.ts';
import type { CgroupRef, Clock, Findings, Killer, StopOrder } from '../ports.ts';
import { resists, resistsId, survivedId, unreapedId, unreapedProcesses } from '../words/finding-eviction.ts';
import { ownerOf } from './cgroup-owner.ts';
import type { Restart } from './restart.ts';
import type { ShutdownGrace } from './shutdown-grace.ts';
import type { ShutdownStops } from './shutdown-stops.ts';
import { lastWordIn } from './slice-units.ts';
import type { LivePod, StandaloneSource } from './source.ts';
import { isBetweenRuns, stopBetweenRuns } from './stop-between-runs.ts';
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
  readonly restart: Pick<Restart, 'hold'> | null;
  /** Null: stops of a shutdown are not remembered (dry run). */
  readonly shutdownStops: Pick<
    ShutdownStops,
    'request' | 'withSentBefore' | 'began' | 'ended' | 'cancel' | 'isAwaited'
  > | null;
  readonly findings: Findings;
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
/** Its end frees what others may be chosen for. */
const SURVIVOR_MS = 250;
/** Most units have ended by then, and need no query. */
const KILL_MODE_MS = 1_000;

/** product.md section 7: stops units and podman scopes through systemd, and everything else by its cgroup. */
export function createStandaloneKiller(needs: StandaloneKillerNeeds): Killer {
  const { clock, mounts, source, shutdownStops } = needs;

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
      return keptDown ?? stop({ ...order, sentBefore: 'sigterm' }, hasten, signalled, grace, became);
    }
    const target = stopTarget(needs, order, live);
    if ('kind' in target) {
      const saved = savedRef(order.victim);
      if (target.kind === 'survived' && saved !== null) whenSurvivorEnds(needs, saved, order.victim);
      return { ...outcome, atMs: clock.monoMs(), ...target };
    }
    const { ref, unit } = target;
    const end = await stopIt(needs, target, order, { hasten, signalled, grace });
    if (end.kind === 'survived') {
      whenSurvivorEnds(needs, ref, order.victim, end.escaped, () => {
        const releasedBytes = releasedBy(mounts, ref, order.usedBefore ?? NOT_MEASURED);
        became?.({ ...outcome, atMs: clock.monoMs(), kind: 'ended', via: 'sigkill', releasedBytes });
      });
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
  const { clock, mounts, source, restart } = needs;
  const { uid } = order.victim;
  const follow = followed(needs, ref, order);
  const populated = isPopulated(mounts, ref);
  const isEmpty = populated.known ? !populated.value : !isSame(mounts, ref);
  if (isEmpty && (follow === undefined || !hasLeft(needs, ref, order, follow))) return { kind: 'gone' };
  const oldestMs = order.resumedFromMs === null ? null : oldestStartMs(mounts, ref);
  // Resumed: every process in it started after the decision, so the victim had already ended, or left.
  if (order.resumedFromMs !== null && oldestMs !== null && oldestMs > order.resumedFromMs) {
    const outside = follow === undefined ? null : createEscapes(mounts, ref, follow).left();
    return outside === null ? { kind: 'gone', isStartedAnew: true } : { kind: 'survived', ...outside };
  }
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
  const { first, graceMs, givesBack, usedBefore, turn } = order;
  const graceFrom = turn === undefined ? undefined : (toldMs: number): number => graceOf(turn, toldMs);
  const { help, findings } = needs;
  const pod = podName(order.victim);
  const tellLeft = (who: string | null): void => {
    if (who === null) {
      findings.clear(resistsId(uid));
      tellUnreaped(needs, ref, pod);
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
    signalled:
      lastWord === null
        ? signalled
        : (sent: Signalled['with']): void => {
            const toldMs = clock.monoMs();
            lastWord.begin(() => Math.min(hasten.endsMs(toldMs), toldMs + (grace?.leastMs(toldMs) ?? graceMs)));
            signalled?.(sent);
          },
    help,
    follow,
    resists: tellLeft,
  };
  const end = await killCgroup({ mounts, ref, clock, ...how });
  lastWord?.cancel();
  findings.clear(resistsId(uid));
  if (end.kind === 'ended' && end.unreaped !== undefined) clock.after(UNREAPED_MS, () => tellUnreaped(needs, ref, pod));
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

/** A shutdown ends what is left anywhere, after the pods. */
function followed({ source }: StandaloneKillerNeeds, ref: CgroupRef, order: StopOrder): Following | undefined {
  const { why, processes = [], victim } = order;
  if (why === 'shutdown') return undefined;
  return { processes, ownerOf: ownerOf(source.pods, victim.uid, ref.path) };
}

/** Its cgroup is empty, but its processes live elsewhere, or they were asked to end and its memory is still in use. */
function hasLeft({ mounts }: StandaloneKillerNeeds, ref: CgroupRef, order: StopOrder, follow: Following): boolean {
  if (createEscapes(mounts, ref, follow).isAny()) return true;
  return order.sentBefore !== undefined && chargedBytes(mounts, ref) > 0;
}

/** A pod that survived its eviction may end later: a device answers again, or a debugger detaches. */
function whenSurvivorEnds(
  { mounts, clock, findings }: StandaloneKillerNeeds,
  ref: CgroupRef,
  victim: StopOrder['victim'],
  escaped?: Escaped,
  ended?: () => void,
): void {
  const survivedMs = clock.monoMs();
  const isOver = (): boolean => {
    const held = escaped === undefined ? null : heldOutside(mounts, escaped);
    if (held !== null) return held.memoryBytes === 0 && held.processIds === 0;
    const populated = isPopulated(mounts, ref);
    if (!populated.known || !populated.value) return populated.known || populated.why === 'absent';
    // All that run there now were started since.
    return (oldestStartMs(mounts, ref) ?? 0) > survivedMs;
  };
  const lookAgain = (): void => {
    if (!isOver()) return void clock.after(SURVIVOR_MS, lookAgain);
    findings.clear(survivedId(victim.uid));
    ended?.();
  };
  clock.after(SURVIVOR_MS, lookAgain);
}

/** Reported as long as it holds: only their parent can free these process ids. */
function tellUnreaped(needs: StandaloneKillerNeeds, ref: CgroupRef, pod: string): void {
  const { mounts, clock, findings } = needs;
  const count = unreaped(mounts, ref);
  if (count === 0) {
    findings.clear(unreapedId(pod));
    return;
  }
  findings.raise(unreapedProcesses(pod, count));
  clock.after(UNREAPED_MS, () => tellUnreaped(needs, ref, pod));
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
    case 'survived':
      return end;
    case 'gone':
      return gone(end.isStartedAnew === true);
    case 'spared':
      return { kind: 'dropped', because: why === 'eviction' ? 'not-killed' : 'cancelled' };
    default:
      return assertNever(end);
  }
}
