import type { Decision, DecisionId } from '../core/decision.ts';
import type { Hasten } from '../core/eviction/hasten.ts';
import { evictedStatus } from '../core/eviction/pod-status.ts';
import { firstSignal, type MetThreshold } from '../core/eviction/threshold.ts';
import { graceLeftMs, PROOF_MS, thresholdsOf } from '../core/eviction/under-way.ts';
import type { Outcome, Signalled } from '../core/outcome.ts';
import { givenSeconds } from '../core/pod/grace.ts';
import { type PodUid, type ProcessView, podName, type Victim } from '../core/pod/pod.ts';
import { assertNever, type MonoMs, type Reading, sayCause } from '../core/reading.ts';
import { SIGNAL_FACTS } from '../core/signal.ts';
import type { Eviction, ShutdownStop } from '../core/state/state.ts';
import type { Clock, Inbox, Inhibitor, Killer, Left, NodeMarks, Recorder, StopOrder } from '../ports.ts';
import { and } from '../words/phrases.ts';
import { type EndNeeds, ended } from './ended.ts';
import { type Evict, evictFields, evictSentence } from './evict-log.ts';
import { createHasten, type Hastening } from './hasten.ts';
import { olderThan } from './largest-processes.ts';
import { areOver, isStale, lastLook } from './last-look.ts';
import { collectEvidence, type PreKill } from './pre-kill.ts';
import type { Reclaim } from './reclaim.ts';
import { NOT_MEASURED } from './released-memory.ts';
import { resumeShutdownStop, stopForShutdown, type UnderWay } from './shutdown-stop.ts';
import { type Telling, tellingOnce } from './telling.ts';

/** The parts that change something on the node. */
export type Effects = Pick<EndNeeds, 'scratch'> & {
  readonly killer: Killer;
  readonly reclaim: Reclaim;
  readonly preKill: PreKill;
  readonly marks: NodeMarks;
};
export type ActorNeeds = EndNeeds &
  Effects & {
    readonly clock: Clock;
    readonly recorder: Recorder;
    readonly inbox: Pick<Inbox, 'put'>;
    readonly lock: Pick<Inhibitor, 'take' | 'release'>;
    /** The answer comes back as a shutdown event. */
    readonly announce: (decision: Extract<Decision, { kind: 'announce-shutdown' }>) => void;
    /** What people have declared that the choice of this pod rests on, as one text. Absent: it never changes. */
    readonly basisOf?: (victim: Victim) => string;
    /** After a cancelled shutdown. */
    readonly undoStops: () => void;
    /** Only for wording: in a dry run, the parts passed in do nothing. */
    readonly isDry: () => boolean;
  };
export type Actor = {
  /** Reads what will be gone afterwards, while the decision is still being written to the disk. */
  readonly prepare: (decision: Decision) => void;
  readonly begin: (decision: Decision) => void;
  /**
   * Resumes an eviction that an earlier run of the agent decided. If its stop had not begun, it begins now, with its last
   * look (D9), or is dropped if the choice is old. Before `resumeStop`, which may find the pod being evicted.
   */
  readonly resume: (eviction: Eviction, left: Left) => void;
  /** The same for a stop for a shutdown; `running` null: the pod is not declared any more, or does not run. */
  readonly resumeStop: (stop: ShutdownStop, running: Victim | null, left: Left) => void;
  /** How many effects are in progress. */
  readonly underWay: () => number;
};
type Begun = {
  readonly decision: Evict;
  readonly prepared: Prepared;
  readonly signalled: (how: Signalled['with']) => void;
  /** As in StopOrder. */
  readonly resumedFromMs: StopOrder['resumedFromMs'];
};
type Prepared = { readonly largest: Reading<readonly ProcessView[]>; readonly basis: string | undefined };
type CarryNeeds = ActorNeeds & {
  /** Records what comes of it; in progress until then. */
  readonly later: (effect: Promise<Outcome>) => void;
};

const LARGEST_SHOWN = 5;
/** product.md section 6: how long the search for the largest processes may take under D12, and otherwise. */
const LARGEST_BUDGET_MS = { sigkill: 2, sigterm: 20 } as const;

