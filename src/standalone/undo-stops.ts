import type { DecisionId } from '../core/decision.ts';
import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import { sleep } from '../host/clock.ts';
import type { Systemd } from '../host/systemd.ts';
import type { UnitFacts } from '../host/unit-facts.ts';
import type { UndoneStops } from '../mode.ts';
import type { Clock } from '../ports.ts';
import type { Restart } from './restart.ts';
import { isNeededBy, isRunning, whoForbids } from './start-effects.ts';
import type { StoppedPod } from './stops-file.ts';
import type { StopsMemory } from './stops-memory.ts';

/** `started`: names of units; `notUndone`: sentences. */
type UndoNeeds = {
  readonly clock: Clock;
  readonly systemd: Pick<Systemd, 'unit' | 'ties' | 'start'>;
  readonly memory: StopsMemory;
  readonly restart: Pick<Restart, 'isHeld'>;
  readonly isAlive: (uid: PodUid) => boolean;
  /** Its stop is in progress: its grace period may have grown since it was noted. */
  readonly isUnderWay: (pod: StoppedPod) => boolean;
  /** The stop of any pod: it may be noted later, or have been asked for after all. */
  readonly isAnyUnderWay: () => boolean;
  /** The machine goes down after all, or the agent ends: the remaining stops stay remembered. */
  readonly isOver: () => boolean;
};
/** `nothing`: it runs, or the agent must not start it. `came-along`: systemd has started it for one that the agent started. */
type Fate =
  | { readonly kind: 'wait' | 'nothing' | 'came-along' | 'start' }
  | { readonly kind: 'cannot'; readonly why: string };

const POLL_MS = 250;
/** The longest that a proven kill takes after its grace period (product.md section 7). */
const AFTER_GRACE_MS = 10_000;

/**
 * Restarts what a cancelled shutdown stopped, each unit as soon as its stop has ended: a stop in progress completes first.
 * Never starts a unit that the shutdown did not stop, that something else started since, or that an eviction holds.
 */
export async function undoStops(needs: UndoNeeds): Promise<UndoneStops> {
  const { clock, memory } = needs;
  const beganMs = clock.monoMs();
  const started: string[] = [];
  const notUndone: string[] = [];
  const underWayMs = new Map<DecisionId, MonoMs>();
  for (;;) {
    for (const pod of memory.all()) {
      if (needs.isUnderWay(pod)) underWayMs.set(pod.decision, clock.monoMs());
      const fromMs = Math.max(underWayMs.get(pod.decision) ?? beganMs, pod.graceEndsMs);
      const isLate = clock.monoMs() >= fromMs + AFTER_GRACE_MS;
      const fate = await fateOf(needs, pod, { isLate, started });
      if (needs.isOver()) return { started, notUndone };
      if (fate.kind === 'wait') continue;
      const complaint = await carryOut(needs, pod, fate);
      if (complaint !== null) notUndone.push(complaint);
      else if (fate.kind !== 'nothing' && pod.unit !== null) started.push(pod.unit);
      memory.forget([pod.decision]);
    }
    if (memory.all().length === 0 && !needs.isAnyUnderWay()) return { started, notUndone };
    await sleep(clock, POLL_MS);
  }
}

/** Null, or a problem that a person should know. */
async function carryOut({ systemd }: UndoNeeds, { pod, unit }: StoppedPod, fate: Fate): Promise<string | null> {
  if (fate.kind === 'cannot') return `${pod}: ${fate.why}`;
  if (fate.kind !== 'start' || unit === null) return null;
  const start = await systemd.start(unit);
  return start.known ? null : `${pod}: ${unit} could not be started: ${start.detail}`;
}

async function fateOf(
  { systemd, memory, restart, isAlive }: UndoNeeds,
  pod: StoppedPod,
  { isLate, started }: { readonly isLate: boolean; readonly started: readonly string[] },
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
  if (facts.known && isRunning(facts.value) && isAnotherRun(pod, facts.value) && isNeededBy(facts.value, started))
    return { kind: 'came-along' };
  if (!mayStart()) return NOTHING;
  const fate = fateOfUnit(pod, facts, { isEnded, isLate });
  const forbidden = fate.kind === 'start' && facts.known ? await whoForbids(systemd, facts.value) : null;
  if (!mayStart()) return NOTHING;
  if (forbidden === null) return fate;
  return forbidden.isKnown || isLate ? { kind: 'cannot', why: forbidden.why } : WAIT;
}

function fateOfUnit(
  pod: StoppedPod,
  facts: Reading<UnitFacts>,
  { isEnded, isLate }: { readonly isEnded: boolean; readonly isLate: boolean },
): Fate {
  const { unit, cannot, activeState } = pod;
  // It was down, or something else was stopping it.
  if (activeState !== '' && !isRunning(pod)) return NOTHING;
  if (!facts.known)
    return isLate ? { kind: 'cannot', why: `systemd does not report the state of ${unit}: ${facts.detail}` } : WAIT;
  const now = facts.value;
  if (isAnotherRun(pod, now)) return NOTHING;
  // If it were started beside its remains, the kill at the end of the grace period would hit the new run.
  if (isRunning(now)) return isEnded ? NOTHING : WAIT;
  if (!isEnded) return WAIT;
  if (now.activeState === 'deactivating') return isLate ? { kind: 'cannot', why: `${unit} has not stopped yet` } : WAIT;
  if (cannot !== null) return { kind: 'cannot', why: cannot };
  if (activeState === '') return { kind: 'cannot', why: `systemd had not reported whether ${unit} ran` };
  if (now.loadState !== 'loaded') return { kind: 'cannot', why: `systemd reports ${unit} as ${now.loadState}` };
  return { kind: 'start' };
}

const WAIT: Fate = { kind: 'wait' };
const NOTHING: Fate = { kind: 'nothing' };

function isAnotherRun(pod: StoppedPod, now: UnitFacts): boolean {
  return pod.invocationId !== '' && now.invocationId !== '' && now.invocationId !== pod.invocationId;
}
