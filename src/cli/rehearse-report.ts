import type { CoreConfig, ShutdownPhase } from '../core/core-config.ts';
import { givenSeconds } from '../core/pod/grace.ts';
import { type PodUid, type PodView, podName, saidPriority } from '../core/pod/pod.ts';
import { valueOrNull } from '../core/reading.ts';
import { AGENT_END_MS, totalMs } from '../core/shutdown/phase-time.ts';
import { leftBecause, neededTotalMs, planShutdown } from '../core/shutdown/plan.ts';
import { type ObservedStops, verdictOf } from '../core/shutdown/stop-verdict.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { Finding } from '../ports.ts';
import type { Change, PhaseRow, PodStopRow, RehearseReport, SecondTier, Span } from '../serve/rehearsal.ts';
import type { ShutdownStatus } from '../serve/shutdown-status.ts';
import { type Rehearsal, type RehearsedPod, type RehearsedStart, rehearse } from '../simulate/shutdown/rehearse.ts';
import { killedAfterMs } from '../standalone/stop/stop-timeouts.ts';
import { sayMs } from '../words/decision.ts';
import { countPods } from '../words/phrases.ts';
import { leftToSystemd } from '../words/shutdown.ts';
import { isSlice, notesOf, traitNotes } from './rehearse-notes.ts';
import type { StopTimeouts } from './stop-timeouts.ts';

export type RehearseInput = {
  readonly node: { readonly name: string; readonly dryRun: boolean };
  readonly atWallMs: number;
  readonly config: Pick<CoreConfig, 'phases' | 'shutdownCarryOver' | 'shutdownCancel' | 'tiers'>;
  readonly pods: readonly PodView[];
  readonly status: Pick<ShutdownStatus, 'lock' | 'stopTimeoutMs' | 'secondTier' | 'running'>;
  readonly observed: ReadonlyMap<PodUid, ObservedStops>;
  readonly timeouts: StopTimeouts;
  /** The daemon's findings; those about the binding of a pod are shown. */
  readonly findings: readonly Finding[];
};

/** Findings about pods whose unit or cgroup cannot be found: the daemon does not have these pods. */
const UNBOUND = 'binding/';
export function rehearseReport(given: RehearseInput): RehearseReport {
  const { node, atWallMs, config, status } = given;
  const inPhases = given.pods.filter((pod) => leftBecause(pod, given.config.phases) === null);
  const pods = withUnitsOfPhase(config.phases, inPhases);
  const input = { ...given, pods };
  const neededMs = neededTotalMs(config);
  const { lock } = status;
  const grantedMs = lock.kind === 'armed' || lock.kind === 'not-armed' ? lock.grantedMs : null;
  const aroundMs = neededMs - totalMs(config.phases);
  // The phases get only part of what logind grants.
  const forPhasesMs = grantedMs === null ? neededMs : Math.max(0, grantedMs - aroundMs);
  const first = { ...input, pods: pods.filter(({ leaves }) => leaves === undefined) };
  const played = playedOf(first, { kind: 'logind', grantedMs: forPhasesMs });
  const { worst, expected } = played;
  const phases = phaseRows(first, played);
  const secondTier = secondTierOf(input, neededMs);
  const leftMs = secondTier === null ? neededMs : (secondTier.leftMs ?? neededMs);
  const second = { ...input, pods: pods.filter(({ leaves }) => leaves !== undefined) };
  const withAgent = config.tiers === undefined ? [] : phaseRows(second, playedOf(second, { kind: 'stop', leftMs }));
  const rows = [...phases, ...withAgent].flatMap((phase) => phase.pods);
  const changes = changesOf([...phases, ...withAgent], chainedOf(config.phases, pods));
  return {
    schema: 1,
    node: node.name,
    atWallMs,
    dryRun: node.dryRun,
    lock,
    neededMs,
    grantedMs,
    phases,
    ...(config.tiers === undefined ? {} : { withAgent }),
    worstMs: worst.totalMs,
    expectedMs: expected.totalMs,
    secondTier,
    changes: [...changes, ...agentChanges(config.phases, changes, secondTier, worst.totalMs)],
    notes: [...notesOf(phases, pods, input.timeouts), ...traitNotes(phases, withAgent, pods)],
    warnings:
      phases.length === 0 ? [] : [...leftWarnings(given), ...warningsOf(input, phases, { neededMs, grantedMs })],
    cannotFinish: rows.filter(({ verdict }) => verdict.kind === 'cannot-finish').map(podName),
  };
}

