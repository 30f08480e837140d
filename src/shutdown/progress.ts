import type { Decision, DecisionId } from '../core/decision.ts';
import { groupBy } from '../core/group-by.ts';
import type { Observation } from '../core/observation.ts';
import { type PodUid, podName } from '../core/pod/pod.ts';
import type { Reason } from '../core/reason.ts';
import { isEveryPod } from '../core/shutdown/stop-pods.ts';
import { isInPhase, isUnderWay } from '../core/shutdown/stopping.ts';
import type { State, Stopping } from '../core/state/state.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { Verdict } from '../core/verdict.ts';
import type { InhibitorStatus, Left, Log, LogEvent, RecordNote, ShutdownFact } from '../ports.ts';
import { type Names, sayFact } from '../words/shutdown.ts';

type ProgressNeeds = {
  readonly log: Log;
  readonly note: (note: RecordNote) => void;
  /** Shows one line to people while it runs: on the console, and as systemd's STATUS=. */
  readonly show: (line: string) => void;
  readonly inhibitor: () => InhibitorStatus;
  /** Whether a stop has ended since the look that is reported. */
  readonly hasEnded: (of: DecisionId) => boolean;
  /** The shutdown as the last run of this boot left it. */
  readonly adopted: Pick<State, 'shutdown' | 'stops'>;
  readonly left: (of: DecisionId) => Pick<Left, 'decision'>;
};
type Stop = Extract<Verdict['decisions'][number], { kind: 'stop-for-shutdown' }>;
type PhaseOver = Extract<Reason, { code: 'shutdown-phase-over' }>;

const EVENTS: { readonly [W in ShutdownFact['what']]: LogEvent } = {
  began: 'shutdown',
  resumed: 'shutdown',
  announced: 'cordon',
  confirmed: 'shutdown',
  phase: 'phase',
  'phase-over': 'phase',
  gone: 'phase',
  'stopped-again': 'phase',
  'lock-lost': 'not-armed',
  cancelled: 'cancelled',
  'cancel-not-honoured': 'cancelled',
  undone: 'restarted',
  released: 'released',
};
const NO_LONGER = 'logind no longer prepares for a shutdown';
const AFTER_RELEASE = 'after the lock was released';
const LOUD: readonly ShutdownFact['what'][] = ['lock-lost', 'cancel-not-honoured', 'stopped-again'];

export type Progress = {
  readonly seen: (observation: Observation, verdict: Verdict) => void;
  /** Facts that are not part of a look. */
  readonly tell: (fact: ShutdownFact, atMs: number) => void;
};

/** Follows a shutdown from look to look and reports it: in the log, in the record, and on the console. */
export function createProgress(needs: ProgressNeeds): Progress {
  let before = needs.adopted.shutdown;
  /** The next shutdown was announced during its phases: logind's delay began anew. */
  let isAnew = false;
  const nameOf = new Map<PodUid, string>();
  const names: Names = (uid) => nameOf.get(uid) ?? uid;
  for (const { decision } of needs.adopted.stops) rememberVictim(needs.left(decision).decision);

  function tell(fact: ShutdownFact, atMs: number): void {
    const line = sayFact(fact);
    const say = LOUD.includes(fact.what) ? needs.log.warn : needs.log.info;
    say({ event: EVENTS[fact.what], ...fact }, line);
    needs.note({ kind: 'shutdown', atMs, fact });
    needs.show(line);
  }

  function remember({ pods }: Observation, { decisions }: Verdict): void {
    if (pods.known) for (const pod of pods.value) nameOf.set(pod.uid, podName(pod));
    for (const decision of decisions) rememberVictim(decision);
  }

  function rememberVictim(decision: Decision | null): void {
    if (decision?.kind === 'stop-for-shutdown') nameOf.set(decision.victim.uid, podName(decision.victim));
  }

  return {
    tell,
    seen: (observation, verdict) => {
      const { shutdown } = verdict.state;
      const was = before;
      before = shutdown;
      isAnew &&= isUnderWay(shutdown);
      for (const reason of verdict.reasons) {
        if (reason.code !== 'shutdown-not-armed') continue;
        needs.log.warn(
          { event: 'not-armed' },
          `the machine is going down, but the shutdown lock is not held: ${reason.why}`,
        );
      }
      if (
        !isUnderWay(was) &&
        !isUnderWay(shutdown) &&
        verdict.reasons.every(({ code }) => code !== 'shutdown-phase-over')
      ) {
        return;
      }
      remember(observation, verdict);
      const { hasEnded } = needs;
      const status = needs.inhibitor();
      for (const fact of factsOf({ was, observation, verdict, names, nameOf, hasEnded, isAnew, status })) {
        isAnew ||= fact.what === 'cancel-not-honoured';
        tell(fact, observation.atMs);
      }
      if (!isUnderWay(shutdown)) nameOf.clear();
    },
  };
}

