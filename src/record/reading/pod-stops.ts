import type { DecisionId } from '../../core/decision.ts';
import { groupBy } from '../../core/group-by.ts';
import type { Outcome } from '../../core/outcome.ts';
import { type PodUid, podName, saidPriority } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { graceFrom, turnOfStop } from '../../core/shutdown/chain.ts';
import type { FactAt, Part, Stop } from './shutdown-part.ts';

export type PodStop = {
  /** namespace/name. */
  readonly pod: string;
  /** `uid`, `priority`, `graceSeconds` and `decision` are null if its decision is lost: only the phase names it. `priority`: also if it was unknown. */
  readonly uid: PodUid | null;
  readonly priority: number | null;
  readonly graceSeconds: number | null;
  /** How long after it was asked to stop it was to be killed: less if it was asked late, or shares its phase with others in order. */
  readonly getsMs?: number;
  readonly decision: DecisionId | null;
  /** When its stop was decided: with its phase, or for an earlier shutdown. */
  readonly atMs: MonoMs;
  /** How long after that it was asked to stop; null: it was not; absent: not known. */
  readonly toldAfterMs?: number | null;
  /** It had been stopped before in this shutdown, and was started again. */
  readonly isAgain: boolean;
  readonly end: PodEnd;
  /** Its phase ended before it did. */
  readonly isLate: boolean;
  /** A shutdown before this one, which was cancelled, asked it to stop: its phase waits for that stop. Absent: no. */
  readonly isEarlier?: true;
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

/** The end of a stop without an outcome. */
export type OtherEnd = Extract<PodEnd, { kind: 'under-way' | 'cut-off' }>;
/** The stops that this shutdown decided, by phase. */
export function stopsOf(
  { stops }: Pick<Part, 'stops'>,
  ended: ReadonlyMap<number, FactAt<'phase-over'>>,
  otherEnd: OtherEnd,
): ReadonlyMap<number, readonly PodStop[]> {
  const stopped = new Set<PodUid>();
  const rows = stops.map((stop) => {
    const { phase, victim } = stop.decision;
    const isAgain = stopped.has(victim.uid);
    stopped.add(victim.uid);
    return { phase, stop: podStopOf(stop, { isAgain, ended: ended.get(phase), otherEnd }) };
  });
  return new Map([...groupBy(rows, ({ phase }) => phase)].map(([phase, of]) => [phase, of.map(({ stop }) => stop)]));
}

/** Pods that the phase names, without a decision of this shutdown: an earlier one had asked them to stop, or it is lost. */
export function otherStops(
  { ofBoot }: Pick<Part, 'ofBoot'>,
  { ran, ended, told }: { readonly ran: FactAt<'phase'>; readonly told: readonly PodStop[] } & Pick<How, 'ended'>,
  otherEnd: OtherEnd,
): readonly PodStop[] {
  const names = new Set(told.map(({ pod }) => pod));
  const others = ran.fact.pods.filter((pod) => !names.has(pod));
  return others.map((pod) => {
    const before = ofBoot.get(pod)?.findLast(({ decision }) => decision.atMs < ran.atMs);
    const outcome = before?.outcomes.at(-1);
    if (before !== undefined && (outcome === undefined || outcome.atMs >= ran.atMs)) {
      return { ...podStopOf(before, { isAgain: false, ended, otherEnd }), isEarlier: true };
    }
    const lost = { uid: null, priority: null, graceSeconds: null, decision: null };
    const isLate = ended?.fact.running.includes(pod) === true;
    return { pod, ...lost, atMs: ran.atMs, isAgain: false, end: otherEnd, isLate };
  });
}

type How = { readonly isAgain: boolean; readonly ended: FactAt<'phase-over'> | undefined; readonly otherEnd: OtherEnd };

function podStopOf({ decision, outcomes }: Stop, { isAgain, ended, otherEnd }: How): PodStop {
  const { id, atMs, victim, graceSeconds } = decision;
  const { uid } = victim;
  const priority = saidPriority(victim);
  const pod = podName(victim);
  const outcome = outcomes.at(-1);
  const isOutlasted = ended !== undefined && (outcome === undefined || outcome.atMs > ended.atMs);
  const isLate = isOutlasted || ended?.fact.running.includes(pod) === true;
  const toldMs = outcome === undefined || !('toldMs' in outcome) ? undefined : outcome.toldMs;
  const end = (outcome === undefined ? null : podEndOf(outcome, toldMs ?? atMs)) ?? otherEnd;
  const told = toldMs === undefined ? {} : { toldAfterMs: toldMs === null ? null : Math.max(0, toldMs - atMs) };
  // As the agent reckoned it when it asked.
  const getsMs =
    typeof toldMs === 'number' && decision.endsMs !== undefined ? graceFrom(turnOfStop(decision), toldMs) : Number.NaN;
  const gets = Number.isFinite(getsMs) ? { getsMs } : {};
  return { pod, uid, priority, graceSeconds, ...gets, decision: id, atMs, isAgain, ...told, end, isLate };
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