function playedOf(input: RehearseInput, start: RehearsedStart): Rehearsals {
  const played = (stopOf: typeof worstOf): Rehearsal => {
    const stops = input.pods.map((pod) => stopOf(pod, input));
    return rehearse(input.config, stops, start);
  };
  return { worst: played(worstOf), expected: played(expectedOf), soonest: played(soonestOf) };
}

function chainedOf(phases: readonly ShutdownPhase[], pods: readonly PodView[]): ReadonlySet<PodUid> {
  const stops = planShutdown(phases, pods).flatMap((phase) => phase.stops);
  return new Set(stops.filter(({ chain }) => chain !== undefined).map(({ pod: { uid } }) => uid));
}

/** Of the units that are not pods, only those stopped along with a pod of the same phase are waited for. */
function withUnitsOfPhase(phases: readonly ShutdownPhase[], pods: readonly PodView[]): readonly PodView[] {
  const stopped = new Map<PodUid, ReadonlySet<string>>();
  for (const { stops } of planShutdown(phases, pods)) {
    const along = new Set(stops.flatMap(({ pod: { takesAlong = [] } }) => takesAlong));
    for (const { pod } of stops) stopped.set(pod.uid, along);
  }
  return pods.map(({ stopsAfterUnits = [], ...pod }) => {
    const units = stopsAfterUnits.filter((unit) => stopped.get(pod.uid)?.has(unit));
    return units.length === 0 ? pod : { ...pod, stopsAfterUnits: units };
  });
}

const timeoutOf = ({ uid }: Pick<PodView, 'uid'>, { timeouts }: RehearseInput): number | null => {
  const unit = timeouts.units.get(uid);
  return unit === undefined ? null : valueOrNull(unit.timeoutMs);
};

/** TimeoutStopSec applies to each ExecStop= and to the signal after them. */
const stepsOf = ({ uid }: Pick<PodView, 'uid'>, { timeouts }: RehearseInput): number =>
  1 + (timeouts.units.get(uid)?.stopCommands ?? 0);

/** The latest time at which systemd kills it, counted from its signal. */
function podKilledAfterMs(pod: Pick<PodView, 'uid'>, input: RehearseInput): number | null {
  const unit = input.timeouts.units.get(pod.uid);
  return unit === undefined ? null : killedAfterMs(unit);
}

/** Until its grace period is over or systemd kills it. */
function worstOf(pod: PodView, input: RehearseInput): RehearsedPod {
  const killedMs = podKilledAfterMs(pod, input);
  const stopMs = killedMs !== null && Number.isFinite(killedMs) ? killedMs : null;
  if (isSlice(input.timeouts.units.get(pod.uid))) return { declared: pod, stopMs, isTold: 'at-once' };
  return { declared: pod, stopMs, ...((pod.stopsAfterUnits ?? []).length > 0 ? { isTold: 'late' } : {}) };
}

/** The longest known stop; the worst case if none is known or the pod had to be killed before. */
function expectedOf(pod: PodView, input: RehearseInput): RehearsedPod {
  const worst = worstOf(pod, input);
  const observed = input.observed.get(pod.uid);
  if (observed === undefined || observed.endedMs === null || observed.unfinishedMs !== null) return worst;
  return { ...worst, stopMs: Math.min(observed.endedMs, worst.stopMs ?? Number.POSITIVE_INFINITY) };
}