type Look = {
  readonly was: State['shutdown'];
  readonly observation: Observation;
  readonly verdict: Verdict;
  readonly names: Names;
  readonly nameOf: ReadonlyMap<PodUid, string>;
  readonly status: InhibitorStatus;
  readonly hasEnded: ProgressNeeds['hasEnded'];
  readonly isAnew: boolean;
};

/** In chronological order: what ended, which events arrived, what begins. */
function factsOf(look: Look): readonly ShutdownFact[] {
  const { was, observation, verdict } = look;
  const { shutdown } = verdict.state;
  const began = (!isUnderWay(was) && isUnderWay(shutdown)) || isSecondTier(was, shutdown) ? [beganFact(look)] : [];
  const lost = observation.shutdownEvents.flatMap((event): ShutdownFact[] =>
    event.kind === 'lock-lost' && was.kind === 'stopping' ? [{ what: 'lock-lost', detail: event.detail }] : [],
  );
  const over = verdict.reasons.filter((reason) => reason.code === 'shutdown-phase-over');
  const cancelled = verdict.reasons.flatMap((reason): ShutdownFact[] =>
    reason.code === 'shutdown-cancelled'
      ? [{ what: 'cancelled', phase: reason.phase, why: was.kind === 'released' ? AFTER_RELEASE : NO_LONGER }]
      : [],
  );
  const backs = verdict.reasons.flatMap((reason): ShutdownFact[] =>
    reason.code === 'shutdown-started-again'
      ? [{ what: 'stopped-again', pod: look.names(reason.uid), times: reason.times }]
      : [],
  );
  const overFacts = (list: readonly PhaseOver[]): readonly ShutdownFact[] => list.map((one) => overFact(look, one));
  const begun = phasesBegun(look, over);
  const newPhases = new Set(begun.map(({ phase }) => phase));
  const ended = over.filter(({ phase }) => !newPhases.has(phase));
  // A phase without time is over in the look in which it began.
  const begunAndEnded = begun.flatMap((fact) => [fact, ...overFacts(over.filter(({ phase }) => phase === fact.phase))]);
  const announced = verdict.reasons.flatMap((reason): ShutdownFact[] =>
    reason.code === 'shutdown-announced' ? [{ what: 'announced', detail: reason.detail }] : [],
  );
  const confirmed = verdict.reasons.flatMap((reason): ShutdownFact[] =>
    reason.code === 'shutdown-confirmed'
      ? [{ what: 'confirmed', tookMs: Math.round(reason.tookMs), left: reason.left }]
      : [],
  );
  const released = verdict.decisions.flatMap((decision): ShutdownFact[] =>
    decision.kind === 'release-lock' ? [{ what: 'released', why: decision.why, ...delayOver(look) }] : [],
  );
  const before = [...lost, ...backs, ...overFacts(ended), ...goneBefore(look), ...cancelled, ...takenBack(look)];
  // What the first tier left running ends with it.
  const first = isSecondTier(was, shutdown) ? [...before, ...began] : [...began, ...before];
  return [...first, ...announced, ...begunAndEnded, ...confirmed, ...released];
}

/** Of the phases that this look began, passed over, or will not begin any more. A run that has not seen such a pod has no name for it. */
function goneBefore({ was, observation, verdict: { state }, nameOf }: Look): readonly ShutdownFact[] {
  const { shutdown } = state;
  const { pods } = observation;
  if (was.kind !== 'stopping' || !pods.known || !isEveryPod(observation)) return [];
  const isSame = shutdown.kind === 'stopping' && shutdown.startedMs === was.startedMs;
  const toPhase = isSame ? shutdown.phase : was.phases.length;
  const running = new Set(pods.value.map(({ uid }) => uid));
  const gone = Object.entries(was.assigned ?? {}).filter(
    ([uid, phase]) => phase > was.phase && phase <= toPhase && !running.has(uid) && nameOf.has(uid),
  );
  const byPhase = [...groupBy(gone, ([, phase]) => phase)].toSorted(([a], [b]) => a - b);
  return byPhase.map(([phase, of]) => ({ what: 'gone', phase, pods: of.map(([uid]) => nameOf.get(uid) ?? uid) }));
}

/** With `afterPhases`, the phases of a cancelled shutdown are those of the next one. */
function takenBack({ was, verdict: { state, reasons } }: Look): readonly ShutdownFact[] {
  const { shutdown } = state;
  if (was.kind !== 'stopping' || shutdown.kind !== 'stopping' || was.startedMs !== shutdown.startedMs) return [];
  const isCancelled = was.cancelledMs !== null || reasons.some(({ code }) => code === 'shutdown-cancelled');
  return isCancelled && shutdown.cancelledMs === null ? [{ what: 'cancel-not-honoured', isAnew: true }] : [];
}

