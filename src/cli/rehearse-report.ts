import type { CoreConfig, ShutdownPhase } from '../core/core-config.ts';
import { sayDuration } from '../core/duration.ts';
import type { PodUid, PodView } from '../core/pod.ts';
import { valueOrNull } from '../core/reading.ts';
import { neededDelayMs, planShutdown } from '../core/shutdown-plan.ts';
import { AGENT_END_MS, totalMs } from '../core/shutdown-time.ts';
import { givenSeconds } from '../core/stop-chain.ts';
import type { Finding } from '../ports.ts';
import type { ObservedStops } from '../record/observed-stops.ts';
import { podName, sayMs } from '../serve/say-decision.ts';
import type { LockStatus, ShutdownStatus } from '../serve/shutdown-status.ts';
import { type Rehearsal, type RehearsedPod, type RehearsedStart, rehearse } from '../simulate/rehearse.ts';
import { notesOf } from './rehearse-notes.ts';
import type { StopTimeouts } from './stop-timeouts.ts';

/** What `rehearse shutdown -o json` prints; docs/json.md describes every field. */
export type RehearseReport = {
  readonly schema: 1;
  readonly node: string;
  readonly atWallMs: number;
  readonly dryRun: boolean;
  readonly lock: LockStatus;
  /** What the phases want of logind in all, those without pods too. */
  readonly neededMs: number;
  /** What logind grants; null: not known, and taken as enough. */
  readonly grantedMs: number | null;
  /** Empty: shutdown is off. */
  readonly phases: readonly PhaseRow[];
  /** How long all phases take: with every pod until its grace is over, and as it went before. */
  readonly worstMs: number;
  readonly expectedMs: number;
  /** The phases without logind's signal; null: off, or what systemd leaves is not known. */
  readonly secondTier: {
    readonly stopTimeoutMs: number | 'infinity';
    /** null: no limit. */
    readonly leftMs: number | null;
    readonly worstMs: number;
  } | null;
  /** What would let those finish who cannot, and the phases have their time without logind's signal too. */
  readonly changes: readonly Change[];
  /** What is as it should be, and worth knowing: who stops after whom, and with whom. */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
  /** `namespace/name` */
  readonly cannotFinish: readonly string[];
};
type Span = { readonly startMs: number; readonly endMs: number };
export type PhaseRow = {
  readonly phase: number;
  readonly fromPriority: number;
  readonly graceSeconds: number;
  /** Since the beginning of the shutdown; null: it has no pods and takes no time. */
  readonly worst: Span | null;
  readonly expected: Span | null;
  readonly pods: readonly PodStopRow[];
};
export type PodStopRow = {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  readonly priority: number;
  /** What it is asked to end within: its own, or what its phase has, whichever is less. */
  readonly graceSeconds: number;
  readonly ownGraceSeconds: number;
  /** null: it is not bound to a unit, or the manifests could not be read. */
  readonly unit: string | null;
  /** TimeoutStopSec of the unit; null: no unit, or not known. */
  readonly stopTimeoutMs: number | 'infinity' | null;
  /** null: the record knows no stop of it. */
  readonly observed: ObservedStops | null;
  /** When it is told, after the beginning of its phase: later than the others where it waits for some. */
  readonly toldAfterMs: number;
  /** What it has from then on until it is killed, by the agent or by systemd. */
  readonly getsMs: number;
  readonly verdict: StopVerdict;
};
/** `declared`: terminationGracePeriodSeconds; `stop-timeout`: TimeoutStopSec of its unit. */
export type StopVerdict =
  | { readonly kind: 'finishes'; readonly because: 'observed' | 'declared' | 'stop-timeout' }
  /** It declares more than it gets; whether it needs that nobody knows. */
  | { readonly kind: 'may-need-more'; readonly because: 'declared' | 'stop-timeout'; readonly needsMs: number | null }
  | {
      readonly kind: 'cannot-finish';
      readonly because: 'observed' | 'declared' | 'stop-timeout';
      /** null: nobody knows, only that it is more than what it had. */
      readonly needsMs: number | null;
    };
export type Change =
  | {
      readonly what: 'phase';
      readonly phase: number;
      readonly fromPriority: number;
      readonly now: number;
      readonly seconds: number;
    }
  | {
      readonly what: 'terminationGracePeriodSeconds';
      readonly pod: string;
      readonly now: number;
      readonly seconds: number;
    }
  | {
      readonly what: 'TimeoutStopSec';
      readonly pod: string;
      readonly unit: string;
      readonly now: number;
      readonly seconds: number;
    }
  | { readonly what: 'agentTimeoutStopSec'; readonly now: number; readonly seconds: number };