/** If nothing is known about a pod, it is also unknown whether those after it have to wait. */
function soonestOf(pod: PodView, input: RehearseInput): RehearsedPod {
  const { isTold, ...expected } = expectedOf(pod, input);
  const atOnce = isTold === 'at-once' ? { isTold } : {};
  return { ...expected, ...(input.observed.has(pod.uid) ? {} : { stopMs: 0 }), ...atOnce };
}

type Rehearsals = { readonly [R in 'worst' | 'expected' | 'soonest']: Rehearsal };

function phaseRows(input: RehearseInput, { worst, expected, soonest }: Rehearsals): readonly PhaseRow[] {
  const byUid = new Map(input.pods.map((pod) => [pod.uid, pod]));
  const spanOf = ({ phases }: Rehearsal, of: number): Span | null => {
    const found = phases.find(({ phase }) => phase === of);
    return found === undefined ? null : { startMs: found.startMs, endMs: found.endMs };
  };
  return planShutdown(input.config.phases, input.pods).map(({ phase, fromPriority, periodSeconds, stops }) => ({
    phase,
    fromPriority,
    periodSeconds,
    worst: spanOf(worst, phase),
    expected: spanOf(expected, phase),
    pods: stops.flatMap(({ pod: { uid } }) => {
      const pod = byUid.get(uid);
      const turn = expected.pods.get(uid);
      const toldAfterMs = Math.max(0, (turn?.toldMs ?? 0) - (spanOf(expected, phase)?.startMs ?? 0));
      const turnMs = turn?.getsMs ?? 0;
      const row = { toldAfterMs, turnMs, mostMs: soonest.pods.get(uid)?.getsMs ?? turnMs };
      return pod === undefined ? [] : [podRow(pod, worst.pods.get(uid)?.graceSeconds ?? 0, row, input)];
    }),
  }));
}

/** `mostMs`: what it gets if predecessors of unknown duration end at once. */
type RowTurn = { readonly toldAfterMs: number; readonly turnMs: number; readonly mostMs: number };

function podRow(pod: PodView, graceSeconds: number, turn: RowTurn, input: RehearseInput): PodStopRow {
  const { uid, namespace, name, terminationGraceSeconds } = pod;
  const timeoutMs = timeoutOf(pod, input);
  const observed = input.observed.get(uid) ?? null;
  const killedMs = podKilledAfterMs(pod, input);
  const atMostMs = Math.min(givenSeconds(graceSeconds) * 1_000, killedMs ?? Number.POSITIVE_INFINITY);
  const gets = { leastMs: Math.min(turn.turnMs, atMostMs), mostMs: Math.min(turn.mostMs, atMostMs) };
  const isDefault = timeoutMs === valueOrNull(input.timeouts.defaultMs);
  const wants = {
    ownMs: terminationGraceSeconds * 1_000,
    isOwnDefault: pod.isGraceDefault === true,
    timeoutMs: killedMs,
    isTimeoutOwn: timeoutMs !== null && !isDefault,
  };
  return {
    uid,
    namespace,
    name,
    priority: saidPriority(pod),
    graceSeconds,
    ownGraceSeconds: terminationGraceSeconds,
    unit: input.timeouts.units.get(uid)?.unit ?? null,
    stopTimeoutMs: timeoutMs === Number.POSITIVE_INFINITY ? 'infinity' : timeoutMs,
    stopSteps: stepsOf(pod, input),
    observed,
    toldAfterMs: turn.toldAfterMs,
    getsMs: gets.leastMs,
    verdict: verdictOf(gets, wants, observed),
  };
}

function secondTierOf(input: RehearseInput, neededMs: number): SecondTier | null {
  const { secondTier, stopTimeoutMs } = input.status;
  if (!secondTier || stopTimeoutMs === null || input.config.phases.length === 0) return null;
  const leftMs = stopTimeoutMs === 'infinity' ? null : Math.max(0, stopTimeoutMs - AGENT_END_MS);
  const pods = input.pods.map((pod) => worstOf(pod, input));
  const { totalMs } = rehearse(input.config, pods, { kind: 'stop', leftMs: leftMs ?? neededMs });
  return { stopTimeoutMs, leftMs, worstMs: totalMs };
}

