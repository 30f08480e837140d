import { sayCulprit } from '../core/attribution.ts';
import type { Decision, DecisionId } from '../core/decision.ts';
import { sayDuration } from '../core/duration.ts';
import type { Outcome } from '../core/outcome.ts';
import type { Victim } from '../core/pod.ts';
import { sayBytes } from '../core/quantity.ts';
import { assertNever } from '../core/reading.ts';
import { and, sayGivenBack, sayThreshold, sayTies } from '../core/say.ts';

/** A decision in one line, without the time. Names of pods are as tenants chose them: escape before printing. */
export function sayDecision(decision: Decision, victimOf: (id: DecisionId) => string = String): string {
  switch (decision.kind) {
    case 'reclaim':
      return `reclaim on the node: ${sayThreshold(decision.threshold)}`;
    case 'evict':
      return and(
        and(`evict ${podName(decision.victim)}: ${sayThreshold(decision.threshold)}`, sayCulprit(decision.growth)),
        sayTies(decision),
      );
    case 'evict-over-limit':
      return `evict ${podName(decision.victim)}: ${decision.message.trim()}`;
    case 'hasten':
      return `cut the grace of ${victimOf(decision.eviction)}: ${sayThreshold(decision.threshold)}`;
    case 'set-condition':
      return `${decision.condition} is ${decision.status ? 'true' : 'false'}`;
    case 'stop-for-shutdown':
      return and(`stop ${podName(decision.victim)} in phase ${decision.phase} of the shutdown`, sayTies(decision));
    case 'take-lock':
      return 'take the shutdown lock';
    case 'undo-stops':
      return 'start again what the cancelled shutdown stopped';
    case 'release-lock':
      return `release the shutdown lock: ${decision.why === 'out-of-time' ? 'out of time' : 'all phases are done'}`;
    default:
      return assertNever(decision);
  }
}

/** Whom one of these decisions is about; its own id where that is not told. */
export function victimIn(decisions: readonly { readonly decision: Decision }[]): (id: DecisionId) => string {
  return (id) => {
    const found = decisions.find(({ decision }) => decision.id === id)?.decision;
    return found !== undefined && 'victim' in found ? podName(found.victim) : id;
  };
}

/** What became of it. `afterMs`: since the stop began; null where that is not known. */
export function sayOutcome(outcome: Outcome, afterMs: number | null): string {
  const after = afterMs === null ? '' : ` after ${sayMs(afterMs)}`;
  switch (outcome.kind) {
    case 'reclaimed':
      return outcome.freed.known
        ? `freed ${sayBytes(outcome.freed.value)}`
        : `freed an unknown amount (${outcome.freed.detail})`;
    case 'ended':
      return `empty${after} by ${outcome.via}, ${sayGivenBack(outcome)}`;
    case 'survived':
      return `survived${after}: ${outcome.detail}; ${outcome.left.length} processes left`;
    case 'dropped':
      return DROPPED[outcome.because];
    default:
      return assertNever(outcome);
  }
}
const DROPPED: { readonly [B in Extract<Outcome, { kind: 'dropped' }>['because']]: string } = {
  'no-longer-met': 'dropped: the threshold was no longer met',
  gone: 'dropped: the pod was gone already',
  'dry-run': 'dropped: dry run',
  cancelled: 'dropped: the shutdown was cancelled before its turn',
  'left-to-systemd': 'dropped: systemd stops it after the phases',
  rebound: 'dropped: its manifest has named another cgroup, unit or container since',
};

/** "4.2ms", "12.5s": as exact as a person wants it. */
export function sayMs(ms: number): string {
  const step = ms < 100 ? 0.1 : ms < 10_000 ? 1 : 1_000;
  return sayDuration(Math.round(ms / step) * step);
}

export const podName = ({ namespace, name }: Pick<Victim, 'namespace' | 'name'>): string => `${namespace}/${name}`;
