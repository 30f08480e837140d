import type { ShutdownPhase } from '../../core/core-config.ts';
import type { Decision, DecisionId } from '../../core/decision.ts';
import { groupBy } from '../../core/group-by.ts';
import type { Unconfirmed } from '../../core/observation.ts';
import type { Outcome } from '../../core/outcome.ts';
import { type PodUid, podName } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { PhaseEnd } from '../../core/reason.ts';
import type { RecordNote, ShutdownFact } from '../../ports.ts';
import { type DecisionRecord, joinDecisions, type RecordEntry } from '../entry.ts';

/** One shutdown, plan versus actual. Every `atMs` belongs to `bootId`. */
export type ShutdownRecord = {
  readonly bootId: string;
  /** In a dry run: nothing was stopped. */
  readonly dry: boolean;
  readonly beganWallMs: number;
  readonly beganMs: MonoMs;
  /** null: the record does not contain its beginning. */
  readonly plan: ShutdownPlan | null;
  /** By number: all configured phases, including those without pods. */
  readonly phases: readonly PhaseRecord[];
  /** Beside a kubelet: the result of the announcement before the first phase; null: none in time. Absent: no announcement. */
  readonly announced?: { readonly atMs: MonoMs; readonly detail: string | null };
  /** Beside a kubelet: what the API still showed at the end; null: it did not answer. Absent: no confirmation was awaited. */
  readonly confirmed?: { readonly atMs: MonoMs; readonly tookMs: number; readonly left: Unconfirmed | null };
  /** Pods that were started meanwhile and stopped again. `times`: earlier stops; from 3 on, it is left running. */
  readonly startedAgain: readonly { readonly atMs: MonoMs; readonly pod: string; readonly times: number }[];
  readonly lockLost: readonly { readonly atMs: MonoMs; readonly phase: number; readonly detail: string }[];
  /** An agent that was started during the shutdown continued it. */
  readonly resumed: readonly { readonly atMs: MonoMs; readonly phase: number }[];
  readonly cancelled: CancelRecord | null;
  readonly undone: { readonly started: readonly string[]; readonly notUndone: readonly string[] } | null;
  readonly released: { readonly atMs: MonoMs; readonly why: 'all-phases-done' | 'out-of-time' } | null;
  readonly end: ShutdownEnd;
  /** All its decisions, in the order of the record. */
  readonly decisions: readonly DecisionId[];
};
type ShutdownPlan = {
  /** `stop`: without logind's signal, systemd stopped the agent while the machine went down. */
  readonly tier: 'logind' | 'stop';
  /** poweroff, reboot, …; null = not known. */
  readonly type: string | null;
  /** What logind granted; null = no lock was held. */
  readonly grantedMs: number | null;
  /** The phases were shrunk into this (D11); null = they were not. */
  readonly limitMs: number | null;
  /** It stops what the phases after logind's signal left; absent: there were no such phases. */
  readonly isSecond?: true;
  /** The kubelet stopped the pods. */
  readonly byKubelet?: true;
};
type CancelRecord = {
  readonly atMs: MonoMs;
  readonly phase: number;
  readonly why: string;
  /** false: logind continued the shutdown. */
  readonly isHonoured: boolean;
};
/** `phase`: the one that ran, or ran last; 0 = none had begun. */
type ShutdownEnd =
  | { readonly kind: 'released' }
  | { readonly kind: 'cancelled' }
  /** It did not finish: the boot ended, or the agent ended and did not continue. */
  | { readonly kind: 'cut'; readonly phase: number; readonly by: 'boot-ended' | 'agent-ended' }
  | { readonly kind: 'running'; readonly phase: number };
