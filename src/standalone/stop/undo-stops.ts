import type { DecisionId } from '../../core/decision.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import type { MonoMs, Reading } from '../../core/reading.ts';
import { sleep } from '../../host/clock.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { UnitFacts } from '../../host/systemd/unit-facts.ts';
import type { UndoneStops } from '../../mode.ts';
import type { Clock } from '../../ports.ts';
import type { Restart } from '../restart/restart.ts';
import { isAnswer } from '../ties/awaited-answer.ts';
import { isNeededBy, isRunning, prepareStart } from '../ties/start-effects.ts';
import type { StoppedPod } from './stops-file.ts';
import type { StopsMemory } from './stops-memory.ts';

/** `started`: names of units; `notUndone`: sentences. */
type UndoNeeds = {
  readonly clock: Clock;
  readonly systemd: Pick<Systemd, 'unit' | 'ties' | 'resetStarts' | 'start' | 'ownName'>;
  readonly memory: StopsMemory;
  readonly restart: Pick<Restart, 'isHeld'>;
  readonly isAlive: (uid: PodUid) => boolean;
  /** Its stop is in progress: its grace period may have grown since it was noted. */
  readonly isUnderWay: (pod: StoppedPod) => boolean;
  /** The stop of any pod: it may be noted later, or have been asked for after all. */
  readonly isAnyUnderWay: () => boolean;
  /** The machine goes down after all, or the agent ends: the remaining stops stay remembered. */
  readonly isOver: () => boolean;
  /** Nothing is left but what cannot be started for now, which goes on: how far it is, these among `notUndone`. */
  readonly soFar: (undone: UndoneStops) => void;
};
/**
 * `nothing`: it runs, or the agent must not start it. `came`: it runs again because the agent started it, or another one that
 * needs it. `cannot` is final. `later`: not for now, although its time is over.
 */
type Fate =
  | { readonly kind: 'wait' | 'nothing' | 'came' | 'start' }
  | { readonly kind: 'cannot' | 'later'; readonly why: string };

const POLL_MS = 250;
/** As often as a unit that an eviction holds. */
const LATER_POLL_MS = 1_000;
/** The longest that a proven kill takes after its grace period (product.md section 7). */
const AFTER_GRACE_MS = 10_000;

/**
 * Restarts what a cancelled shutdown stopped, each unit as soon as its stop has ended: a stop in progress completes first.
 * Never starts a unit that the shutdown did not stop, that something else started since, or that an eviction holds. One that
 * cannot be started for now, as while systemd does not answer, is tried again without end.
 */
export async function undoStops(needs: UndoNeeds): Promise<UndoneStops> {
  const { clock, memory } = needs;
  const beganMs = clock.monoMs();
  const started: string[] = [];
  const notUndone: string[] = [];
  const underWayMs = new Map<DecisionId, MonoMs>();
  const asked = new Set<DecisionId>();
  let isSaid = false;
  for (;;) {
    const later: string[] = [];
    for (const pod of memory.all()) {
      const { decision, unit } = pod;
      if (needs.isUnderWay(pod)) underWayMs.set(decision, clock.monoMs());
      const fromMs = Math.max(underWayMs.get(decision) ?? beganMs, pod.graceEndsMs);
      const isLate = clock.monoMs() >= fromMs + AFTER_GRACE_MS;
      const fate = await fateOf(needs, pod, { isLate, started, isAsked: asked.has(decision) });
      if (needs.isOver()) return isSaid ? { started: [], notUndone: [] } : { started, notUndone };
      if (fate.kind === 'start') asked.add(decision);
      const end = fate.kind === 'start' && unit !== null ? await start(needs, unit, isLate) : fate;
      if (end.kind === 'later') later.push(`${pod.pod}: ${end.why}; retrying`);
      if (end.kind === 'later' || end.kind === 'wait') continue;
      if (end.kind === 'cannot') notUndone.push(`${pod.pod}: ${end.why}`);
      if (end.kind === 'came' && unit !== null) started.push(unit);
      memory.forget([decision]);
    }
    const left = memory.all().length;
    if (!needs.isAnyUnderWay()) {
      if (left === 0) return { started, notUndone };
      if (!isSaid && later.length === left) {
        isSaid = true;
        needs.soFar({ started: [...started], notUndone: [...notUndone, ...later] });
      }
    }
    await sleep(clock, isSaid ? LATER_POLL_MS : POLL_MS);
  }
}

