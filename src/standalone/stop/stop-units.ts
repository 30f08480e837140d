import type { Asked } from '../../act/kill-order.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import { type Reading, unknown } from '../../core/reading.ts';
import { shareMs, type Turn, tellByMs } from '../../core/shutdown/chain.ts';
import { sleep, within } from '../../host/clock.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { isAutoRestart } from '../../host/systemd/unit-facts.ts';
import type { Clock, Findings } from '../../ports.ts';
import { stopUnitId, unitNotStopped } from '../../words/finding-standalone.ts';
import { isStartable } from '../ties/start-effects.ts';
import type { ShutdownGrace } from './shutdown-grace.ts';
import type { StoppedPod } from './stops-file.ts';
import { ALONG, type StopsMemory } from './stops-memory.ts';

type TellNeeds = {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly findings: Findings;
  readonly memory: StopsMemory;
  /** Whether the pod has processes now, or is idle. */
  readonly isAlive: (uid: PodUid) => boolean;
  /** Its unit is active without processes. */
  readonly isIdle: (uid: PodUid) => boolean;
  /** Running units that no shutdown stops as a pod and that are stopped along with this one, or run in it if it is a slice. */
  readonly others: (unit: string) => readonly string[];
  /** A pod that is asked to stop waits for it to finish, as systemd's jobs do. */
  readonly isAwaited: (uid: PodUid) => boolean;
};
/** A pod that systemd is asked to stop, with what was last known of it. */
type UnitPod = StoppedPod & { readonly unit: string };
/** Its turn in the shutdown that stops it, which the next one may take over. Cancelled, it is not asked any more. */
type InTurn = Pick<ShutdownGrace, 'turn' | 'isCancelled'>;
type Telling = { readonly pod: UnitPod; readonly stop: InTurn; readonly answer: (asked: Asked) => void };
/** Resolves when it has been asked to stop, in its turn. `not-told`: signal its processes now. */
export type StopInTurn = (pod: UnitPod, stop: InTurn) => Promise<Asked>;

/** systemd answers within milliseconds; otherwise its last answer is used. */
const FACTS_MS = 1_000;
/** It has already been asked to stop. */
const IS_STOPPING = 'deactivating';
/** Its stop has not begun: the job waits for those that are to be stopped before it. */
const NOT_TOLD: readonly string[] = ['active', 'reloading', 'activating', 'refreshing'];
const DOWN: readonly string[] = ['inactive', 'failed'];
const FIRST_POLL_MS = 10;
const MAX_POLL_MS = 100;
/** Units that wait for each other in a circle would otherwise wait forever. */
const AWAITED_MS = 1_000;
const LEAST_ASK_MS = 500;
/** Two hundred take half of it. */
const MAX_QUEUE_MS = 500;

/**
 * Stops the units of a group, which are those passed in one turn of the event loop. Queries and remembers their state, then
 * queues all stops at once; a unit for which others wait is queued before them.
 */
export function createUnitStops(needs: TellNeeds): StopInTurn {
  const { clock } = needs;
  let group: readonly Telling[] = [];
  let last: Promise<void> = Promise.resolve();
  return (pod, stop) =>
    new Promise((answer) => {
      group = [...group, { pod, stop, answer }];
      if (group.length > 1) return;
      clock.after(0, () => {
        const whole = group;
        group = [];
        last = last.then(() => tellAll(needs, whole));
      });
    });
}