type Delay = { readonly neededMs: number; readonly grantedMs: number | null };

function warningsOf(input: RehearseInput, phases: readonly PhaseRow[], delay: Delay): readonly string[] {
  const { timeouts, status } = input;
  const shown = new Set(input.pods.map(({ uid }) => uid));
  const unknownUnits = [...timeouts.units].flatMap(([uid, { unit, timeoutMs }]) =>
    timeoutMs.known || timeoutMs.why === 'not-applicable' || !shown.has(uid)
      ? []
      : [`TimeoutStopSec of ${unit} is not known: ${timeoutMs.detail}`],
  );
  return [
    ...(status.running === null ? [] : ['a shutdown is under way: nodewarden status shows it']),
    ...lockWarnings(status, delay),
    ...delayWarnings(delay),
    ...phaseWarnings(input.config.phases, phases),
    ...phases.flatMap(({ pods }) => pods).flatMap(podWarnings),
    ...bindingWarnings(input),
    ...unknownUnits,
    ...timeouts.problems,
    ...(status.secondTier ? [] : ["nothing is stopped in phases when the machine goes down without logind's signal"]),
  ];
}

/** In a phase, their end would take the time of those that are stopped later. */
function leftWarnings({ pods, config }: RehearseInput): readonly string[] {
  return pods.flatMap((pod) => {
    const action = leftBecause(pod, config.phases);
    return action === null ? [] : [leftToSystemd(podName(pod), action)];
  });
}

/** A pod that is listed nevertheless is stopped, whatever the finding says. */
function bindingWarnings({ findings, pods }: RehearseInput): readonly string[] {
  const stopped = new Set(pods.map((pod) => `${UNBOUND}${podName(pod)}`));
  const unbound = findings.filter(({ id }) => id.startsWith(UNBOUND));
  return unbound.map(({ id, text }) => (stopped.has(id) ? text : `not stopped in order: ${text}`));
}

function lockWarnings({ lock }: RehearseInput['status'], { neededMs }: Delay): readonly string[] {
  if (neededMs <= 0 || lock.kind !== 'not-armed' || lock.isHeld) return [];
  return [`the lock is not held now: a shutdown would not wait for the phases (${lock.why})`];
}

function delayWarnings({ neededMs, grantedMs }: Delay): readonly string[] {
  if (grantedMs === null || grantedMs >= neededMs) return [];
  const text = `logind grants ${sayDuration(grantedMs)} of the ${sayDuration(neededMs)} that all phases need`;
  return [`${text}: they shrink to fit, and the times above are what the pods get`];
}

function phaseWarnings(configured: readonly ShutdownPhase[], phases: readonly PhaseRow[]): readonly string[] {
  const said = phases.flatMap(({ phase, periodSeconds, pods }) =>
    periodSeconds > 0 || pods.length === 0
      ? []
      : [`phase ${phase} lasts 0s: it does not wait for its ${countPods(pods.length)}`],
  );
  const lowest = configured[0]?.fromPriority ?? 0;
  const below = (phases[0]?.pods ?? []).filter(({ priority }) => priority !== null && priority < lowest).map(podName);
  if (below.length === 0) return said;
  const text = `the first phase begins at priority ${lowest}, but also stops pods with a lower one: ${below.join(', ')}`;
  return [...said, text];
}

/** Whether systemd's timeout ends it, not the time of the phase or of the manifest. */
function podWarnings(row: PodStopRow): readonly string[] {
  const { unit, stopTimeoutMs, stopSteps, graceSeconds } = row;
  if (unit === null || typeof stopTimeoutMs !== 'number' || stopTimeoutMs * stopSteps >= graceSeconds * 1_000)
    return [];
  const of = `its TimeoutStopSec of ${sayMs(stopTimeoutMs)}`;
  const each =
    stopSteps === 1 ? of : `${sayMs(stopTimeoutMs * stopSteps)}, ${of} for each ExecStop= and for the signal after it`;
  const text = `systemd kills ${unit} after ${each}`;
  return [`${text}, before the ${sayDuration(graceSeconds * 1_000)} that ${podName(row)} is given`];
}

