import type { Decision, DecisionId, RankValue } from '../core/decision.ts';
import { sayCulprit } from '../core/eviction/attribution.ts';
import { type Comparator, UNSAID } from '../core/eviction/comparator.ts';
import type { Outcome, Removed, Rung } from '../core/outcome.ts';
import { podName } from '../core/pod/pod.ts';
import { assertNever } from '../core/reading.ts';
import type { Ties } from '../core/shutdown/chain.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { and, counted, sayAmount, sayNames, sayThreshold } from './phrases.ts';

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
      return and(`evict ${podName(decision.victim)}: ${decision.message.trim()}`, sayTies(decision));
    case 'hasten':
      return `cut the grace period of ${victimOf(decision.eviction)}: ${sayThreshold(decision.threshold)}`;
    case 'set-condition':
      return `${decision.condition} is ${decision.status ? 'true' : 'false'}`;
    case 'stop-for-shutdown':
      return and(`stop ${podName(decision.victim)} in phase ${decision.phase} of the shutdown`, sayTies(decision));
    case 'announce-shutdown':
      return `announce the shutdown, which takes at most ${sayDuration(decision.totalMs)}`;
    case 'take-lock':
      return 'take the shutdown lock';
    case 'undo-stops':
      return 'restart what the cancelled shutdown stopped';
    case 'release-lock':
      return `release the shutdown lock: ${decision.why === 'out-of-time' ? 'out of time' : 'all phases are done'}`;
    default:
      return assertNever(decision);
  }
}

/** Why the pod ranks first by a value that is unknown; null: it is known. */
export function sayFirstUnknown(by: Comparator, values: readonly RankValue[]): string | null {
  const value = values.find((entry) => entry.by === by)?.value;
  if (value === undefined || value.known) return null;
  // A pod without any comes before all others (kubelet-eviction.md 5.5).
  if (value.where !== UNSAID) return 'it has no statistics';
  return `its ${by === 'priority' ? 'priority' : 'request'} is unknown (${value.detail})`;
}

/** The victim of one of these decisions; the decision's own id if it is not there. */
export function victimIn(decisions: readonly { readonly decision: Decision }[]): (id: DecisionId) => string {
  return (id) => {
    const found = decisions.find(({ decision }) => decision.id === id)?.decision;
    return found !== undefined && 'victim' in found ? podName(found.victim) : id;
  };
}

/** The outcome of the decision. `afterMs`: since the stop began; null if that is not known. */
export function sayOutcome(outcome: Outcome, afterMs: number | null, decision: Decision): string {
  const after = afterMs === null ? '' : ` after ${sayMs(afterMs)}`;
  switch (outcome.kind) {
    case 'reclaimed':
      return and(
        outcome.freed.known
          ? `freed ${sayFreed(outcome.freed.value, decision)}`
          : `freed an unknown amount (${outcome.freed.detail})`,
        sayRemoved(outcome.removed),
      );
    case 'ended': {
      const when = outcome.isNoticedLater ? `, which a later run of the agent noticed${after}` : after;
      return and(`ended ${sayVia(outcome.via)}${when}, ${sayGivenBack(outcome)}`, outcome.detail ?? '');
    }
    case 'unknown':
      return and(`ended${after}; ${sayEndUnknown(outcome.detail)}`, sayEmptied(outcome));
    case 'survived':
      return `survived${after}: ${outcome.detail}`;
    case 'dropped':
      return `dropped: ${sayDropped(outcome.because)}`;
    default:
      return assertNever(outcome);
  }
}

/** In the unit of the signal that was reclaimed. */
const sayFreed = (amount: number, decision: Decision): string =>
  decision.kind === 'reclaim' ? sayAmount(decision.threshold.signal, amount) : sayBytes(amount);

/** The steps to end a victim beside a kubelet, and their results. `afterMs`: since the stop began. */
export function sayRung({ act, answer }: Rung, afterMs: number): string {
  return `after ${sayMs(Math.max(0, afterMs))}: ${ACTS[act]}: ${answer}`;
}
const ACTS: { readonly [A in Rung['act']]: string } = {
  evict: 'asked the API server to evict it',
  delete: 'asked the API server to delete it',
  'kill-containers': 'signalled its containers',
  'kill-pod': 'killed what was left in its cgroup',
  'kill-again': 'killed what the kubelet had started again',
  spool: 'kept the deletion for later',
  withdraw: 'dropped the deletion that was kept',
  'stop-container': 'asked the container runtime to stop a container',
};

export const sayEndUnknown = (detail: string): string => `whether by the agent's request is not known: ${detail}`;

/** What the API server shows of a pod, instead of the answer to a request to end it. */
export function sayLostAnswer(isEnding: boolean): string {
  const shown = isEnding ? 'shows the pod as gone, or as being deleted' : 'has not accepted it';
  return `the answer was lost; the API server ${shown}`;
}