async function tellAll(needs: TellNeeds, group: readonly Telling[]): Promise<void> {
  const { systemd, memory } = needs;
  const [state, ...states] = await Promise.all([
    inTime(needs, systemd.systemState()),
    ...group.map(({ pod }) => inTime(needs, systemd.activeState(pod.unit))),
  ]);
  // systemd's jobs for the pods then wait for ours (second tier): StopUnit would wait with them until the grace is over.
  const isLate = state.known && state.value === 'stopping';
  const found = group.map(({ pod, stop, answer }, i) => {
    const state = states[i];
    const now = state?.known ? { ...pod, activeState: state.value } : pod;
    const isDown = DOWN.includes(now.activeState);
    // Leftover processes of a unit that is down: systemd would not signal them.
    const by = now.activeState === IS_STOPPING ? 'others' : isDown ? 'signals' : 'systemd';
    return { pod: asFirstNoted(memory, now), by, stop, answer } as const;
  });
  const along = await Promise.all(
    found.map(({ pod, by }) =>
      Promise.all((by === 'systemd' ? needs.others(pod.unit) : []).map((unit) => alongside(needs, pod, unit))),
    ),
  );
  // Cancelled during these queries, which may take seconds.
  for (const { stop, answer } of found) if (stop.isCancelled()) answer('spared');
  const told = found.map((one, i) => ({ ...one, along: along[i] ?? [] })).filter(({ stop }) => !stop.isCancelled());
  memory.note([
    ...told.flatMap((one) => one.along.filter((unit) => unit !== null)),
    ...told.map(({ pod, by }) => ({ ...pod, stage: by === 'systemd' ? ('noted' as const) : ('told' as const) })),
  ]);
  for (const { by, answer } of told) if (by !== 'systemd') answer(by === 'others' ? 'told' : 'not-told');
  const asked = told.filter(({ by }) => by === 'systemd');
  // The next group does not wait for these.
  if (isLate) for (const { pod, stop, answer } of asked) void signalInTurn(needs, pod, stop).then(answer);
  else void stopTogether(needs, asked);
}

/** Why systemd cannot start it again; null: it can. */
export const whyNotUnit = (unit: string): string | null =>
  unit.endsWith('.scope') ? `systemd cannot restart the scope ${unit}: only what created it can` : null;

/**
 * A unit that is no pod of the shutdown, and that systemd stops with it, or inside it if it is a slice; null: it
 * neither runs nor would be started again.
 */
async function alongside(needs: TellNeeds, pod: UnitPod, unit: string): Promise<StoppedPod | null> {
  if (!isStartable(unit) && !unit.endsWith('.scope')) return null;
  const facts = await inTime(needs, needs.systemd.unit(unit));
  if (!facts.known) return null;
  const { invocationId, activeState, subState } = facts.value;
  if (activeState !== 'active' && !isAutoRestart(subState)) return null;
  const own = {
    decision: `${pod.decision}${ALONG}${unit}`,
    uid: `unit/${unit}`,
    pod: unit,
    unit,
    cannot: whyNotUnit(unit),
  };
  return { ...pod, ...own, invocationId, activeState, stage: 'told' };
}

/**
 * Queues all jobs at once, because systemd knows their order. But it may begin with one before it has read the next, and a
 * stop waits only for stops that are queued, so the unit that stops first is queued first.
 */
async function stopTogether(needs: TellNeeds, unordered: readonly Telling[]): Promise<void> {
  const { clock, memory, systemd } = needs;
  // Among equals, a unit that systemd stops along with others comes first: the next one may wait for one of these.
  const isAlone = ({ pod }: Telling): number => Number(needs.others(pod.unit).length === 0);
  const group = unordered.toSorted(
    (a, b) => a.stop.turn().beforeMs - b.stop.turn().beforeMs || isAlone(a) - isAlone(b),
  );
  // A late answer is still a job, and its pod would be signalled twice: wait for half of its time.
  const patienceMs = (turn: Turn): number => Math.max(LEAST_ASK_MS, shareMs(turn, clock.monoMs()) / 2);
  const stops = group.map(({ pod, stop }) => stopUnit(needs, pod.unit, patienceMs(stop.turn())));
  // systemd begins once it has nothing else to answer: query no queued unit before all are queued.
  const isQueued = within<unknown>(clock, MAX_QUEUE_MS, Promise.all(stops), () => null);
  const tellings = group.map(async ({ pod, stop, answer }, i) => {
    const hasJob = (await stops[i])?.known === true;
    if (!hasJob && (await itsTurn(needs, stop))) return answer('not-told');
    await isQueued;
    const asked = await untilTold(needs, { ...pod, hasJob }, stop);
    answer(asked);
    if (asked !== 'told') return;
    // It may have been restarted since its run was read; there was no time to query each run before the stops.
    const run = await systemd.invocationId(pod.unit);
    if (run.known) memory.ran(pod.decision, run.value);
  });
  await Promise.all(stops);
  memory.told(group.map(({ pod }) => pod.decision));
  await Promise.all(tellings);
}