export type RehearseInput = {
  readonly node: { readonly name: string; readonly dryRun: boolean };
  readonly atWallMs: number;
  readonly config: Pick<CoreConfig, 'phases' | 'shutdownCarryOver' | 'shutdownCancel'>;
  readonly pods: readonly PodView[];
  readonly status: Pick<ShutdownStatus, 'lock' | 'stopTimeoutMs' | 'secondTier' | 'running'>;
  readonly observed: ReadonlyMap<PodUid, ObservedStops>;
  readonly timeouts: StopTimeouts;
  /** The daemon's, of which those about the binding of a pod are told. */
  readonly findings: readonly Finding[];
};

/** Above what was observed, since the next stop may take longer. */
const OBSERVED_MARGIN = 1.25;
/** Findings about a pod whose unit or cgroup cannot be found; the daemon has no such pod. */
const UNBOUND = 'binding/';
/** Where all that is known is that it was not enough. */
const UNFINISHED_MARGIN = 2;

export function rehearseReport(input: RehearseInput): RehearseReport {
  const { node, atWallMs, config, pods, status } = input;
  const neededMs = neededDelayMs(config.phases);
  const { lock } = status;
  const grantedMs = lock.kind === 'armed' || lock.kind === 'not-armed' ? lock.grantedMs : null;
  const start: RehearsedStart = { kind: 'logind', grantedMs: grantedMs ?? neededMs };
  const worst = rehearse(
    config,
    pods.map((pod) => worstOf(pod, input)),
    start,
  );
  const expected = rehearse(
    config,
    pods.map((pod) => expectedOf(pod, input)),
    start,
  );
  const phases = phaseRows(input, worst, expected);
  const rows = phases.flatMap((phase) => phase.pods);
  const secondTier = secondTierOf(input, neededMs);
  const changes = changesOf(phases);
  return {
    schema: 1,
    node: node.name,
    atWallMs,
    dryRun: node.dryRun,
    lock,
    neededMs,
    grantedMs,
    phases,
    worstMs: worst.totalMs,
    expectedMs: expected.totalMs,
    secondTier,
    changes: [...changes, ...agentChanges(config.phases, changes, secondTier, worst.totalMs)],
    notes: notesOf(phases, pods),
    warnings: phases.length === 0 ? [] : warningsOf(input, phases, { neededMs, grantedMs }),
    cannotFinish: rows.filter(({ verdict }) => verdict.kind === 'cannot-finish').map(podName),
  };
}

const timeoutOf = ({ uid }: Pick<PodView, 'uid'>, { timeouts }: RehearseInput): number | null => {
  const unit = timeouts.units.get(uid);
  return unit === undefined ? null : valueOrNull(unit.timeoutMs);
};

/** Until its grace is over, or systemd kills it. */
function worstOf(pod: PodView, input: RehearseInput): RehearsedPod {
  const timeoutMs = timeoutOf(pod, input);
  return { declared: pod, stopMs: timeoutMs !== null && Number.isFinite(timeoutMs) ? timeoutMs : null };
}

/** As long as its longest stop that is known; the worst where it is not known, or had to be killed before. */
function expectedOf(pod: PodView, input: RehearseInput): RehearsedPod {
  const worst = worstOf(pod, input);
  const observed = input.observed.get(pod.uid);
  if (observed === undefined || observed.endedMs === null || observed.unfinishedMs !== null) return worst;
  return { ...worst, stopMs: Math.min(observed.endedMs, worst.stopMs ?? Number.POSITIVE_INFINITY) };
}

function phaseRows(input: RehearseInput, worst: Rehearsal, expected: Rehearsal): readonly PhaseRow[] {
  const byUid = new Map(input.pods.map((pod) => [pod.uid, pod]));
  const spanOf = ({ phases }: Rehearsal, of: number): Span | null => {
    const found = phases.find(({ phase }) => phase === of);
    return found === undefined ? null : { startMs: found.startMs, endMs: found.endMs };
  };
  return planShutdown(input.config.phases, input.pods).map(({ phase, fromPriority, graceSeconds, stops }) => ({
    phase,
    fromPriority,
    graceSeconds,
    worst: spanOf(worst, phase),
    expected: spanOf(expected, phase),
    pods: stops.flatMap(({ pod: { uid } }) => {
      const pod = byUid.get(uid);
      const startMs = spanOf(expected, phase)?.startMs ?? 0;
      return pod === undefined
        ? []
        : [podRow(pod, worst.graceSeconds.get(uid) ?? 0, turnIn(expected, uid, startMs), input)];
    }),
  }));
}

type RowTurn = { readonly toldAfterMs: number; readonly turnMs: number };

