import type { Decision, DecisionId } from '../core/decision.ts';
import { sayCulprit } from '../core/eviction/attribution.ts';
import type { Hasten } from '../core/eviction/hasten.ts';
import { evictedStatus } from '../core/eviction/pod-status.ts';
import { firstSignal, type MetThreshold } from '../core/eviction/threshold.ts';
import { EVIDENCE_MS, graceLeftMs, thresholdsOf } from '../core/eviction/under-way.ts';
import type { Outcome, Signalled } from '../core/outcome.ts';
import { givenSeconds } from '../core/pod/grace.ts';
import { type PodUid, type ProcessView, podName, type Victim } from '../core/pod/pod.ts';
import { assertNever, type MonoMs, type Reading, sayCause } from '../core/reading.ts';
import { SIGNAL_FACTS } from '../core/signal.ts';
import type { Eviction, ShutdownStop } from '../core/state/state.ts';
import type { Clock, Inbox, Inhibitor, Killer, Left, NodeMarks, Recorder, StopOrder } from '../ports.ts';
import { sayTies } from '../words/decision.ts';
import { and, sayLimit, sayThreshold } from '../words/phrases.ts';
import { type EndNeeds, ended } from './ended.ts';
import { createHasten, type Hastening } from './hasten.ts';
import { olderThan } from './largest-processes.ts';
import { lastLook } from './last-look.ts';
import type { PreKill } from './pre-kill.ts';
import type { Reclaim } from './reclaim.ts';
import { NOT_MEASURED } from './released-memory.ts';
import { resumeShutdownStop, stopForShutdown, type UnderWay } from './shutdown-stop.ts';

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
   * look (D9). Before `resumeStop`, which may find the pod being evicted.
   */
  readonly resume: (eviction: Eviction, left: Left) => void;
  /** The same for a stop for a shutdown; `victim` null: the pod is no longer declared. */
  readonly resumeStop: (stop: ShutdownStop, victim: Victim | null, doneBefore: Left['rungs']) => void;
  /** How many effects are in progress. */
  readonly underWay: () => number;
};
type Evict = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;
type Begun = {
  readonly decision: Evict;
  readonly largest: Largest;
  readonly signalled: (how: Signalled['with']) => void;
  /** As in StopOrder. */
  readonly resumedFromMs: StopOrder['resumedFromMs'];
};
type Largest = Reading<readonly ProcessView[]>;

const LARGEST_SHOWN = 5;
/** product.md section 6: how long the search for the largest processes may take under D12, and otherwise. */
const LARGEST_BUDGET_MS = { sigkill: 2, sigterm: 20 } as const;