/** Turns decisions into effects. Never throws: failures come back as outcomes. */
export function createActor(given: ActorNeeds): Actor {
  const needs: CarryNeeds = { ...given, later };
  const { clock, recorder, inbox } = needs;
  const hastenOf = new Map<DecisionId, Hastening>();
  /** Evictions in progress. */
  const evicting = new Map<PodUid, UnderWay>();
  /** When their victims were asked to stop. */
  const toldOf = new Map<DecisionId, MonoMs>();
  /** For decisions that have not begun. */
  const prepared = new Map<DecisionId, Prepared>();
  let underWay = 0;

  function preparedOf(decision: Evict): Prepared {
    const { id, victim } = decision;
    const before = prepared.get(id);
    prepared.delete(id);
    if (before !== undefined) return before;
    const largest = needs.killer.largestProcesses(victim, LARGEST_SHOWN, LARGEST_BUDGET_MS[firstOf(decision)]);
    return { largest, basis: waitsFirst(decision) ? needs.basisOf?.(victim) : undefined };
  }

  function carry(of: DecisionId, effect: () => Promise<Outcome>): Promise<Outcome> {
    underWay++;
    const ended = effect().catch((error: unknown): Outcome => {
      const detail = sayCause(error);
      return { of, atMs: clock.monoMs(), kind: 'survived', left: [], detail };
    });
    void ended.then((outcome) => {
      hastenOf.delete(of);
      underWay--;
      recorder.outcome(outcome);
      inbox.put(outcome);
    });
    return ended;
  }

  function later(effect: Promise<Outcome>): void {
    underWay++;
    void effect.then(recorder.outcome).finally(() => underWay--);
  }

  /** Reports the signals from which its grace period and deadline count. */
  function tellSignals(of: DecisionId): (how: Signalled['with']) => void {
    const told = new Set<Signalled['with']>();
    return (how) => {
      if (told.has(how)) return;
      told.add(how);
      const atMs = clock.monoMs();
      if (how === 'sigterm' && !toldOf.has(of)) toldOf.set(of, atMs);
      inbox.put({ of, atMs, kind: 'signalled', with: how });
    };
  }

  function carryEviction(id: DecisionId, victim: Victim, effect: (hasten: Hasten) => Promise<Outcome>): void {
    const hasten = createHasten(clock);
    hastenOf.set(id, hasten);
    const ended = carry(id, () => effect(hasten));
    const told = ended.then((outcome) => {
      const toldMs = toldOf.get(id);
      const isOfPod = outcome.kind === 'ended' || outcome.kind === 'survived';
      return isOfPod && toldMs !== undefined ? { ...outcome, toldMs } : outcome;
    });
    const mine: UnderWay = { hasten, ended: told };
    evicting.set(victim.uid, mine);
    void told.then(() => {
      toldOf.delete(id);
      if (evicting.get(victim.uid) === mine) evicting.delete(victim.uid);
    });
  }

  return {
    prepare: (decision) => {
      if (isEvict(decision)) prepared.set(decision.id, preparedOf(decision));
    },
    begin: (decision) => {
      switch (decision.kind) {
        case 'evict':
        case 'evict-over-limit': {
          const begun = { decision, prepared: preparedOf(decision), signalled: tellSignals(decision.id) };
          return carryEviction(decision.id, decision.victim, (hasten) =>
            evict(needs, { ...begun, resumedFromMs: null }, hasten),
          );
        }
        case 'reclaim':
          tellThreshold(needs.marks, decision);
          return void carry(decision.id, () => needs.reclaim(decision));
        case 'hasten': {
          const graceMs = decision.graceSeconds * 1_000;
          return hastenOf.get(decision.eviction)?.cut({ first: firstSignal(decision.threshold), graceMs });
        }
        case 'set-condition':
          return needs.marks.setCondition(decision.condition, decision.status, conditionMessage(decision));
        case 'stop-for-shutdown': {
          const already = evicting.get(decision.victim.uid) ?? null;
          return void carry(decision.id, () => stopForShutdown(needs, decision, already));
        }
        case 'announce-shutdown':
          return needs.announce(decision);
        case 'take-lock':
          return needs.lock.take();
        case 'release-lock':
          return needs.lock.release();
        case 'undo-stops':
          return needs.undoStops();
        default:
          return assertNever(decision);
      }
    },
    resume: (eviction, left) => {
      const { decision, victim, decidedMs } = eviction;
      const whole = left.decision !== null && isEvict(left.decision) ? left.decision : null;
      // The run that died may not have reported it. If it did, the API recognizes the event by its name (C6).
      const telling = tellingOnce(needs, () => {
        if (whole !== null) tellEvicted(needs.marks, whole);
      });
      // It had ended, but the state did not know.
      if (left.outcome !== null) return inbox.put(telling.outcome(left.outcome));
      const tellOnce = telling.signalled(tellSignals(decision));
      let isSignalled = false;
      const signalled: Begun['signalled'] = (how) => {
        isSignalled ||= how !== 'unmount';
        tellOnce(how);
      };
      // Before one between two runs is asked to stop, systemd is asked whether it still is.
      const begunMs = eviction.signalledMs ?? (victim.isBetweenRuns ? null : left.begunMs);
      const thresholds = thresholdsOf(eviction);
      const first = thresholds.some((met) => firstSignal(met) === 'sigkill') ? 'sigkill' : 'sigterm';
      if (begunMs === null) {
        if (whole === null || isStale(needs, decidedMs))
          return void carry(decision, () => decidedAnew(needs, decision, victim, 'stale'));
        const { largest, basis } = preparedOf(whole);
        const begun: Begun = {
          decision: whole,
          prepared: { largest: olderThan(decidedMs, largest), basis },
          signalled: tellSignals(decision),
          resumedFromMs: decidedMs,
        };
        carryEviction(decision, victim, (hasten) => evict(needs, begun, hasten));
        // It was hastened before it began (D4).
        if (first !== firstOf(whole)) hastenOf.get(decision)?.cut({ first, graceMs: 0 });
        return;
      }
      const threshold = eviction.cause.kind === 'threshold' ? eviction.cause.threshold : null;
      const nowMs = clock.monoMs();
      const graceMs = graceLeftMs(eviction, begunMs, nowMs);
      // Nobody has carried it on: all that the choice was made from may have changed.
      const isOverdue = graceLeftMs(eviction, begunMs, nowMs - PROOF_MS) === 0;
      const sentBefore = eviction.killedMs === undefined ? first : 'sigkill';
      if (sentBefore === 'sigterm') toldOf.set(decision, begunMs);
      const isOnlyAsked = threshold !== null && firstSignal(threshold) === 'sigterm';
      const isOver = async (): Promise<boolean> => isOverdue || areOver(needs, thresholds);
      const order: StopOrder = {
        decision,
        victim,
        graceMs,
        why: 'eviction',
        isHard: thresholds.length === 0 || thresholds.some(({ isHard }) => isHard),
        resumedFromMs: decidedMs,
        sentBefore,
        // What was sent SIGKILL cannot be taken back.
        ...(eviction.killedMs === undefined && (isOnlyAsked || isOverdue) ? { isOver } : {}),
        doneBefore: left.rungs,
        usedBefore: left.usedBefore ?? NOT_MEASURED,
        first: graceMs === 0 ? 'sigkill' : first,
        givesBack: givesBackOf(threshold),
      };
      // The state did not know of the start: the time counts from then, not from now.
      if (eviction.signalledMs === undefined)
        inbox.put({ of: decision, atMs: begunMs, kind: 'signalled', with: first });
      carryEviction(decision, victim, async (hasten) => {
        const end = await needs.killer.stop(order, hasten, signalled, becoming(needs, victim, threshold, telling));
        const isSpared = end.kind === 'dropped' && end.because === 'not-killed';
        const outcome = isSpared && isOverdue ? ({ ...end, because: 'overdue' } as const) : end;
        // It was gone already.
        return ended(needs, victim, threshold, telling.outcome(outcome), { isLate: !isSignalled });
      });
    },
    resumeStop: (stop, running, left) => {
      if (left.outcome !== null) return inbox.put(left.outcome);
      // One that does not run any more may have been asked to stop.
      const victim = running ?? (left.decision?.kind === 'stop-for-shutdown' ? left.decision.victim : null);
      const underWay = evicting.get(stop.uid) ?? null;
      void carry(stop.decision, () => resumeShutdownStop(needs, stop, { victim, doneBefore: left.rungs, underWay }));
    },
    underWay: () => underWay,
  };
}