function turnIn({ turns }: Rehearsal, uid: PodUid, startMs: number): RowTurn {
  const turn = turns.get(uid);
  return { toldAfterMs: Math.max(0, (turn?.toldMs ?? 0) - startMs), turnMs: turn?.getsMs ?? 0 };
}

function podRow(pod: PodView, graceSeconds: number, turn: RowTurn, input: RehearseInput): PodStopRow {
  const { uid, namespace, name, priority, terminationGraceSeconds } = pod;
  const timeoutMs = timeoutOf(pod, input);
  const observed = input.observed.get(uid) ?? null;
  const givenMs = Math.max(Math.min(givenSeconds(graceSeconds) * 1_000, turn.turnMs), givenSeconds(0) * 1_000);
  const getsMs = Math.min(givenMs, timeoutMs ?? Number.POSITIVE_INFINITY);
  const isDefault = timeoutMs === valueOrNull(input.timeouts.defaultMs);
  const wants = { ownMs: terminationGraceSeconds * 1_000, timeoutMs, isTimeoutOwn: timeoutMs !== null && !isDefault };
  return {
    uid,
    namespace,
    name,
    priority,
    graceSeconds,
    ownGraceSeconds: terminationGraceSeconds,
    unit: input.timeouts.units.get(uid)?.unit ?? null,
    stopTimeoutMs: timeoutMs === Number.POSITIVE_INFINITY ? 'infinity' : timeoutMs,
    observed,
    toldAfterMs: turn.toldAfterMs,
    getsMs,
    verdict: verdictOf(getsMs, wants, observed),
  };
}

/** What Kubernetes gives where nobody wrote a terminationGracePeriodSeconds. */
const NOBODYS_GRACE_MS = 30_000;
type Wants = { readonly ownMs: number; readonly timeoutMs: number | null; readonly isTimeoutOwn: boolean };

/**
 * What was seen counts more than what is declared. Of what is declared a TimeoutStopSec of the unit's own counts more
 * than a terminationGracePeriodSeconds, which is 30 where nobody wrote one; systemd's default says nothing.
 */
function verdictOf(getsMs: number, wants: Wants, observed: ObservedStops | null): StopVerdict {
  const { ownMs, timeoutMs, isTimeoutOwn } = wants;
  const { endedMs, unfinishedMs } = heldAgainst(timeoutMs, observed);
  const cannot = { kind: 'cannot-finish' } as const;
  if (endedMs !== null && endedMs > getsMs) return { ...cannot, because: 'observed', needsMs: endedMs };
  if (unfinishedMs !== null && unfinishedMs >= getsMs) return { ...cannot, because: 'observed', needsMs: null };
  if (endedMs !== null && unfinishedMs === null) return { kind: 'finishes', because: 'observed' };
  // Systemd kills it before the grace that somebody wrote for it.
  if (isTimeoutOwn && timeoutMs !== null && timeoutMs < ownMs && ownMs !== NOBODYS_GRACE_MS && getsMs < ownMs) {
    return { ...cannot, because: 'stop-timeout', needsMs: ownMs };
  }
  const declaredMs = isTimeoutOwn && timeoutMs !== null ? timeoutMs : ownMs;
  const because = isTimeoutOwn ? 'stop-timeout' : 'declared';
  if (declaredMs <= getsMs) return { kind: 'finishes', because };
  return { kind: 'may-need-more', because, needsMs: Number.isFinite(declaredMs) ? declaredMs : null };
}

/** A unit that took all of its TimeoutStopSec did not end by itself: systemd killed it. */
function heldAgainst(
  timeoutMs: number | null,
  observed: ObservedStops | null,
): Pick<ObservedStops, 'endedMs' | 'unfinishedMs'> {
  if (observed === null) return { endedMs: null, unfinishedMs: null };
  const { endedMs, unfinishedMs } = observed;
  if (endedMs === null || timeoutMs === null || endedMs < timeoutMs) return { endedMs, unfinishedMs };
  return { endedMs: null, unfinishedMs: Math.max(timeoutMs, unfinishedMs ?? 0) };
}

/** Of a phase only the longest. */
function changesOf(phases: readonly PhaseRow[]): readonly Change[] {
  const ofPhases: Change[] = [];
  const ofPods: Change[] = [];
  for (const { phase, fromPriority, graceSeconds, pods } of phases) {
    const wanted = pods.map((pod) => ({ pod, seconds: wantedSeconds(pod) }));
    const most = Math.max(0, ...wanted.map(({ seconds }) => seconds ?? 0));
    if (most > graceSeconds) ofPhases.push({ what: 'phase', phase, fromPriority, now: graceSeconds, seconds: most });
    for (const { pod, seconds } of wanted) if (seconds !== null) ofPods.push(...podChanges(pod, seconds));
  }
  return [...ofPhases, ...ofPods];
}