/** Turns decisions into effects. Never throws: failures come back as outcomes. */
export function createActor(needs: ActorNeeds): Actor {
  const { clock, recorder, inbox } = needs;
  const hastenOf = new Map<DecisionId, Hastening>();
  /** Evictions in progress. */
  const evicting = new Map<PodUid, UnderWay>();
  /** For decisions that have not begun. */
  const prepared = new Map<DecisionId, Largest>();
  let underWay = 0;

  function largestOf(decision: Evict): Largest {
    const before = prepared.get(decision.id);
    prepared.delete(decision.id);
    return (
      before ?? needs.killer.largestProcesses(decision.victim, LARGEST_SHOWN, LARGEST_BUDGET_MS[firstOf(decision)])
    );
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

  /** Reports the signals from which its grace period and deadline count. */
  function tellSignals(of: DecisionId): (how: Signalled['with']) => void {
    const told = new Set<Signalled['with']>();
    return (how) => {
      if (told.has(how)) return;
      told.add(how);
      inbox.put({ of, atMs: clock.monoMs(), kind: 'signalled', with: how });
    };
  }

  function carryEviction(id: DecisionId, victim: Victim, effect: (hasten: Hasten) => Promise<Outcome>): void {
    const hasten = createHasten(clock);
    hastenOf.set(id, hasten);
    const ended = carry(id, () => effect(hasten));
    const mine: UnderWay = { hasten, ended };
    evicting.set(victim.uid, mine);
    void ended.then(() => {
      if (evicting.get(victim.uid) === mine) evicting.delete(victim.uid);
    });
  }

  return {
    prepare: (decision) => {
      if (isEvict(decision)) prepared.set(decision.id, largestOf(decision));
    },
    begin: (decision) => {
      switch (decision.kind) {
        case 'evict':
        case 'evict-over-limit': {
          const largest = largestOf(decision);
          return carryEviction(decision.id, decision.victim, (hasten) =>
            evict(needs, { decision, largest, signalled: tellSignals(decision.id), resumedFromMs: null }, hasten),
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
        isSignalled = true;
        tellOnce(how);
      };
      const begunMs = eviction.signalledMs ?? left.begunMs;
      const thresholds = thresholdsOf(eviction);
      const first = thresholds.some((met) => firstSignal(met) === 'sigkill') ? 'sigkill' : 'sigterm';
      if (begunMs === null && whole !== null) {
        const largest = olderThan(decidedMs, largestOf(whole));
        const begun: Begun = { decision: whole, largest, signalled: tellSignals(decision), resumedFromMs: decidedMs };
        carryEviction(decision, victim, (hasten) => evict(needs, begun, hasten));
        // It was hastened before it began (D4).
        if (first !== firstOf(whole)) hastenOf.get(decision)?.cut({ first, graceMs: 0 });
        return;
      }
      const threshold = eviction.cause.kind === 'threshold' ? eviction.cause.threshold : null;
      const sent = eviction.killedMs === undefined ? first : 'sigkill';
      const graceMs = graceLeftMs(eviction, begunMs, clock.monoMs());
      const isGraceOver = begunMs !== null && graceMs === 0;
      // What was sent SIGKILL cannot be taken back.
      const isOnlyAsked =
        threshold !== null &&
        firstSignal(threshold) === 'sigterm' &&
        eviction.killedMs === undefined &&
        begunMs !== null;
      const order: StopOrder = {
        decision,
        victim,
        graceMs,
        why: 'eviction',
        isHard: thresholds.length === 0 || thresholds.some(({ isHard }) => isHard),
        resumedFromMs: decidedMs,
        sentBefore: begunMs === null ? undefined : sent,
        ...(isOnlyAsked ? { isOver: () => areOver(needs, thresholds) } : {}),
        doneBefore: left.rungs,
        processes: left.processes,
        ...(begunMs === null ? {} : { usedBefore: left.usedBefore ?? NOT_MEASURED }),
        first: isGraceOver ? 'sigkill' : first,
        givesBack: givesBackOf(threshold),
      };
      // The state did not know of the start: the time counts from then, not from now.
      if (begunMs !== null && eviction.signalledMs === undefined)
        inbox.put({ of: decision, atMs: begunMs, kind: 'signalled', with: first });
      carryEviction(decision, victim, async (hasten) => {
        if (begunMs === null) await needs.killer.whenFound?.(victim);
        const last = begunMs === null && threshold !== null ? await lastLook(needs, threshold) : null;
        if (last !== null) return notEvicting(needs, decision, victim, last);
        const outcome = await needs.killer.stop(order, hasten, signalled, becoming(needs, victim, threshold, telling));
        // It was gone already.
        const isLate = begunMs !== null && !isSignalled;
        return ended(needs, victim, threshold, telling.outcome(outcome), isLate);
      });
    },
    resumeStop: (stop, victim, doneBefore) =>
      void carry(stop.decision, () =>
        resumeShutdownStop(needs, stop, { victim, doneBefore, underWay: evicting.get(stop.uid) ?? null }),
      ),
    underWay: () => underWay,
  };
}

/**
 * The order of product.md section 7 after the intent: last check, notify, stop, prove. Only the evidence for a soft eviction
 * comes before the first signal, and the last look follows it.
 */
async function evict(
  needs: ActorNeeds,
  { decision, largest, signalled, resumedFromMs }: Begun,
  hasten: Hasten,
): Promise<Outcome> {
  const { clock, killer, recorder, marks, log } = needs;
  const { id, victim } = decision;
  // Before the last look, which would be seconds old otherwise, and before it counts as begun.
  if (resumedFromMs !== null) await killer.whenFound?.(victim);
  if (decision.kind === 'evict') {
    if (!decision.threshold.isHard && !hasten.isCut()) await collectEvidence(needs, decision, hasten);
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
  const processes = largest.known ? largest.value : [];
  const how = { graceMs, why: 'eviction', isHard, resumedFromMs, usedBefore: usedBytes, first, givesBack } as const;
  const order: StopOrder = { decision: id, victim, processes, ...how };
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

/**
 * Reports an eviction once the API accepted it or the first signal was sent, so never one that a budget refused. It runs after
 * the signals of this turn of the event loop, because it takes time.
 */
function tellingOnce({ clock }: Pick<ActorNeeds, 'clock'>, tell: () => void) {
  let isTold = false;
  const now = (): void => {
    if (!isTold) tell();
    isTold = true;
  };
  return {
    now,
    signalled:
      (next: Begun['signalled']): Begun['signalled'] =>
      (how) => {
        next(how);
        if (!isTold) clock.after(0, now);
      },
    outcome: (outcome: Outcome): Outcome => {
      if (outcome.kind === 'ended') now();
      return outcome;
    },
  };
}

/** What an outcome turned out to be later is carried to its end, and recorded beside it. The core has gone on. */
function becoming(
  needs: ActorNeeds,
  victim: Victim,
  threshold: MetThreshold | null,
  telling: ReturnType<typeof tellingOnce>,
) {
  return (outcome: Outcome): void =>
    void ended(needs, victim, threshold, telling.outcome(outcome)).then(needs.recorder.outcome);
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

/** D9, of all that wait for it. */
async function areOver(needs: ActorNeeds, thresholds: readonly MetThreshold[]): Promise<boolean> {
  const said = await Promise.all(thresholds.map((threshold) => lastLook(needs, threshold)));
  return said.every((why) => why !== null);
}

const isEvict = (decision: Decision): decision is Evict =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';

const firstOf = (decision: Evict): StopOrder['first'] =>
  decision.kind === 'evict' ? firstSignal(decision.threshold) : 'sigterm';

/** A hard threshold that is met meanwhile does not wait for it (D4). */
function collectEvidence(
  { clock, preKill }: ActorNeeds,
  decision: Extract<Decision, { kind: 'evict' }>,
  hasten: Hasten,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(EVIDENCE_MS, resolve);
    void hasten.whenCut.then(() => resolve());
    preKill.collect(decision).finally(cancel).then(resolve, reject);
  });
}

function givesBackOf(threshold: MetThreshold | null): StopOrder['givesBack'] {
  return threshold !== null && SIGNAL_FACTS[threshold.signal].unit === 'pids' ? 'pids' : 'memory';
}

function evictFields(decision: Evict): { readonly [field: string]: unknown } {
  const { id, victim, graceSeconds } = decision;
  const common = { decision: id, pod: podName(victim), qos: victim.qos, priority: victim.priority, graceSeconds };
  if (decision.kind === 'evict-over-limit') return { ...common, signal: `${decision.limit}.limit` };
  const { threshold, differences } = decision;
  const decidedBy = decision.ranking.find(({ uid }) => uid === victim.uid)?.decidedBy ?? null;
  return {
    ...common,
    signal: threshold.signal,
    kind: threshold.isHard ? 'hard' : 'soft',
    observed: threshold.available,
    threshold: sayLimit(threshold.signal, threshold.limit),
    decidedBy,
    candidates: decision.ranking.length,
    differences,
    ...(decision.growth?.known ? { growth: decision.growth.value } : {}),
  };
}

function evictSentence(decision: Evict): string {
  const pod = podName(decision.victim);
  if (decision.kind === 'evict-over-limit') return `${pod}: ${decision.message.trim()}`;
  const sentence = and(`${pod}: ${sayThreshold(decision.threshold)}`, sayCulprit(decision.growth));
  return and(sentence, sayTies(decision));
}

/** kubelet-eviction.md 7.4, with the agent's name. */
function conditionMessage({ condition, status }: Extract<Decision, { kind: 'set-condition' }>): string {
  const words = { MemoryPressure: 'memory', DiskPressure: 'disk', PIDPressure: 'PID' } as const;
  return status ? `the node is under ${words[condition]} pressure` : `the node has no ${words[condition]} pressure`;
}