export type PhaseRecord = {
  /** Counted from 1. */
  readonly phase: number;
  /** null: the record does not contain the plan. */
  readonly fromPriority: number | null;
  /** Its own period; null: not in the record. */
  readonly wantedMs: number | null;
  /** `waiting`: the running shutdown has not reached it yet; `not-reached`: the shutdown ended before. */
  readonly state: 'over' | 'running' | 'cut' | 'no-pods' | 'waiting' | 'not-reached';
  readonly began: { readonly atMs: MonoMs; readonly wallMs: number; readonly periodMs: number } | null;
  readonly over: { readonly atMs: MonoMs; readonly tookMs: number; readonly by: PhaseEnd } | null;
  readonly pods: readonly PodStop[];
};
export type PodStop = {
  /** namespace/name. */
  readonly pod: string;
  /** `uid`, `priority`, `graceSeconds` and `decision` are null if its decision is lost: only the phase names it. */
  readonly uid: PodUid | null;
  readonly priority: number | null;
  readonly graceSeconds: number | null;
  readonly decision: DecisionId | null;
  /** When its stop was decided, with its phase. */
  readonly atMs: MonoMs;
  /** How long after that it was asked to stop; null: it was not; absent: not known. */
  readonly toldAfterMs?: number | null;
  /** It had been stopped before in this shutdown, and was started again. */
  readonly isAgain: boolean;
  readonly end: PodEnd;
  /** Its phase ended before it did. */
  readonly isLate: boolean;
};
type PodEnd =
  | {
      readonly kind: 'ended';
      readonly afterMs: number;
      readonly via: Extract<Outcome, { kind: 'ended' }>['via'];
    }
  | { readonly kind: 'survived' | 'unknown'; readonly afterMs: number; readonly detail: string }
  | { readonly kind: 'dropped'; readonly because: Extract<Outcome, { kind: 'dropped' }>['because'] }
  | { readonly kind: 'under-way' }
  /** Its end is not in the record: the agent or the machine was gone before. */
  | { readonly kind: 'cut-off' };

type Fact = Extract<RecordNote, { kind: 'shutdown' }> & { readonly wallMs: number };
type Stop = DecisionRecord & { readonly decision: Extract<Decision, { kind: 'stop-for-shutdown' }> };
type FactAt<W extends ShutdownFact['what']> = {
  readonly atMs: MonoMs;
  readonly wallMs: number;
  readonly fact: Extract<ShutdownFact, { what: W }>;
};
/** The part of a boot's entries from which one shutdown is derived. */
type Part = {
  readonly facts: readonly Fact[];
  readonly decisions: readonly DecisionRecord[];
  readonly stops: readonly Stop[];
  /** Runs of the agent that began or ended meanwhile. */
  readonly runs: readonly { readonly kind: 'started' | 'stopped'; readonly atMs: MonoMs }[];
  readonly isLast: boolean;
  readonly isBootOver: boolean;
};
const KINDS: readonly Decision['kind'][] = ['stop-for-shutdown', 'release-lock', 'take-lock', 'undo-stops'];

/** The shutdowns of one boot and one kind of run, dry or not, oldest first. Damaged entries must be left out before. */
export function shutdownsOfBoot(entries: readonly RecordEntry[], boot: 'running' | 'over'): readonly ShutdownRecord[] {
  const [first] = entries;
  if (first === undefined) return [];
  const { bootId, dry } = first;
  return partsOf(entries, boot).flatMap((part) => recordOf(part, { bootId, dry }) ?? []);
}

/** A shutdown begins with its fact; entries before the first fact belong to a shutdown whose beginning is lost. */
function partsOf(entries: readonly RecordEntry[], boot: 'running' | 'over'): readonly Part[] {
  const notes = entries.flatMap((entry) => (entry.kind === 'note' ? [{ ...entry.note, wallMs: entry.atWallMs }] : []));
  const facts = notes.filter((note) => note.kind === 'shutdown');
  const runs = notes.filter((note) => note.kind === 'started' || note.kind === 'stopped');
  const decisions = joinDecisions(entries).filter(({ decision }) => KINDS.includes(decision.kind));
  const beginsMs = factsOf(facts, 'began').map(({ atMs }) => atMs);
  // By time, not by position: the decisions of a look precede its facts in the record.
  const factsIn = splitAt(beginsMs, facts, ({ atMs }) => atMs);
  const runsIn = splitAt(beginsMs, runs, ({ atMs }) => atMs);
  const decisionsIn = splitAt(beginsMs, decisions, ({ decision }) => decision.atMs);
  return factsIn.map((own, i) => ({
    facts: own,
    decisions: decisionsIn[i] ?? [],
    stops: (decisionsIn[i] ?? []).filter(isStop),
    runs: runsIn[i] ?? [],
    isLast: i === beginsMs.length,
    isBootOver: boot === 'over',
  }));
}