/**
 * The order of product.md section 7 after the intent: last check, notify, stop, prove. Only the evidence for a soft eviction
 * comes before the first signal, and the last look follows it.
 */
async function evict(
  needs: CarryNeeds,
  { decision, prepared: { largest, basis }, signalled, resumedFromMs }: Begun,
  hasten: Hasten,
): Promise<Outcome> {
  const { clock, killer, recorder, marks, log } = needs;
  const { id, victim } = decision;
  // Before the last look, which would be seconds old otherwise, and before it counts as begun.
  if (resumedFromMs !== null) {
    await killer.whenFound?.(victim);
    if (isStale(needs, resumedFromMs)) return decidedAnew(needs, id, victim, 'stale');
  }
  if (decision.kind === 'evict') {
    if (waitsFirst(decision) && !hasten.isCut()) await collectEvidence(needs, decision, hasten);
    if (basis !== undefined && basis !== needs.basisOf?.(victim)) return decidedAnew(needs, id, victim, 'changed');
    const last = await lastLook(needs, decision.threshold);
    if (last !== null) return notEvicting(needs, id, victim, last);
  }
  const podStatus = evictedStatus(decision.message, decision.kind === 'evict' ? 'node-pressure' : 'over-limit');
  if (decision.kind === 'evict') tellThreshold(marks, decision);
  const stopBeganAtMs = clock.monoMs();
  const graceMs = givenSeconds(decision.graceSeconds) * 1_000;
  const threshold = decision.kind === 'evict' ? decision.threshold : null;
  const givesBack = givesBackOf(threshold);
  const first = firstOf(decision);
  const isHard = threshold?.isHard ?? true;
  const usedBytes = killer.usedBytes(victim);
  const how = { graceMs, why: 'eviction', isHard, resumedFromMs, usedBefore: usedBytes, first, givesBack } as const;
  const order: StopOrder = { decision: id, victim, ...how };
  recorder.began({ kind: 'evidence', of: id, stopBeganAtMs, usedBytes, largestProcesses: largest, podStatus });
  const telling = tellingOnce(needs, () => {
    log[needs.isDry() ? 'info' : 'warn'](
      { event: 'evict', ...evictFields(decision), largestProcesses: largest.known ? largest.value : null },
      `${needs.isDry() ? 'would evict' : 'evicting'} ${and(evictSentence(decision), isHard ? needs.preKill.skipped() : '')}`,
    );
    if (!needs.isDry()) tellEvicted(marks, decision);
  });
  const stopped = killer.stop(order, hasten, telling.signalled(signalled), becoming(needs, victim, threshold, telling));
  if (needs.isDry()) telling.now();
  return ended(needs, victim, threshold, telling.outcome(await stopped));
}