/** What the runtime removed, of a reclaim; '' if it was not asked. */
export function sayRemoved(removed: Removed | undefined): string {
  if (removed === undefined) return '';
  const { containers, images, problem } = removed;
  const what = `${counted(containers, 'dead container')} and ${counted(images, 'unused image')} removed`;
  return problem === null ? what : `${what}, not everything that could be removed: ${problem}`;
}

type Dropped = Extract<Outcome, { kind: 'dropped' }>['because'];
/** Why a decision was not carried out. */
export const sayDropped = (because: Dropped): string => DROPPED[because];
const DROPPED: { readonly [B in Dropped]: string } = {
  'no-longer-met': 'the threshold is no longer met',
  'not-killed':
    'it was asked to stop and had not ended when the agent resumed that, but the threshold was no longer met',
  overdue:
    'an earlier run of the agent had begun to stop it, and it has not ended; its grace period was over for more than 10s when the agent resumed that, so it is decided anew',
  stale: 'an earlier run of the agent chose it, and is not known to have asked it to stop; it is decided anew',
  changed: 'what is declared or known of it, or the configuration, has changed since the choice; it is decided anew',
  gone: 'the pod had already ended',
  'started-anew': 'what it ran at the choice had already ended; what runs now started afterwards',
  'dry-run': 'this is a dry run',
  cancelled: 'the shutdown was cancelled before it had asked the pod to stop',
  'left-to-systemd': 'it has no processes, and systemd stops it after the phases',
  'budget-refused': 'its disruption budget refuses it',
  'eviction-not-taken': 'the API server is not known to have accepted it, or to have asked a disruption budget',
  shutdown: 'a shutdown has overtaken it, and stops the pod',
  'not-deleted': 'the API server has not confirmed its deletion, so it is stopped with the agent',
  moved: 'its cgroup is no longer the one that was measured',
  unresolved: 'it was not signalled, and its manifest, or where it runs, is not known',
  rebound: 'its manifest was removed, or now names another cgroup, unit or container',
};

type Ended = Extract<Outcome, { kind: 'ended' }>;

/** After "ended". The kernel may have killed one process of several: then it is not known what ended the pod. */
export const sayVia = (via: Ended['via']): string =>
  via === 'oom-kill' ? "with a kill by the kernel's OOM killer" : `by ${via}`;

/**
 * What an eviction brought, in the unit of the signal that it was for: "gave back 300 MiB" of memory, "nodefs.available
 * went from 1.2 GiB to 1.5 GiB". For a disk or pids, the cause of the change is not known: others use and free them too.
 */
export function sayGivenBack(outcome: Ended): string {
  return and(sayReturned(outcome), sayEmptied(outcome));
}

/** What became of its scratch directories; '' if it has none. */
export function sayEmptied({ emptied }: Pick<Ended, 'emptied'>): string {
  if (emptied === undefined) return '';
  const { freedBytes, problem } = emptied;
  const freed = freedBytes.known ? `${sayBytes(freedBytes.value)} freed` : `freed amount unknown: ${freedBytes.detail}`;
  const isNothing = freedBytes.known && freedBytes.value === 0;
  const notAll = isNothing ? `freed nothing: ${problem}` : `was not fully emptied, ${freed}: ${problem}`;
  return `its scratch ${problem === null ? `was emptied, ${freed}` : notAll}`;
}

function sayReturned({ releasedBytes, signal }: Ended): string {
  if (signal === undefined) {
    return releasedBytes.known
      ? `gave back ${sayBytes(releasedBytes.value)}`
      : `gave back an unknown amount (${releasedBytes.where}: ${releasedBytes.detail})`;
  }
  const { name, before, after } = signal;
  if (!after.known) return `${name} afterwards is unknown (${after.detail})`;
  const now = sayAmount(name, after.value);
  if (before === null) return `${name} is ${now} now`;
  const was = sayAmount(name, before);
  return was === now ? `${name} is still ${now}` : `${name} went from ${was} to ${now}`;
}

/** D16: what stops along with it, and whose priority it ranks with; '' if there is neither. */
export function sayTies({ inherited, takesAlong = [] }: Ties): string {
  const along = takesAlong.length === 0 ? '' : `also stops ${sayNames(takesAlong, TIES_SAID)}`;
  if (inherited === undefined) return along;
  const counts = `ranks with priority ${inherited.priority}, that of ${inherited.from}`;
  return along === '' ? counts : and(along, counts);
}
const TIES_SAID = 5;

/** "4.2ms", "12.5s": as precise as a person needs it. */
export function sayMs(ms: number): string {
  const step = ms < 100 ? 0.1 : ms < 10_000 ? 1 : 1_000;
  return sayDuration(Math.round(ms / step) * step);
}