/**
 * logind waits no longer than it granted, whether or not the agent was there to see it. Its delay may have begun before the
 * signal could be heard: what shows then is that systemd stops the agent.
 */
function delayOver({
  was,
  observation,
  isAnew,
}: Look): Pick<Extract<ShutdownFact, { what: 'released' }>, 'delayMs' | 'isOvertaken'> {
  if (was.kind !== 'stopping' || was.delayMaxMs === null) return {};
  if (!isAnew && observation.atMs - was.startedMs > was.delayMaxMs) return { delayMs: was.delayMaxMs };
  return was.tier === 'stop' ? { isOvertaken: true } : {};
}

/** The agent is stopped after the phases of logind's signal: they run once more with all that is left. */
function isSecondTier(was: State['shutdown'], now: State['shutdown']): boolean {
  if (now.kind !== 'stopping' || now.tier !== 'stop') return false;
  return was.kind === 'released' || (was.kind === 'stopping' && was.startedMs !== now.startedMs);
}

function beganFact({ observation, verdict, was, status }: Look): ShutdownFact {
  const { shutdown } = verdict.state;
  const stopping: Stopping | null = shutdown.kind === 'stopping' ? shutdown : null;
  const isStop = observation.shutdownEvents.some(({ kind }) => kind === 'stopped-without-signal');
  const mustEndMs = stopping?.mustEndMs ?? null;
  const tier = stopping?.tier ?? (isStop ? 'stop' : 'logind');
  return {
    what: 'began',
    tier,
    type: status.type,
    phases: stopping?.phases ?? [],
    // If logind does not know of the shutdown, nothing waits for the lock.
    grantedMs: tier === 'stop' ? null : (stopping?.delayMaxMs ?? (was.kind === 'armed' ? was.delayMaxMs : null)),
    limitMs: stopping === null || mustEndMs === null ? null : mustEndMs - stopping.startedMs,
    ...(isSecondTier(was, shutdown) ? { isSecond: true } : {}),
    ...(stopping?.byKubelet === undefined ? {} : { byKubelet: true }),
  };
}

/** The phases that this look began, with their pods; not those that were stopped again in it. */
function phasesBegun({ verdict, was, names }: Look, over: readonly PhaseOver[]) {
  const { shutdown } = verdict.state;
  const stops = verdict.decisions.filter((decision): decision is Stop => decision.kind === 'stop-for-shutdown');
  const lastPhase = was.kind === 'stopping' && !isSecondTier(was, shutdown) ? was.phase : 0;
  const running = shutdown.kind === 'stopping' && isInPhase(shutdown) ? shutdown : null;
  // A phase may have no decisions, because a cancelled shutdown had already stopped its pods.
  const seen = new Set([...stops.map(({ phase }) => phase), ...(running === null ? [] : [running.phase])]);
  const phases = [...seen].filter((phase) => phase > lastPhase);
  return phases.map((phase) => {
    const isRunning = running !== null && running.phase === phase;
    const periodMs = isRunning ? running.phaseEndsMs - running.phaseStartedMs : 0;
    const short = verdict.reasons.find((reason) => reason.code === 'shutdown-shortened' && reason.phase === phase);
    const wantedMs = short?.code === 'shutdown-shortened' ? short.wantedMs : periodMs;
    const told = stops.filter((stop) => stop.phase === phase).map(({ victim }) => victim.uid);
    const pods = (isRunning ? running.group : told).map(names);
    const isOver = over.some((one) => one.phase === phase);
    return { what: 'phase', phase, periodMs: isOver ? 0 : periodMs, wantedMs, pods } as const;
  });
}

function overFact(look: Look, { phase, startedMs, by, running }: PhaseOver): ShutdownFact {
  const { observation, verdict, names, hasEnded } = look;
  // Reported after the record has the next phase: some have ended meanwhile, and the log has said so.
  const ended = new Set(verdict.state.stops.filter(({ decision }) => hasEnded(decision)).map(({ uid }) => uid));
  return {
    what: 'phase-over',
    phase,
    tookMs: Math.round(observation.atMs - startedMs),
    by,
    running: running.filter((uid) => !ended.has(uid)).map(names),
  };
}

/** STATUS= while no shutdown is in progress. */
export function sayLock({ lock, scheduled }: InhibitorStatus): string {
  const plan = scheduled === null ? '' : `; ${scheduled.type} is scheduled`;
  switch (lock.kind) {
    case 'off':
      return 'shutdown off';
    case 'armed':
      return `shutdown armed, ${sayDuration(lock.grantedMs)} granted${plan}`;
    case 'not-armed':
      return `shutdown NOT armed: ${lock.why}${plan}`;
    case 'released':
      return 'the shutdown lock is released';
  }
}