/** Added to what was observed, because the next stop may take longer. */
const OBSERVED_MARGIN = 1.25;
/** Used when all that is known is that the time was too short. */
const UNFINISHED_MARGIN = 2;

/** Only the largest change per phase. `chained`: pods that share its time with others. */
function changesOf(phases: readonly PhaseRow[], chained: ReadonlySet<PodUid>): readonly Change[] {
  const ofPhases = new Map<number, Extract<Change, { what: 'phase' }>>();
  const ofPods: Change[] = [];
  for (const { phase, fromPriority, periodSeconds, pods } of phases) {
    const wanted = pods.map((pod) => ({ pod, seconds: wantedSeconds(pod) }));
    const ofPhase = wanted.map(({ pod, seconds }) => {
      const isShared = chained.has(pod.uid) && pod.getsMs > 0 && pod.getsMs < pod.graceSeconds * 1_000;
      return isShared ? Math.ceil((periodSeconds * 1_000 * (seconds ?? 0)) / pod.getsMs) : (seconds ?? 0);
    });
    const most = Math.max(0, ...ofPhase);
    // Beside a kubelet, a phase comes twice.
    if (most > Math.max(periodSeconds, ofPhases.get(phase)?.seconds ?? 0))
      ofPhases.set(phase, { what: 'phase', phase, fromPriority, now: periodSeconds, seconds: most });
    for (const { pod, seconds } of wanted) if (seconds !== null) ofPods.push(...podChanges(pod, seconds));
  }
  return [...ofPhases.values(), ...ofPods];
}

function podChanges(row: PodStopRow, seconds: number): readonly Change[] {
  const { ownGraceSeconds, unit, stopTimeoutMs, stopSteps } = row;
  const pod = podName(row);
  const changes: Change[] = [];
  if (ownGraceSeconds < seconds) {
    changes.push({ what: 'terminationGracePeriodSeconds', pod, now: ownGraceSeconds, seconds });
  }
  if (unit !== null && typeof stopTimeoutMs === 'number' && stopTimeoutMs * stopSteps < seconds * 1_000) {
    const each = Math.ceil(seconds / stopSteps);
    changes.push({ what: 'TimeoutStopSec', pod, unit, now: stopTimeoutMs / 1_000, seconds: each });
  }
  return changes;
}

/** The agent's TimeoutStopSec that all phases with the proposed values would fit into, if the current one is too short. */
function agentChanges(
  configured: readonly ShutdownPhase[],
  changes: readonly Change[],
  secondTier: SecondTier | null,
  worstMs: number,
): readonly Change[] {
  if (secondTier === null || secondTier.worstMs >= worstMs) return [];
  const { stopTimeoutMs } = secondTier;
  if (stopTimeoutMs === 'infinity') return [];
  const phases = configured.map(({ fromPriority, periodSeconds }) => {
    const change = changes.find((one) => one.what === 'phase' && one.fromPriority === fromPriority);
    return { fromPriority, periodSeconds: change?.seconds ?? periodSeconds };
  });
  const seconds = Math.ceil((totalMs(phases) + AGENT_END_MS) / 1_000);
  return [{ what: 'agentTimeoutStopSec', now: stopTimeoutMs / 1_000, seconds }];
}

/** The time that a pod that cannot finish would need; null: it can finish, or this is unknown. */
function wantedSeconds({ verdict, observed, getsMs }: PodStopRow): number | null {
  if (verdict.kind === 'finishes') return null;
  const { because, needsMs } = verdict;
  if (because !== 'observed') return needsMs === null ? null : Math.ceil(needsMs / 1_000);
  if (needsMs !== null) return Math.ceil((needsMs * OBSERVED_MARGIN) / 1_000);
  return Math.ceil((Math.max(getsMs, observed?.unfinishedMs ?? 0) * UNFINISHED_MARGIN) / 1_000);
}