/** One list for entries before the first bound, and one per bound with the entries up to the next. */
function splitAt<T>(boundsMs: readonly MonoMs[], list: readonly T[], atMs: (item: T) => MonoMs): readonly T[][] {
  const sortedMs = boundsMs.toSorted((a, b) => a - b);
  const parts: T[][] = [[], ...sortedMs.map(() => [])];
  let place = 0;
  for (const item of list.toSorted((a, b) => atMs(a) - atMs(b))) {
    while ((sortedMs[place] ?? Number.POSITIVE_INFINITY) <= atMs(item)) place++;
    parts[place]?.push(item);
  }
  return parts;
}

function recordOf(part: Part, of: { readonly bootId: string; readonly dry: boolean }): ShutdownRecord | null {
  const { facts, decisions } = part;
  const [fact] = facts;
  const stop = part.stops[0];
  const first = [
    ...(fact === undefined ? [] : [fact]),
    ...(stop === undefined ? [] : [{ atMs: stop.decision.atMs, wallMs: stop.atWallMs }]),
  ].toSorted((a, b) => a.atMs - b.atMs)[0];
  // Taking the lock again is not a shutdown.
  if (first === undefined) return null;
  const plan = factsOf(facts, 'began')[0]?.fact;
  const undone = factsOf(facts, 'undone').at(-1)?.fact;
  const end = endOf(part);
  const announced = factsOf(facts, 'announced')[0];
  const confirmed = factsOf(facts, 'confirmed').at(-1);
  return {
    ...of,
    beganWallMs: first.wallMs,
    beganMs: first.atMs,
    plan: plan === undefined ? null : planOf(plan),
    phases: phasesOf(part, end),
    ...(announced === undefined ? {} : { announced: { atMs: announced.atMs, detail: announced.fact.detail } }),
    ...(confirmed === undefined
      ? {}
      : { confirmed: { atMs: confirmed.atMs, tookMs: confirmed.fact.tookMs, left: confirmed.fact.left } }),
    startedAgain: factsOf(facts, 'stopped-again').map(({ atMs, fact: { pod, times } }) => ({ atMs, pod, times })),
    lockLost: factsOf(facts, 'lock-lost').map((lost) => {
      return { atMs: lost.atMs, phase: phaseAt(part, lost.atMs), detail: lost.fact.detail };
    }),
    resumed: factsOf(facts, 'resumed').map(({ atMs, fact: { phase } }) => ({ atMs, phase })),
    cancelled: cancelOf(part),
    undone: undone === undefined ? null : { started: undone.started, notUndone: undone.notUndone },
    released: releaseOf(part),
    end,
    decisions: decisions.map(({ decision }) => decision.id),
  };
}

function planOf({ tier, type, grantedMs, limitMs, isSecond, byKubelet }: ShutdownPlan): ShutdownPlan {
  return {
    ...{ tier, type: type === '' ? null : type, grantedMs, limitMs },
    ...(isSecond === undefined ? {} : { isSecond }),
    ...(byKubelet === undefined ? {} : { byKubelet }),
  };
}

function endOf(part: Part): ShutdownEnd {
  if (cancelOf(part)?.isHonoured === true) return { kind: 'cancelled' };
  if (releaseOf(part) !== null) return { kind: 'released' };
  const phase = phaseAt(part, Number.POSITIVE_INFINITY);
  const run = part.runs.at(-1);
  const lastMs = Math.max(part.facts.at(-1)?.atMs ?? 0, part.stops.at(-1)?.decision.atMs ?? 0);
  // An agent that ended, or restarted and did not resume it, no longer completes it.
  const hasAgentEnded = !part.isLast || (run !== undefined && run.atMs > lastMs);
  if (hasAgentEnded) return { kind: 'cut', phase, by: 'agent-ended' };
  return part.isBootOver ? { kind: 'cut', phase, by: 'boot-ended' } : { kind: 'running', phase };
}