/** What an outcome turned out to be later is carried to its end, and recorded beside it. The core has gone on. */
function becoming(needs: CarryNeeds, victim: Victim, threshold: MetThreshold | null, telling: Telling) {
  return (outcome: Outcome): void =>
    needs.later(ended(needs, victim, threshold, telling.outcome(outcome), { isDead: true }));
}

function tellEvicted(marks: NodeMarks, decision: Evict): void {
  const annotations = decision.kind === 'evict' ? decision.annotations : {};
  marks.event('Evicted', decision.message, { decision: nameOf(decision), pod: decision.victim, annotations });
}

/** Includes the time: numbers restart if the state is lost, and an event of that name may exist already (C6). */
const nameOf = ({ id, atMs }: { readonly id: DecisionId; readonly atMs: MonoMs }): DecisionId =>
  `${id}-${Math.trunc(atMs)}`;

/** kubelet-eviction.md 7.5 */
function tellThreshold(
  marks: NodeMarks,
  decision: { readonly id: DecisionId; readonly atMs: MonoMs; readonly threshold: MetThreshold },
): void {
  const { threshold } = decision;
  const message = `Attempting to reclaim ${SIGNAL_FACTS[threshold.signal].resource}`;
  marks.event('EvictionThresholdMet', message, { decision: nameOf(decision), pod: null, annotations: {} });
}

function notEvicting({ log, clock }: ActorNeeds, of: DecisionId, victim: Victim, why: string): Outcome {
  log.info({ event: 'dropped', decision: of, pod: podName(victim) }, `not evicting ${podName(victim)}: ${why}`);
  return { of, atMs: clock.monoMs(), kind: 'dropped', because: 'no-longer-met' };
}

/** The core has the outcome at its next look, and decides anew. */
function decidedAnew(
  needs: ActorNeeds,
  of: DecisionId,
  victim: Victim,
  because: 'stale' | 'changed',
): Promise<Outcome> {
  return ended(needs, victim, null, { of, atMs: needs.clock.monoMs(), kind: 'dropped', because });
}

const isEvict = (decision: Decision): decision is Evict =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';

/** For its evidence. */
const waitsFirst = (decision: Evict): boolean => decision.kind === 'evict' && !decision.threshold.isHard;

const firstOf = (decision: Evict): StopOrder['first'] =>
  decision.kind === 'evict' ? firstSignal(decision.threshold) : 'sigterm';

function givesBackOf(threshold: MetThreshold | null): StopOrder['givesBack'] {
  return threshold !== null && SIGNAL_FACTS[threshold.signal].unit === 'pids' ? 'pids' : 'memory';
}

/** kubelet-eviction.md 7.4, with the agent's name. */
function conditionMessage({ condition, status }: Extract<Decision, { kind: 'set-condition' }>): string {
  const words = { MemoryPressure: 'memory', DiskPressure: 'disk', PIDPressure: 'PID' } as const;
  return status ? `the node is under ${words[condition]} pressure` : `the node has no ${words[condition]} pressure`;
}