/** Without an answer, it may still be started. */
async function start({ systemd }: UndoNeeds, unit: string, isLate: boolean): Promise<Fate> {
  const answer = await systemd.start(unit);
  if (answer.known) return { kind: 'came' };
  const why = `${unit} could not be started: ${answer.detail}`;
  return isAnswer(answer) ? { kind: 'cannot', why } : notYet(isLate, why);
}

async function fateOf(
  { systemd, memory, restart, isAlive }: UndoNeeds,
  pod: StoppedPod,
  {
    isLate,
    started,
    isAsked,
  }: { readonly isLate: boolean; readonly started: readonly string[]; readonly isAsked: boolean },
): Promise<Fate> {
  const { unit, uid } = pod;
  const isEnded = pod.stage === 'ended' || isLate;
  if (unit === null) {
    if (!isEnded) return WAIT;
    return isAlive(uid) ? NOTHING : { kind: 'cannot', why: pod.cannot ?? '' };
  }
  const facts = await systemd.unit(unit);
  // What is known may change during every query.
  const mayStart = (): boolean => !restart.isHeld(unit) && !memory.isTouched(pod);
  const isBack = facts.known && isRunning(facts.value) && isAnotherRun(pod, facts.value);
  if (isBack && (isAsked || isNeededBy(facts.value, started))) return { kind: 'came' };
  if (!mayStart()) return NOTHING;
  // Stopped along with a pod, the agent ends only after the undo, and systemd starts it then.
  const isOwn = facts.known && facts.value.activeState === STOPPING && (await isOwnUnit(systemd, unit));
  const fate = fateOfUnit(pod, facts, { isEnded, isLate, isOwn });
  const left = memory.all().flatMap((other) => other.unit ?? []);
  const isToStart = fate.kind === 'start' && facts.known;
  const wasStopped = (name: string): boolean => started.includes(name) || left.includes(name);
  const forbidden = isToStart
    ? await prepareStart(systemd, facts.value, { wasStopped, ahead: isLate ? [] : left })
    : null;
  if (!mayStart()) return NOTHING;
  if (forbidden === null) return fate;
  if (forbidden.isSoon === true) return WAIT;
  return forbidden.isMeant ? { kind: 'cannot', why: forbidden.why } : notYet(isLate, forbidden.why);
}

function fateOfUnit(
  pod: StoppedPod,
  facts: Reading<UnitFacts>,
  { isEnded, isLate, isOwn }: { readonly isEnded: boolean; readonly isLate: boolean; readonly isOwn: boolean },
): Fate {
  const { unit, cannot, activeState } = pod;
  // It was down, or something else was stopping it.
  if (activeState !== '' && !isRunning(pod)) return NOTHING;
  if (!facts.known) return notYet(isLate, `systemd does not report the state of ${unit}: ${facts.detail}`);
  const now = facts.value;
  if (isAnotherRun(pod, now)) return NOTHING;
  // If it were started beside its remains, the kill at the end of the grace period would hit the new run.
  if (!isEnded) return WAIT;
  // Stopped along with a pod, it may wait for others to stop first.
  const isToStop = now.activeState === 'active' && now.hasJob;
  if (isToStop || (now.activeState === STOPPING && !isOwn)) return notYet(isLate, `${unit} has not stopped yet`);
  if (isRunning(now)) return NOTHING;
  if (cannot !== null) return { kind: 'cannot', why: cannot };
  if (activeState === '') return { kind: 'cannot', why: `systemd had not reported whether ${unit} ran` };
  return { kind: 'start' };
}

async function isOwnUnit(systemd: Pick<Systemd, 'ownName'>, unit: string): Promise<boolean> {
  const own = await systemd.ownName();
  return own.known && own.value === unit;
}

const STOPPING = 'deactivating';
const WAIT: Fate = { kind: 'wait' };
const NOTHING: Fate = { kind: 'nothing' };
const notYet = (isLate: boolean, why: string): Fate => (isLate ? { kind: 'later', why } : WAIT);

function isAnotherRun(pod: StoppedPod, now: UnitFacts): boolean {
  return pod.invocationId !== '' && now.invocationId !== '' && now.invocationId !== pod.invocationId;
}