/** Keeps systemd's order without its jobs. */
async function signalInTurn(needs: TellNeeds, { uid, unit, decision }: UnitPod, stop: InTurn): Promise<Asked> {
  const { memory, isIdle, systemd } = needs;
  if (!(await itsTurn(needs, stop))) return 'spared';
  // No signal runs its ExecStop=.
  if (isIdle(uid)) return 'not-told';
  memory.signalled(decision);
  return (await systemd.signalStop(unit)).known ? 'told' : 'not-told';
}

/** Waits until no pod is left that it waits for, or its latest time. False: the shutdown was cancelled meanwhile. */
async function itsTurn({ clock, isAlive }: TellNeeds, { turn, isCancelled }: InTurn): Promise<boolean> {
  while (!isCancelled() && turn().after.some(isAlive) && clock.monoMs() < tellByMs(turn()))
    await sleep(clock, FIRST_POLL_MS);
  return !isCancelled();
}

const hasBegun = (state: Reading<string>): boolean => state.known && !NOT_TOLD.includes(state.value);

type JobNeeds = Pick<TellNeeds, 'clock' | 'systemd' | 'isAlive' | 'isAwaited'>;

/**
 * Waits until its job runs, and lets it run at its latest time. `not-told`: systemd does not do that. After a cancel, its job is
 * taken back; while systemd does not answer, it may still come, and nothing is signalled. `hasJob`: it is certain to have one.
 */
export async function untilTold(
  needs: JobNeeds,
  { uid, unit, hasJob }: { readonly uid: PodUid; readonly unit: string; readonly hasJob: boolean },
  stop: InTurn,
): Promise<Asked> {
  // A slice has no process to signal, and stays active until everything in it has ended.
  if (unit.endsWith('.slice') && hasJob) return 'told';
  const { clock, systemd, isAlive, isAwaited } = needs;
  let byMs = tellByMs(stop.turn());
  let cancelledMs = Number.POSITIVE_INFINITY;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_POLL_MS)) {
    cancelledMs = stop.isCancelled() ? Math.min(cancelledMs, clock.monoMs()) : Number.POSITIVE_INFINITY;
    // Those behind it come first: without its job nothing would hold back theirs.
    const isHeldBack = isAwaited(uid) && clock.monoMs() < cancelledMs + AWAITED_MS;
    const isTaken = stop.isCancelled() && !isHeldBack && (await isTakenBack(needs, unit));
    const turn = stop.turn();
    const askedMs = clock.monoMs();
    const mostMs = Math.max(LEAST_ASK_MS, Math.min(FACTS_MS, byMs - askedMs));
    const state = await inTime(needs, systemd.activeState(unit), mostMs);
    if (hasBegun(state)) return 'told';
    if (isTaken && state.known) return 'spared';
    // It would be its turn, but systemd does not answer: half of its time, as for the stop itself.
    const isHung = !state.known && !turn.after.some(isAlive);
    byMs = isHung ? Math.min(byMs, askedMs + shareMs(turn, askedMs) / 2) : tellByMs(turn);
    const leftMs = stop.isCancelled() ? MAX_POLL_MS : byMs - clock.monoMs();
    if (leftMs <= 0) {
      const asked = state.known ? await outOfTurn(needs, unit, turn) : 'not-told';
      if (asked === 'told' || !stop.isCancelled()) return asked;
    }
    await sleep(clock, Math.max(0, Math.min(pauseMs, leftMs)));
  }
}

/** False also if systemd does not answer. */
async function isTakenBack({ systemd }: Pick<TellNeeds, 'systemd'>, unit: string): Promise<boolean> {
  if (!unit.endsWith('.slice')) return (await systemd.cancelStop(unit)).known;
  // With its job, those of the units in it were queued, and they run before it.
  const facts = await systemd.unit(unit);
  return facts.known && !facts.value.hasJob;
}

