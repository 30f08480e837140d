import { podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { NodeCondition } from '../../core/signal.ts';
import type { JobEnd } from '../../host/systemd/systemd.ts';
import { isAutoRestart, type UnitFacts } from '../../host/systemd/unit-facts.ts';
import {
  HELD_IN_DRY_RUN,
  heldInDryRun,
  KEPT_STARTING,
  keptStartingId,
  leftRunning,
  notRestarted,
  notStoppedAgain,
  restartId,
  SOMETHING_STARTS_IT,
  STARTED_OR_RESET,
  stopsUnusable,
} from '../../words/finding-standalone.ts';
import { sayNames } from '../../words/phrases.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import { createStopsSaver, MAX_REMEMBERED } from '../manifests/runtime-file.ts';
import { isRunning, prepareStart } from '../ties/start-effects.ts';
import { createAway } from './away.ts';
import { createHeldConditions } from './held-conditions.ts';
import { type Held, type HeldUnit, isAnotherRun, isReset, loadHeld, saveHeld } from './held-file.ts';
import {
  aheadOf,
  backOffMs,
  comesBack,
  HEALTHY_MS,
  isLeftDownIn,
  pulledInBy,
  toHold,
  withHeld,
  withoutAgain,
} from './hold.ts';
import type { RestartNeeds } from './needs.ts';
import { MOST_STOPS, stopAgainOf, stopsOf } from './stop-again.ts';
import { createStoppedBases } from './stopped-bases.ts';

export type Restart = {
  /**
   * Before the first signal of an eviction: from now on only the agent starts what is stopped: the unit, or what runs in the
   * slice, and what systemd stops along with it. `facts` null: it runs, and systemd has not reported more about that run.
   * Call the result if it was not asked to stop after all.
   */
  readonly hold: (manifest: ManifestPod, unit: string, facts: UnitFacts | 'between-runs' | null) => () => void;
  /** Its eviction was dropped while it runs, and no stop of it is on its way, whichever run had held it. */
  readonly release: (unit: string) => void;
  readonly setCondition: (condition: NodeCondition, status: boolean) => void;
  /** After each look: nothing is judged by conditions that an earlier run has left before one has changed or kept them. */
  readonly looked: () => void;
  /** While paused, nothing is started or stopped again: the machine is going down. */
  readonly setPaused: (isPaused: boolean) => void;
  readonly isHeld: (unit: string) => boolean;
  /** The file was lost: writes it again. */
  readonly rewrite: () => void;
  /** Resolves within a second, once the start or stop in progress is written: the next reader of the file knows of it. */
  readonly close: () => Promise<void>;
};

const TICK_MS = 1_000;
const CLOSE_MS = 1_000;

/** product.md section 5, "Coming back". Held units are in a file, so that they survive this process. */
export function createRestart(needs: RestartNeeds): Restart {
  const { clock, systemd, findings, log, runtimeDirectory, bootId } = needs;
  const loaded = loadHeld(runtimeDirectory, bootId, clock);
  if (loaded.complaint !== null) findings.raise(stopsUnusable('eviction', loaded.complaint));
  let held: Held = {
    ...loaded.held,
    conditions: [...new Set([...loaded.held.conditions, ...(needs.conditions ?? [])])],
  };
  const conditions = createHeldConditions(clock, needs.conditions ?? []);
  /** Held by an earlier run, and not judged by this one: what became of them in between, nobody has heard. */
  let unheard = new Set(held.units.map(({ unit }) => unit));
  /** Those of held units, in order, until their unit is judged. */
  let jobs: readonly JobEnd[] = [];
  const away = createAway(clock);
  const isHeld = (name: string): boolean => held.units.some(({ unit }) => unit === name);
  const bases = createStoppedBases({
    systemd,
    waiting: () => (held.units.some(({ asked }) => asked === 'stop') ? [] : held.units.map(({ unit }) => unit)),
    isShuttingDown: () => isPaused,
    ofShutdown: needs.ofShutdown ?? (() => new Set()),
    isHeld,
  });
  let ticking: Promise<void> | null = null;
  let isPaused = false;
  let hasLooked = false;
  let wasTaken = needs.isTaken?.() === true;
  let isClosed = false;
  /** Another agent may own the file by now. */
  let isAbandoned = false;
  let cancelTimer: () => void = () => undefined;
  const saver = createStopsSaver(needs, 'eviction', () => saveHeld(runtimeDirectory, held));

  function keep(next: Held): void {
    held = next;
    jobs = jobs.filter((job) => next.units.some(({ unit }) => unit === job.unit));
    saver.save();
    tellHeld();
  }
  const leftDownWithout = (name: string): readonly string[] => held.leftDown.filter((other) => other !== name);
  const put = (unit: HeldUnit): void =>
    keep({ ...held, units: [...held.units.filter((other) => other.unit !== unit.unit), unit].slice(-MAX_REMEMBERED) });
  const forgetJobs = (units: readonly HeldUnit[]): void => {
    bases.forget(units.map(({ unit }) => unit));
    jobs = jobs.filter((job) => !units.some(({ unit }) => unit === job.unit));
    for (const { unit } of units) away.forget(unit);
  };
  const drop = (unit: HeldUnit, why: string, isToStayDown = false): void => {
    findings.clear(restartId(unit.unit));
    const leftDown = [...leftDownWithout(unit.unit), ...(isToStayDown ? [unit.unit] : [])].slice(-MAX_REMEMBERED);
    keep({ ...held, units: held.units.filter((other) => other.unit !== unit.unit), leftDown });
    log.info(
      { event: 'restarted', unit: unit.unit, pod: unit.pod, started: false },
      `${unit.unit} is no longer held: ${why}`,
    );
  };

  const mayRun = (unit: HeldUnit): boolean => conditions.mayRun(held, unit);
  const isKeptDown = (name: string): boolean => held.units.some((unit) => unit.unit === name && !mayRun(unit));
  const isDry = (): boolean => needs.isDryNow?.() === true;
  const isHalted = (): boolean => isPaused || !hasLooked;
  const mayNotAct = (unit: HeldUnit): boolean => isClosed || isHalted() || isDry() || !held.units.includes(unit);

  function schedule(ms: number): void {
    cancelTimer();
    if (!isClosed && !isHalted() && (wasTaken || held.units.length > 0)) cancelTimer = clock.after(ms, tick);
  }

  function tellHeld(): void {
    const staying = isDry() && !wasTaken ? held.units.filter(({ after }) => after === 'restart') : [];
    if (staying.length === 0) findings.clear(HELD_IN_DRY_RUN);
    else findings.raise(heldInDryRun(staying));
  }

  /** The file, and the jobs of what is held, are the other agent's then. What it leaves is read once it has ended. */
  function isTaken(): boolean {
    const before = wasTaken;
    wasTaken = needs.isTaken?.() === true;
    if (before && !wasTaken) {
      forgetJobs(held.units);
      ({ held } = loadHeld(runtimeDirectory, bootId, clock));
      unheard = new Set(held.units.map(({ unit }) => unit));
    }
    tellHeld();
    return wasTaken;
  }

  function tick(): void {
    if (ticking !== null || isHalted()) return;
    ticking = (isTaken() ? Promise.resolve() : stepAll()).then(() => {
      ticking = null;
      schedule(TICK_MS);
    });
  }

  async function stepAll(): Promise<void> {
    // One instant for all: units start in the order in which they were held, however long systemd takes to answer.
    const nowMs = clock.monoMs();
    for (const { unit } of held.units) {
      if (isClosed) return;
      const asked = held.units.find((other) => other.unit === unit);
      // What ends during the query may have ended after what it reports.
      const ended = jobs.filter((job) => job.unit === unit);
      const facts = await systemd.unit(unit);
      const now = held.units.find((other) => other.unit === unit);
      // Held again, or released, during the query to systemd.
      if (isClosed || isHalted() || now === undefined || now !== asked || !facts.known) continue;
      if (facts.value.activeState === 'deactivating') continue;
      jobs = jobs.filter((job) => !ended.includes(job));
      await step(now, facts.value, ended, nowMs);
      unheard.delete(unit);
    }
  }

  async function step(unit: HeldUnit, facts: UnitFacts, ended: readonly JobEnd[], nowMs: MonoMs): Promise<void> {
    const isAnother = isAnotherRun(unit, facts);
    const lastOurs = ended.findLastIndex((job) => job.isOurs());
    // What is answered late is not known as ours: until its stop is over, any job may be that stop.
    const isStopping = unit.asked === 'stop' && lastOurs < 0;
    const isForeign = !isStopping && ended.slice(lastOurs + 1).some(({ result }) => result === 'done');
    const mayRunNow = isDry() || mayRun(unit);
    if (mayRunNow || !isRunning(facts)) findings.clear(keptStartingId(unit.unit));
    if (isRunning(facts)) {
      // A transient unit, made anew.
      if (away.isAway(unit.unit)) return drop(unit, 'something else started it');
      const isBetweenRuns = isAutoRestart(facts.subState);
      // Its stop waits for those of other units: that of a timer or a socket for its service.
      if (unit.asked === 'stop' && facts.hasJob && (isBetweenRuns || facts.activeState === 'active')) return;
      if (!mayRunNow) {
        // The same run: systemd may not have processed the job yet.
        if (!isAnother && unit.invocationId !== '') return;
        if (!conditions.mustNotRun(held, unit)) return;
        if (unit.isAlong !== true || unit.asked !== 'stop') {
          // Nothing else has processes to end, and the service that it may start is held itself.
          return unit.unit.endsWith('.service') ? stopAgain(unit, facts) : undefined;
        }
        return isBetweenRuns || facts.hasJob ? undefined : drop(unit, 'it runs, and is not known to have been stopped');
      }
      if (isAnother) {
        const puller = pulledInBy(held, facts, clock.monoMs());
        if (unit.asked === 'start') return cameBack(unit, '');
        if (puller !== null) return cameBack(unit, ` with ${puller}`);
        // Restart= may have started it, and the stop is still on its way.
        if (!isStopping) return drop(unit, 'something else started it');
      }
      if (unit.dueMs === null) return setDue(unit);
      if (clock.monoMs() < unit.dueMs) return;
      return drop(unit, isAnother ? 'something else started it' : 'it did not stop');
    }
    if (away.isForGood(unit.unit, facts)) return drop(unit, 'systemd has known no such unit for 10 minutes');
    if (isForeign) return drop(unit, 'something else has started or stopped it since', !isAnother);
    if (isReset(unit, facts))
      return unheard.has(unit.unit) ? drop(unit, STARTED_OR_RESET) : put({ ...unit, isFailed: false });
    if (unit.asked === 'stop') {
      if (facts.hasJob) return;
      forgetJobs([unit]);
      // Whichever run the stop ended: Restart= may have started that one after the first signal.
      const isFailed = facts.activeState === 'failed';
      return put({ ...unit, invocationId: facts.invocationId || unit.invocationId, asked: null, isFailed });
    }
    if (isAnother && unit.asked === 'start') return cameBack(unit, '');
    if (isAnother) return drop(unit, 'something else has started or stopped it since');
    const base = await bases.of(unit.unit);
    if (base === 'undecided' || isClosed || isHalted() || !held.units.includes(unit)) return;
    if (base !== null) return drop(unit, `something else has stopped ${base} since, and it stops with that`, true);
    if (isDry()) return;
    if (!mayRunNow) {
      if (unit.dueMs === null) return;
      findings.clear(restartId(unit.unit));
      return put({ ...unit, dueMs: null });
    }
    if (unit.after === 'stay') return drop(unit, 'its manifest keeps it stopped after an eviction', true);
    if (unit.dueMs === null) return setDue(unit);
    if (nowMs < unit.dueMs) return;
    const others = {
      wasStopped: comesBack(held),
      isKeptDown,
      isLeftDown: isLeftDownIn(held),
      ahead: aheadOf(held, unit),
    };
    const forbidden = await prepareStart(systemd, facts, others);
    if (mayNotAct(unit) || !mayRun(unit) || forbidden?.isSoon === true) return;
    if (forbidden === null) return startAgain(unit);
    if (forbidden.isMeant && needs.mayBeDeclared?.(unit.pod) === false)
      return drop(unit, `${forbidden.why}, and its manifest is gone`);
    startLater(unit, forbidden.why);
  }

  const setDue = (unit: HeldUnit): void => put({ ...unit, dueMs: clock.monoMs() + backOffMs(unit.level) });

  async function startAgain(unit: HeldUnit): Promise<void> {
    const asking = { ...unit, asked: 'start', isFailed: false } as const;
    put(asking);
    const started = await systemd.start(unit.unit);
    if (isAbandoned) return;
    if (started.known) return cameBack(asking, '');
    if (!held.units.includes(asking)) return;
    // Without an answer, it may still be started.
    startLater(started.why === 'unreadable' ? { ...asking, asked: null } : asking, started.detail);
  }

  function startLater(unit: HeldUnit, why: string): void {
    findings.raise(notRestarted(unit.unit, why));
    const level = unit.level + 1;
    put({ ...unit, level, dueMs: clock.monoMs() + backOffMs(level) });
  }

  function cameBack(unit: HeldUnit, how: string): void {
    findings.clear(restartId(unit.unit));
    const startedMs = clock.monoMs();
    // What an eviction holds since stays held.
    const units = held.units.filter((other) => other !== unit);
    const restarted = [
      ...held.restarted.filter((other) => other.unit !== unit.unit && startedMs - other.startedMs < HEALTHY_MS),
      { unit: unit.unit, level: unit.level, startedMs },
    ].slice(-MAX_REMEMBERED);
    keep({ ...held, restarted, units });
    log.info({ event: 'restarted', unit: unit.unit, pod: unit.pod, started: true }, `${unit.unit} was restarted${how}`);
    needs.note({ kind: 'restarted', atMs: startedMs, pod: unit.pod, unit: unit.unit });
  }

  async function stopAgain(unit: HeldUnit, facts: UnitFacts): Promise<void> {
    const atMs = clock.monoMs();
    const { before, times, now } = stopsOf(held, unit.unit, facts.invocationId, atMs);
    if (times >= MOST_STOPS) {
      findings.raise(leftRunning(unit.unit, unit.pod, SOMETHING_STARTS_IT));
      return drop(unit, 'it was stopped again 3 times within 10 minutes');
    }
    const mustStop = (name: string): boolean =>
      held.units.some((other) => other.unit === name && conditions.mustNotRun(held, other));
    const stop = await stopAgainOf(systemd, facts, mustStop);
    // Held again: that eviction stops it.
    if (mayNotAct(unit) || !stop.known) return;
    const { leftBecause, along } = stop.value;
    if (leftBecause !== null) {
      findings.raise(leftRunning(unit.unit, unit.pod, leftBecause));
      return drop(unit, leftBecause);
    }
    const asking = { ...unit, asked: 'stop' } as const;
    // The start itself was a job too.
    forgetJobs([unit]);
    // Counted before: without an answer it may be stopped all the same.
    held = { ...held, stoppedAgain: [...before, now].slice(-MAX_REMEMBERED) };
    put(asking);
    const stopped = await systemd.stop(unit.unit);
    if (isAbandoned) return;
    if (!stopped.known && stopped.why === 'unreadable') {
      findings.raise(notStoppedAgain(unit.unit, unit.pod, stopped.detail));
      return keep({ ...held, stoppedAgain: before });
    }
    // What goes along stops for the agent, too: it comes back like the unit itself.
    const asStopped = (other: HeldUnit): HeldUnit => (along.includes(other.unit) ? { ...other, asked: 'stop' } : other);
    keep({ ...held, units: held.units.map(asStopped) });
    if (!stopped.known) return;
    findings.clear(keptStartingId(unit.unit));
    if (held.units.includes(asking)) put({ ...asking, invocationId: facts.invocationId });
    log.info(
      { event: 'evict', unit: unit.unit, pod: unit.pod, again: times + 1 },
      `${unit.unit} was started while the condition that evicted it is still true: it is stopped again${along.length === 0 ? '' : `, and ${sayNames(along)} with it`}`,
    );
    needs.note({ kind: 'stopped-again', atMs, pod: unit.pod, unit: unit.unit });
  }

  const endJobs = systemd.whenJobEnds((job) => {
    if (isHeld(job.unit)) jobs = [...jobs, job].slice(-MAX_REMEMBERED);
  });
  const endStates = systemd.whenStateChanges((unit, facts) => {
    if (held.leftDown.includes(unit) && isRunning(facts)) keep({ ...held, leftDown: leftDownWithout(unit) });
  });
  return {
    hold: (manifest, unit, facts) => {
      const isUp = facts === null || facts === 'between-runs' || isRunning(facts);
      // Its stop cancels the start that somebody has asked for.
      if (!isUp && facts.isToStart !== true && needs.isToStart?.(unit) !== true) return () => undefined;
      const nowMs = clock.monoMs();
      const before = { ...held, conditions: conditions.now(held) };
      const { holding, startable, lost } = toHold(needs, before, nowMs, manifest, unit, facts);
      forgetJobs(holding);
      const released = withoutAgain(held, holding, nowMs);
      if (holding.length > 0) keep(withHeld(held, holding));
      for (const name of startable) findings.clear(keptStartingId(name));
      schedule(TICK_MS);
      const pod = podName(manifest.declared);
      if (lost !== null) log.info({ event: 'evict', unit, pod, started: false }, `${unit}: ${lost}`);
      return () => keep(released(held));
    },
    release: (name) => {
      const names = name.endsWith('.slice') ? (needs.unitsIn?.(name) ?? []) : [name];
      for (const unit of held.units)
        if (names.includes(unit.unit) && unit.asked === 'stop') drop(unit, 'it did not stop');
    },
    setCondition: (condition, status) => {
      conditions.confirm(condition);
      const others = held.conditions.filter((other) => other !== condition);
      keep({ ...held, conditions: status ? [...others, condition] : others });
      if (conditions.now(held).length === 0) {
        for (const { id } of findings.all()) if (id.startsWith(KEPT_STARTING)) findings.clear(id);
      }
      schedule(0);
    },
    looked: () => {
      if (hasLooked) return;
      hasLooked = true;
      schedule(TICK_MS);
    },
    setPaused: (next) => {
      if (next === isPaused) return;
      isPaused = next;
      if (isPaused) bases.shutsDown();
      schedule(0);
    },
    rewrite: () => {
      if (!wasTaken && held.units.length + held.conditions.length + held.restarted.length + held.leftDown.length > 0)
        keep(held);
    },
    isHeld,
    close: async () => {
      isClosed = true;
      cancelTimer();
      saver.close();
      endJobs();
      endStates();
      bases.close();
      await new Promise<void>((resolve) => {
        const cancel = clock.after(CLOSE_MS, resolve);
        void Promise.resolve(ticking).then(() => {
          cancel();
          resolve();
        });
      });
      isAbandoned = true;
    },
  };
}