function podChanges(row: PodStopRow, seconds: number): readonly Change[] {
  const { ownGraceSeconds, unit, stopTimeoutMs } = row;
  const pod = podName(row);
  const changes: Change[] = [];
  if (ownGraceSeconds < seconds) {
    changes.push({ what: 'terminationGracePeriodSeconds', pod, now: ownGraceSeconds, seconds });
  }
  if (unit !== null && typeof stopTimeoutMs === 'number' && stopTimeoutMs < seconds * 1_000) {
    changes.push({ what: 'TimeoutStopSec', pod, unit, now: stopTimeoutMs / 1_000, seconds });
  }
  return changes;
}

/** All phases as they are to be set fit into it, should the ones of now not fit. */
function agentChanges(
  configured: readonly ShutdownPhase[],
  changes: readonly Change[],
  secondTier: RehearseReport['secondTier'],
  worstMs: number,
): readonly Change[] {
  if (secondTier === null || secondTier.worstMs >= worstMs) return [];
  const { stopTimeoutMs } = secondTier;
  if (stopTimeoutMs === 'infinity') return [];
  const phases = configured.map(({ fromPriority, graceSeconds }) => {
    const change = changes.find((one) => one.what === 'phase' && one.fromPriority === fromPriority);
    return { fromPriority, graceSeconds: change?.seconds ?? graceSeconds };
  });
  const seconds = Math.ceil((totalMs(phases) + AGENT_END_MS) / 1_000);
  return [{ what: 'agentTimeoutStopSec', now: stopTimeoutMs / 1_000, seconds }];
}

/** What one that cannot finish would have to get; null: it can, or nobody knows. */
function wantedSeconds({ verdict, observed, getsMs }: PodStopRow): number | null {
  if (verdict.kind === 'finishes') return null;
  const { because, needsMs } = verdict;
  if (because !== 'observed') return needsMs === null ? null : Math.ceil(needsMs / 1_000);
  if (needsMs !== null) return Math.ceil((needsMs * OBSERVED_MARGIN) / 1_000);
  return Math.ceil((Math.max(getsMs, observed?.unfinishedMs ?? 0) * UNFINISHED_MARGIN) / 1_000);
}

function secondTierOf(input: RehearseInput, neededMs: number): RehearseReport['secondTier'] {
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
    ...input.findings.filter(({ id }) => id.startsWith(UNBOUND)).map(({ text }) => `is not stopped in order: ${text}`),
    ...unknownUnits,
    ...timeouts.problems,
    ...(status.secondTier ? [] : ["nothing is stopped in phases when the machine goes down without logind's signal"]),
  ];
}

function lockWarnings({ lock }: RehearseInput['status'], { neededMs }: Delay): readonly string[] {
  if (neededMs <= 0 || lock.kind !== 'not-armed' || lock.isHeld) return [];
  return [`the lock is not held now: a shutdown would not wait for the phases (${lock.why})`];
}

function delayWarnings({ neededMs, grantedMs }: Delay): readonly string[] {
  if (grantedMs === null || grantedMs >= neededMs) return [];
  const text = `logind grants ${sayDuration(grantedMs)} of the ${sayDuration(neededMs)} of all phases`;
  return [`${text}: they shrink into it, and the graces above are what is left`];
}

function phaseWarnings(configured: readonly ShutdownPhase[], phases: readonly PhaseRow[]): readonly string[] {
  const said = phases.flatMap(({ phase, graceSeconds, pods }) =>
    graceSeconds > 0 || pods.length === 0
      ? []
      : [`phase ${phase} lasts 0s: nobody waits for its ${sayPods(pods.length)}`],
  );
  const lowest = configured[0]?.fromPriority ?? 0;
  const below = (phases[0]?.pods ?? []).filter(({ priority }) => priority < lowest).map(podName);
  if (below.length === 0) return said;
  const text = `no phase begins at the priority of ${below.join(', ')}: the first one has them, although it begins at ${lowest}`;
  return [...said, text];
}

/** Where systemd's time, not the phase's or the manifest's, is what ends it. */
function podWarnings(row: PodStopRow): readonly string[] {
  const { unit, stopTimeoutMs, graceSeconds } = row;
  if (unit === null || typeof stopTimeoutMs !== 'number' || stopTimeoutMs >= graceSeconds * 1_000) return [];
  const text = `systemd kills ${unit} after its TimeoutStopSec of ${sayMs(stopTimeoutMs)}`;
  return [`${text}, before the ${sayDuration(graceSeconds * 1_000)} that ${podName(row)} is given`];
}

export const sayPods = (count: number): string => `${count} ${count === 1 ? 'pod' : 'pods'}`;
