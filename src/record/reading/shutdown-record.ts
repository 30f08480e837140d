import type { ShutdownPhase } from '../../core/core-config.ts';
import type { DecisionId } from '../../core/decision.ts';
import type { Unconfirmed } from '../../core/observation.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { PhaseEnd } from '../../core/reason.ts';
import type { ShutdownFact } from '../../ports.ts';
import type { RecordEntry } from '../entry.ts';
import { otherStops, type PodStop, stopsOf } from './pod-stops.ts';
import { type FactAt, factsOf, type Part, partsOf } from './shutdown-part.ts';

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
  /** Pods of a phase that ran when the first one began, and had ended before their own. */
  readonly gone: readonly { readonly atMs: MonoMs; readonly phase: number; readonly pods: readonly string[] }[];
  readonly lockLost: readonly { readonly atMs: MonoMs; readonly phase: number; readonly detail: string }[];
  /** An agent that was started during the shutdown continued it. */
  readonly resumed: readonly { readonly atMs: MonoMs; readonly phase: number }[];
  readonly cancelled: CancelRecord | null;
  readonly undone: { readonly started: readonly string[]; readonly notUndone: readonly string[] } | null;
  readonly released: ({ readonly atMs: MonoMs } & Omit<Extract<ShutdownFact, { what: 'released' }>, 'what'>) | null;
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
  /** false: logind continued the shutdown, or announced the next one during its phases. */
  readonly isHonoured: boolean;
  /** It announced the next one. */
  readonly isAnew?: true;
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
/** The shutdowns of one boot and one kind of run, dry or not, oldest first. Damaged entries must be left out before. */
export function shutdownsOfBoot(entries: readonly RecordEntry[], boot: 'running' | 'over'): readonly ShutdownRecord[] {
  const [first] = entries;
  if (first === undefined) return [];
  const { bootId, dry } = first;
  return partsOf(entries, boot).flatMap((part) => recordOf(part, { bootId, dry }) ?? []);
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
    gone: factsOf(facts, 'gone').map(({ atMs, fact: { phase, pods } }) => ({ atMs, phase, pods })),
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
  const anew = refused?.fact.isAnew === true ? ({ isAnew: true } as const) : {};
  if (heard !== undefined) {
    const { atMs, fact } = heard;
    const isHonoured = refused === undefined || refused.atMs < atMs;
    return { atMs, phase: fact.phase, why: fact.why, isHonoured, ...(isHonoured ? {} : anew) };
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
  if (noted !== undefined) {
    const { what: _, ...fact } = noted.fact;
    return { atMs: noted.atMs, ...fact };
  }
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
  // The end of a stop without an outcome.
  const otherEnd = { kind: part.isBootOver || end.kind === 'cut' ? 'cut-off' : 'under-way' } as const;
  const rows = stopsOf(part, ended, otherEnd);
  const numbers = new Set([...planned.map((_, i) => i + 1), ...ran.keys(), ...ended.keys(), ...rows.keys()]);
  return [...numbers]
    .toSorted((a, b) => a - b)
    .map((phase) => {
      const how = { ran: ran.get(phase), ended: ended.get(phase) };
      const told = rows.get(phase) ?? [];
      const others = how.ran === undefined ? [] : otherStops(part, { ...how, ran: how.ran, told }, otherEnd);
      const parts = { own: planned[phase - 1], ...how, pods: [...told, ...others] };
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