function cancelOf(part: Part): CancelRecord | null {
  const heard = factsOf(part.facts, 'cancelled').at(-1);
  const refused = factsOf(part.facts, 'cancel-not-honoured').at(-1);
  if (heard !== undefined) {
    const { atMs, fact } = heard;
    return { atMs, phase: fact.phase, why: fact.why, isHonoured: refused === undefined || refused.atMs < atMs };
  }
  const taken = part.decisions.findLast(({ decision }) => decision.kind === 'take-lock')?.decision;
  // A cancel after the release has no fact of its own, but the lock is taken again only if the machine stays up.
  if (taken !== undefined) {
    const { atMs } = taken;
    return { atMs, phase: phaseAt(part, atMs), why: 'after the lock was released', isHonoured: true };
  }
  if (refused === undefined) return null;
  const { atMs } = refused;
  return { atMs, phase: phaseAt(part, atMs), why: 'it was cancelled during the delay', isHonoured: false };
}

/** The decision counts if the agent was gone before it could note its completion. */
function releaseOf({ facts, decisions }: Part): ShutdownRecord['released'] {
  const noted = factsOf(facts, 'released').at(-1);
  if (noted !== undefined) return { atMs: noted.atMs, why: noted.fact.why };
  const decided = decisions.map(({ decision }) => decision).findLast(({ kind }) => kind === 'release-lock');
  return decided?.kind === 'release-lock' ? { atMs: decided.atMs, why: decided.why } : null;
}

/** The last phase that had begun at this time; 0 = none. */
function phaseAt({ facts, stops }: Part, untilMs: MonoMs): number {
  const begun = [
    ...[...factsOf(facts, 'phase'), ...factsOf(facts, 'resumed')].map(({ atMs, fact }) => ({ atMs, of: fact.phase })),
    ...stops.map(({ decision }) => ({ atMs: decision.atMs, of: decision.phase })),
  ];
  return begun.reduce((last, { atMs, of }) => (atMs <= untilMs ? Math.max(last, of) : last), 0);
}

/** The entries about one phase. */
type PhaseParts = {
  readonly own: ShutdownPhase | undefined;
  readonly ran: FactAt<'phase'> | undefined;
  readonly ended: FactAt<'phase-over'> | undefined;
  readonly pods: readonly PodStop[];
};

function phasesOf(part: Part, end: ShutdownEnd): readonly PhaseRecord[] {
  const planned = factsOf(part.facts, 'began')[0]?.fact.phases ?? [];
  const lastPhase = phaseAt(part, Number.POSITIVE_INFINITY);
  const isAllDone = releaseOf(part)?.why === 'all-phases-done';
  // A phase begins once: a second fact about it comes from an agent that resumed it.
  const ran = new Map(
    factsOf(part.facts, 'phase')
      .map((begun) => [begun.fact.phase, begun] as const)
      .toReversed(),
  );
  const ended = new Map(factsOf(part.facts, 'phase-over').map((over) => [over.fact.phase, over] as const));
  const rows = groupBy(stopsOf(part, ended, end), ({ phase }) => phase);
  const numbers = new Set([...planned.map((_, i) => i + 1), ...ran.keys(), ...ended.keys(), ...rows.keys()]);
  return [...numbers]
    .toSorted((a, b) => a - b)
    .map((phase) => {
      const begun = ran.get(phase);
      const told = (rows.get(phase) ?? []).map(({ stop }) => stop);
      const pods = [...told, ...lostStops(told, begun, ended.get(phase), otherEnd(part, end))];
      const parts = { own: planned[phase - 1], ran: begun, ended: ended.get(phase), pods };
      return phaseRecord(phase, parts, stateOf(parts, end, phase < lastPhase || isAllDone));
    });
}

function phaseRecord(phase: number, { own, ran, ended, pods }: PhaseParts, state: PhaseRecord['state']): PhaseRecord {
  return {
    phase,
    fromPriority: own?.fromPriority ?? null,
    wantedMs: own === undefined ? (ran?.fact.wantedMs ?? null) : Math.max(0, own.periodSeconds) * 1_000,
    state,
    began: ran === undefined ? null : { atMs: ran.atMs, wallMs: ran.wallMs, periodMs: ran.fact.periodMs },
    over: ended === undefined ? null : { atMs: ended.atMs, tookMs: ended.fact.tookMs, by: ended.fact.by },
    pods,
  };
}

