import { admits } from '../core/pod/admit.ts';
import { podName } from '../core/pod/pod.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import type { NodeCondition } from '../core/signal.ts';
import type { JobEnd, Systemd } from '../host/systemd.ts';
import type { UnitFacts } from '../host/unit-facts.ts';
import { currentRun } from '../host/unit-path.ts';
import type { Clock, Findings, Log, RecordNote } from '../ports.ts';
import {
  KEPT_STARTING,
  keptStartingId,
  leftRunning,
  notRestarted,
  restartId,
  stopsUnusable,
} from '../words/finding-standalone.ts';
import { sayNames } from '../words/phrases.ts';
import { type Held, type HeldUnit, loadHeld, type StoppedAgain, saveHeld } from './held-file.ts';
import type { ManifestPod } from './manifest.ts';
import { createStopsSaver, MAX_REMEMBERED } from './runtime-file.ts';
import { isNeededBy, isRunning, whoForbids } from './start-effects.ts';
import { stopsWith } from './tie-graph.ts';

export type RestartNeeds = {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly runtimeDirectory: string;
  readonly bootId: string;
  readonly log: Log;
  readonly findings: Findings;
  readonly note: (note: RecordNote) => void;
  /** Those that are true in the adopted state; later changes are reported. */
  readonly conditions?: readonly NodeCondition[];
  /** What systemd stops along with the unit of a pod; `manifest` null: not a pod. Absent: unknown. */
  readonly stopsAlong?: (manifest: ManifestPod, unit: string) => readonly Along[];
  /** What runs in a slice; absent: unknown. */
  readonly unitsIn?: (slice: string) => readonly string[];
  readonly currentRun?: (unit: string) => Reading<string>;
  /** A dry run was switched on: nothing is started or stopped again any more. Absent: never. */
  readonly isDryNow?: () => boolean;
};
type Along = { readonly unit: string; readonly manifest: ManifestPod | null };
export type Restart = {
  /**
   * Before the first signal of an eviction: from now on only the agent starts what is stopped. For a slice, that is what runs
   * in it; for a unit, also what systemd stops along with it. `facts` null: it runs, and systemd has not reported more about that run.
   */
  readonly hold: (manifest: ManifestPod, unit: string, facts: UnitFacts | null) => void;
  readonly setCondition: (condition: NodeCondition, status: boolean) => void;
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
/** product.md section 5. */
const FIRST_BACK_OFF_MS = 10_000;
const MAX_BACK_OFF_MS = 300_000;
const HEALTHY_MS = 600_000;
const STOPPED_AGAIN = { times: 3, withinMs: 600_000 } as const;
/** Conditions that an earlier run wrote down and that are missing from the state, because it was lost. */
const ADOPTED_MS = 600_000;

/** product.md section 5, "Coming back". Held units are in a file, so that they survive this process. */
export function createRestart(needs: RestartNeeds): Restart {
  const { clock, systemd, findings, log, runtimeDirectory, bootId } = needs;
  const loaded = loadHeld(runtimeDirectory, bootId, clock);
  if (loaded.complaint !== null) findings.raise(stopsUnusable('eviction', loaded.complaint));
  let held: Held = {
    ...loaded.held,
    conditions: [...new Set([...loaded.held.conditions, ...(needs.conditions ?? [])])],
  };
  const adoptedMs = clock.monoMs();
  const confirmed = new Set<NodeCondition>(needs.conditions);
  /** Those of held units, in order, until their unit is judged. */
  let jobs: readonly JobEnd[] = [];
  let ticking: Promise<void> | null = null;
  let isPaused = false;
  let isClosed = false;
  /** Another agent may own the file by now. */
  let isAbandoned = false;
  let cancelTimer: () => void = () => undefined;
  const saver = createStopsSaver(needs, 'eviction', () => saveHeld(runtimeDirectory, held));

  function keep(next: Held): void {
    held = next;
    jobs = jobs.filter((job) => next.units.some(({ unit }) => unit === job.unit));
    saver.save();
  }
  const put = (unit: HeldUnit): void =>
    keep({ ...held, units: [...held.units.filter((other) => other.unit !== unit.unit), unit].slice(-MAX_REMEMBERED) });
  const forgetJobs = (units: readonly HeldUnit[]): void => {
    jobs = jobs.filter((job) => !units.some(({ unit }) => unit === job.unit));
  };
  const drop = (unit: HeldUnit, why: string): void => {
    findings.clear(restartId(unit.unit));
    keep({ ...held, units: held.units.filter((other) => other.unit !== unit.unit) });
    log.info(
      { event: 'restarted', unit: unit.unit, pod: unit.pod, started: false },
      `${unit.unit} is no longer held: ${why}`,
    );
  };

  function conditions(): readonly NodeCondition[] {
    const isAdopting = clock.monoMs() - adoptedMs < ADOPTED_MS;
    return held.conditions.filter((condition) => isAdopting || confirmed.has(condition));
  }

  function mayRun(unit: HeldUnit): boolean {
    const now = conditions();
    return !unit.conditions.some((condition) => now.includes(condition)) && admits(unit, now).kind === 'admitted';
  }

  const isHalted = (): boolean => isPaused || needs.isDryNow?.() === true;

  function schedule(ms: number): void {
    cancelTimer();
    if (!isClosed && !isPaused && held.units.length > 0) cancelTimer = clock.after(ms, tick);
  }

  function tick(): void {
    if (ticking !== null || isHalted()) return;
    ticking = stepAll().then(() => {
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
    }
  }

  async function step(unit: HeldUnit, facts: UnitFacts, ended: readonly JobEnd[], nowMs: MonoMs): Promise<void> {
    /** It is unknown which run is being stopped. */
    const isUnnamed = unit.invocationId === '' && unit.asked === 'stop';
    const isAnotherRun = !isUnnamed && facts.invocationId !== '' && facts.invocationId !== unit.invocationId;
    const lastOurs = ended.findLastIndex((job) => job.isOurs());
    // What is answered late is not known as ours: until its stop is over, any job may be that stop.
    const isStopping = unit.asked === 'stop' && lastOurs < 0;
    const isForeign = !isStopping && ended.slice(lastOurs + 1).some(({ result }) => result === 'done');
    const mayRunNow = mayRun(unit);
    if (isRunning(facts)) {
      // The same run: systemd may not have processed the job yet.
      if (!mayRunNow) return isAnotherRun || isUnnamed ? stopAgain(unit, facts) : undefined;
      if (isAnotherRun) {
        const puller = pulledInBy(facts);
        if (unit.asked === 'start') return cameBack(unit, '');
        if (puller !== null) return cameBack(unit, ` with ${puller}`);
        // Restart= may have started it, and the stop is still on its way.
        if (!isStopping) return drop(unit, 'something else started it');
      }
      if (unit.dueMs === null) return setDue(unit);
      if (clock.monoMs() < unit.dueMs) return;
      return drop(unit, isAnotherRun ? 'something else started it' : 'it did not stop');
    }
    if (facts.loadState !== 'loaded') return drop(unit, `its unit is ${facts.loadState}`);
    if (isForeign) return drop(unit, 'something else has started or stopped it since');
    if (unit.asked === 'stop') {
      if (facts.hasJob) return;
      forgetJobs([unit]);
      // Whichever run the stop ended: Restart= may have started that one after the first signal.
      return put({ ...unit, invocationId: facts.invocationId || unit.invocationId, asked: null });
    }
    if (isAnotherRun && unit.asked === 'start') return cameBack(unit, '');
    if (isAnotherRun) return drop(unit, 'something else has started or stopped it since');
    if (!mayRunNow) {
      if (unit.dueMs === null) return;
      findings.clear(restartId(unit.unit));
      return put({ ...unit, dueMs: null });
    }
    if (unit.after === 'stay') return drop(unit, 'its manifest keeps it stopped after an eviction');
    if (unit.dueMs === null) return setDue(unit);
    if (nowMs < unit.dueMs) return;
    const forbidden = await whoForbids(systemd, facts);
    if (isClosed || isHalted()) return;
    if (forbidden?.isKnown === false) return startLater(unit, forbidden.why);
    if (forbidden !== null) return drop(unit, forbidden.why);
    await startAgain(unit);
  }

  const setDue = (unit: HeldUnit): void => put({ ...unit, dueMs: clock.monoMs() + backOffMs(unit.level) });

  async function startAgain(unit: HeldUnit): Promise<void> {
    const asking = { ...unit, asked: 'start' } as const;
    put(asking);
    const started = await systemd.start(unit.unit);
    if (isAbandoned) return;
    if (started.known) return cameBack(unit, '');
    // Without an answer, it may still be started.
    startLater(started.why === 'unreadable' ? unit : asking, started.detail);
  }

  function startLater(unit: HeldUnit, why: string): void {
    findings.raise(notRestarted(unit.unit, why));
    const level = unit.level + 1;
    put({ ...unit, level, dueMs: clock.monoMs() + backOffMs(level) });
  }

  function cameBack(unit: HeldUnit, how: string): void {
    findings.clear(restartId(unit.unit));
    const startedMs = clock.monoMs();
    const restarted = [
      ...held.restarted.filter((other) => other.unit !== unit.unit && startedMs - other.startedMs < HEALTHY_MS),
      { unit: unit.unit, level: unit.level, startedMs },
    ].slice(-MAX_REMEMBERED);
    keep({ ...held, restarted, units: held.units.filter((other) => other.unit !== unit.unit) });
    log.info({ event: 'restarted', unit: unit.unit, pod: unit.pod, started: true }, `${unit.unit} was restarted${how}`);
    needs.note({ kind: 'restarted', atMs: startedMs, pod: unit.pod, unit: unit.unit });
  }

  /** A unit that we started recently and that requires it: systemd starts both together. */
  function pulledInBy(facts: UnitFacts): string | null {
    const sinceMs = clock.monoMs() - PULLED_MS;
    return (
      held.restarted.find(({ unit, startedMs }) => startedMs >= sinceMs && isNeededBy(facts, [unit]))?.unit ?? null
    );
  }

  async function stopAgain(unit: HeldUnit, facts: UnitFacts): Promise<void> {
    const atMs = clock.monoMs();
    const recent = held.stoppedAgain.filter((past) => atMs - past.atMs < STOPPED_AGAIN.withinMs);
    const isThisRun = (past: StoppedAgain): boolean => past.unit === unit.unit && past.run === facts.invocationId;
    const before = recent.filter((past) => !isThisRun(past));
    const times = before.filter((past) => past.unit === unit.unit).length;
    if (times >= STOPPED_AGAIN.times) {
      findings.raise(leftRunning(unit.unit, unit.pod, null));
      return drop(unit, 'it was stopped again 3 times within 10 minutes');
    }
    const needer = await whoNeeds(facts);
    if (isClosed || isHalted()) return;
    if (needer !== null) {
      findings.raise(leftRunning(unit.unit, unit.pod, needer));
      return drop(unit, `${needer} needs it`);
    }
    const asking = { ...unit, asked: 'stop' } as const;
    // The start itself was a job too.
    forgetJobs([unit]);
    // Counted before: without an answer it may be stopped all the same. Each run counts once.
    const asked = recent.find(isThisRun) ?? { unit: unit.unit, atMs, run: facts.invocationId };
    held = { ...held, stoppedAgain: [...before, asked].slice(-MAX_REMEMBERED) };
    put(asking);
    const stopped = await systemd.stop(unit.unit);
    if (isAbandoned) return;
    if (!stopped.known) {
      if (stopped.why === 'unreadable') keep({ ...held, stoppedAgain: before });
      return;
    }
    put({ ...asking, invocationId: facts.invocationId });
    log.info(
      { event: 'evict', unit: unit.unit, pod: unit.pod, again: times + 1 },
      `${unit.unit} was started while the condition that evicted it is still true: it is stopped again`,
    );
    needs.note({ kind: 'stopped-again', atMs, pod: unit.pod, unit: unit.unit });
  }

  /** A unit that would be stopped along with it and that no eviction stopped; null: none is running or starting. */
  async function whoNeeds(facts: UnitFacts): Promise<string | null> {
    for (const name of stopsWith(facts)) {
      if (held.units.some(({ unit }) => unit === name)) continue;
      const other = await systemd.unit(name);
      if (other.known && (isRunning(other.value) || other.value.hasJob)) return name;
    }
    return null;
  }

  function levelOf(unit: string): number {
    const before = held.restarted.find((other) => other.unit === unit);
    return before !== undefined && clock.monoMs() - before.startedMs < HEALTHY_MS ? before.level + 1 : 0;
  }

  /** Those that run: one that nothing else starts would otherwise stay down for good. */
  function alongWith(manifest: ManifestPod, unit: string): readonly HeldUnit[] {
    const along = needs.stopsAlong?.(manifest, unit) ?? [];
    return along
      .filter((other) => other.unit.endsWith('.service') && (needs.currentRun ?? currentRun)(other.unit).known)
      .map((other) => heldNow(other.manifest ?? manifest, other.unit, null));
  }

  function heldNow(manifest: ManifestPod, unit: string, facts: UnitFacts | null): HeldUnit {
    const run = (needs.currentRun ?? currentRun)(unit);
    const invocationId = run.known ? run.value : facts?.invocationId;
    const wasHeld = held.units.find((other) => other.unit === unit);
    // A resumed eviction: what was written before the crash says how it was.
    if (wasHeld !== undefined) return { ...wasHeld, invocationId: invocationId ?? wasHeld.invocationId, asked: 'stop' };
    const { qos, tolerations, isStaticCritical } = manifest.declared;
    return {
      unit,
      pod: podName(manifest.declared),
      qos,
      tolerations,
      isStaticCritical,
      after: manifest.afterEviction,
      conditions: conditions(),
      invocationId: invocationId ?? '',
      asked: 'stop',
      level: levelOf(unit),
      dueMs: null,
    };
  }

  const endJobs = systemd.whenJobEnds((job) => {
    if (held.units.some(({ unit }) => unit === job.unit)) jobs = [...jobs, job].slice(-MAX_REMEMBERED);
  });
  schedule(0);
  return {
    hold: (manifest, unit, facts) => {
      if (facts !== null && !isRunning(facts)) return;
      const isSlice = unit.endsWith('.slice');
      const units = isSlice ? (needs.unitsIn?.(unit) ?? []) : [unit];
      const services = units.filter((name) => name.endsWith('.service'));
      const own = services.map((name) => heldNow(manifest, name, isSlice ? null : facts));
      const holding = isSlice ? own : [...own, ...alongWith(manifest, unit)];
      forgetJobs(holding);
      const others = held.units.filter((other) => !holding.some((now) => now.unit === other.unit));
      if (holding.length > 0) keep({ ...held, units: [...others, ...holding].slice(-MAX_REMEMBERED) });
      for (const name of services) findings.clear(keptStartingId(name));
      schedule(TICK_MS);
      if (services.length === units.length && units.length > 0) return;
      const pod = podName(manifest.declared);
      log.info({ event: 'evict', unit, pod, started: false }, `${unit}: ${sayLost(units, services)}`);
    },
    setCondition: (condition, status) => {
      confirmed.add(condition);
      const others = held.conditions.filter((other) => other !== condition);
      keep({ ...held, conditions: status ? [...others, condition] : others });
      if (conditions().length === 0) {
        for (const { id } of findings.all()) if (id.startsWith(KEPT_STARTING)) findings.clear(id);
      }
      schedule(0);
    },
    setPaused: (next) => {
      if (next === isPaused) return;
      isPaused = next;
      schedule(0);
    },
    rewrite: () => {
      if (held.units.length + held.conditions.length + held.restarted.length > 0) keep(held);
    },
    isHeld: (unit) => held.units.some((other) => other.unit === unit),
    close: async () => {
      isClosed = true;
      cancelTimer();
      saver.close();
      endJobs();
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

const PULLED_MS = 60_000;

/** A scope, and anything else in a slice that is not a service, belongs to its creator. */
function sayLost(units: readonly string[], services: readonly string[]): string {
  const scopes = units.filter((unit) => !services.includes(unit));
  if (scopes.length === 0) return 'no unit runs in it, so nothing can be restarted';
  return `only what created ${sayNames(scopes, 5)} can restart it`;
}

/** Doubling from 10 s to 5 min. */
function backOffMs(level: number): number {
  return Math.min(MAX_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** Math.min(level, 10));
}