/** Stopped by systemd although it still waits for others. What is answered too late is a stop all the same, and signals twice. */
async function outOfTurn(
  { clock, systemd }: Pick<TellNeeds, 'clock' | 'systemd'>,
  unit: string,
  turn: Turn,
): Promise<Asked> {
  const beganMs = clock.monoMs();
  const byMs = beganMs + Math.max(LEAST_ASK_MS, (turn.endsMs - beganMs) / 2);
  if (!(await systemd.stopNow(unit, byMs - beganMs)).known) return 'not-told';
  while (clock.monoMs() < byMs) {
    const state = await inTime({ clock }, systemd.activeState(unit), byMs - clock.monoMs());
    if (hasBegun(state)) return 'told';
    await sleep(clock, FIRST_POLL_MS);
  }
  return 'not-told';
}

/** If this run of the unit was asked to stop before, even by an earlier run of the agent: its state before that. */
function asFirstNoted(memory: StopsMemory, pod: UnitPod): UnitPod {
  const isSameRun = ({ uid, invocationId }: StoppedPod): boolean =>
    uid === pod.uid && invocationId !== '' && invocationId === pod.invocationId;
  const before = memory.all().find((other) => other.decision === pod.decision || isSameRun(other));
  if (before === undefined) return pod;
  const { invocationId, activeState } = before;
  return { ...pod, invocationId, activeState };
}

const inTime = <T>(
  { clock }: Pick<TellNeeds, 'clock'>,
  asked: Promise<Reading<T>>,
  mostMs = FACTS_MS,
): Promise<Reading<T>> =>
  within(clock, mostMs, asked, () => unknown('timed-out', 'systemd', `no answer within ${Math.round(mostMs)} ms`));

/** Whether its stop has begun and is not over. False if systemd does not confirm it in time. */
export async function isStopping(needs: Pick<TellNeeds, 'clock' | 'systemd'>, unit: string): Promise<boolean> {
  const state = await inTime(needs, needs.systemd.activeState(unit));
  return state.known && state.value === IS_STOPPING;
}

/** False if systemd does not confirm it. */
export async function isUnitDown(systemd: Pick<Systemd, 'activeState'>, unit: string): Promise<boolean> {
  const state = await systemd.activeState(unit);
  return state.known && DOWN.includes(state.value);
}

/** For its eviction: `told` when the job is queued. */
export const askUnit = async (needs: Pick<TellNeeds, 'systemd' | 'findings'>, unit: string): Promise<Asked> =>
  (await stopUnit(needs, unit)).known ? 'told' : 'not-told';

/** Resolves when the job is queued. A unit that systemd cannot be asked to stop is a finding. */
export async function stopUnit(
  { systemd, findings }: Pick<TellNeeds, 'systemd' | 'findings'>,
  unit: string,
  deadlineMs?: number,
): Promise<Reading<true>> {
  const stopped = await systemd.stop(unit, deadlineMs);
  if (stopped.known) findings.clear(stopUnitId(unit));
  else {
    // Without a job, Restart= answers the signals that follow: StartLimitAction= could take the machine down for them.
    void systemd.resetStarts(unit);
    void tellUntilDown({ systemd, findings }, unit, stopped.detail);
  }
  return stopped;
}

/**
 * It may have ended just before, somebody else may stop it, or systemd may only have answered late: the unit itself shows this.
 * Restart= may bring it back before anybody sees it down.
 */
async function tellUntilDown(
  { systemd, findings }: Pick<TellNeeds, 'systemd' | 'findings'>,
  unit: string,
  why: string,
): Promise<void> {
  const before = await systemd.invocationId(unit);
  const clearIfDown = async (): Promise<boolean> => {
    const [state, run] = await Promise.all([systemd.activeState(unit), systemd.invocationId(unit)]);
    const isDown = state.known && [IS_STOPPING, ...DOWN].includes(state.value);
    const isAnotherRun = before.known && run.known && before.value !== '' && run.value !== before.value;
    if (!isDown && !isAnotherRun) return false;
    for (const forget of forgets) forget();
    findings.clear(stopUnitId(unit));
    return true;
  };
  const forgets = [
    systemd.whenUp(() => void clearIfDown()),
    systemd.whenStateChanges((name) => {
      if (name === unit) void clearIfDown();
    }),
  ];
  if (!(await clearIfDown())) findings.raise(unitNotStopped(unit, why));
}