/** `isPassed`: a later one has begun, or all are done. */
function stateOf({ ran, ended, pods }: PhaseParts, end: ShutdownEnd, isPassed: boolean): PhaseRecord['state'] {
  if (ended !== undefined) return 'over';
  if (ran !== undefined || pods.length > 0) return end.kind === 'running' ? 'running' : 'cut';
  if (isPassed) return 'no-pods';
  return end.kind === 'running' ? 'waiting' : 'not-reached';
}

/** The end of a stop without an outcome. */
function otherEnd({ isBootOver }: Part, end: ShutdownEnd): 'under-way' | 'cut-off' {
  return isBootOver || end.kind === 'cut' ? 'cut-off' : 'under-way';
}

function stopsOf(
  part: Part,
  endedPhases: ReadonlyMap<number, FactAt<'phase-over'>>,
  end: ShutdownEnd,
): readonly { readonly phase: number; readonly stop: PodStop }[] {
  const stopped = new Set<PodUid>();
  return part.stops.map(({ decision, outcomes }) => {
    const { id, atMs, victim, phase, graceSeconds } = decision;
    const { uid, priority } = victim;
    const pod = podName(victim);
    const isAgain = stopped.has(uid);
    stopped.add(uid);
    const outcome = outcomes.at(-1);
    const over = endedPhases.get(phase);
    const isOutlasted = over !== undefined && (outcome === undefined || outcome.atMs > over.atMs);
    const isLate = isOutlasted || over?.fact.running.includes(pod) === true;
    const toldMs = outcome === undefined || !('toldMs' in outcome) ? undefined : outcome.toldMs;
    const podEnd = outcome === undefined ? null : podEndOf(outcome, toldMs ?? atMs);
    const told = toldMs === undefined ? {} : { toldAfterMs: toldMs === null ? null : Math.max(0, toldMs - atMs) };
    const said = { ...told, end: podEnd ?? { kind: otherEnd(part, end) }, isLate };
    return { phase, stop: { pod, uid, priority, graceSeconds, decision: id, atMs, isAgain, ...said } };
  });
}

/** Pods that the phase names and whose decision is lost. */
function lostStops(
  told: readonly PodStop[],
  ran: FactAt<'phase'> | undefined,
  ended: FactAt<'phase-over'> | undefined,
  kind: 'under-way' | 'cut-off',
): readonly PodStop[] {
  if (ran === undefined) return [];
  const names = new Set(told.map(({ pod }) => pod));
  return ran.fact.pods
    .filter((pod) => !names.has(pod))
    .map((pod) => ({
      pod,
      uid: null,
      priority: null,
      graceSeconds: null,
      decision: null,
      atMs: ran.atMs,
      isAgain: false,
      end: { kind },
      isLate: ended?.fact.running.includes(pod) === true,
    }));
}

/** null: the outcome of a reclaim, or of a kind that a later version writes, which says nothing about a pod. */
function podEndOf(outcome: Outcome, toldMs: MonoMs): PodEnd | null {
  const afterMs = Math.max(0, outcome.atMs - toldMs);
  switch (outcome.kind) {
    case 'ended':
      return { kind: 'ended', afterMs, via: outcome.via };
    case 'survived':
    case 'unknown':
      return { kind: outcome.kind, afterMs, detail: outcome.detail };
    case 'dropped':
      return { kind: 'dropped', because: outcome.because };
    default:
      return null;
  }
}

function factsOf<W extends ShutdownFact['what']>(facts: readonly Fact[], what: W): readonly FactAt<W>[] {
  return facts.flatMap(({ atMs, wallMs, fact }) => (isFact(fact, what) ? [{ atMs, wallMs, fact }] : []));
}

function isFact<W extends ShutdownFact['what']>(
  fact: ShutdownFact,
  what: W,
): fact is Extract<ShutdownFact, { what: W }> {
  return fact.what === what;
}

function isStop(record: DecisionRecord): record is Stop {
  return record.decision.kind === 'stop-for-shutdown';
}
