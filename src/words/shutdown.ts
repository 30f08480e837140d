import type { PodUid } from '../core/pod/pod.ts';
import { assertNever } from '../core/reading.ts';
import type { ObservedStops, StopVerdict } from '../core/shutdown/stop-verdict.ts';
import { sayTenths } from '../core/units/duration.ts';
import type { ShutdownFact } from '../ports.ts';
import { sayMs } from './decision.ts';
import { countPods, sayNames } from './phrases.ts';
import { NOT_ANNOUNCED, sayConfirmed, sayPhaseEnd, sayStartedAgain } from './reason.ts';

export type Names = (uid: PodUid) => string;

/** `action`: `FailureAction=reboot of web.service` or the like. */
export const leftToSystemd = (pod: string, action: string): string =>
  `${pod} is not stopped in a phase, but by systemd after the last one: its end may trigger ${action}, and so begin another shutdown before the phases are over`;

/** An event of a shutdown, in one sentence. Names are as tenants chose them: escape before printing. */
export function sayFact(fact: ShutdownFact): string {
  switch (fact.what) {
    case 'began':
      return sayBegan(fact);
    case 'announced':
      return `shutdown: ${fact.detail ?? NOT_ANNOUNCED}`;
    case 'confirmed':
      return `shutdown: ${sayTenths(fact.tookMs)} after the last phase ${sayConfirmed(fact.left)}`;
    case 'resumed':
      return `shutdown: nodewarden was restarted ${fact.phase === 0 ? 'before the first phase' : `in phase ${fact.phase}`} and continues`;
    case 'phase': {
      const short = fact.periodMs < fact.wantedMs ? ` of its configured ${sayTenths(fact.wantedMs)}` : '';
      return `shutdown phase ${fact.phase}: stopping ${countPods(fact.pods.length)}, waiting at most ${sayTenths(fact.periodMs)}${short}: ${sayNames(fact.pods)}`;
    }
    case 'phase-over':
      return `shutdown phase ${fact.phase} is over after ${sayTenths(fact.tookMs)}: ${sayPhaseEnd(fact.by, fact.running)}${sayRunning(fact.running)}`;
    case 'gone':
      return `shutdown phase ${fact.phase}: ended before it: ${sayNames(fact.pods)}`;
    case 'stopped-again':
      return sayStartedAgain(fact.pod, fact.times);
    case 'lock-lost':
      return `shutdown: the lock is lost, and logind no longer waits for the phases: ${fact.detail}`;
    case 'cancelled':
      return `shutdown cancelled${fact.phase === 0 ? '' : ` in phase ${fact.phase}`}: ${fact.why}`;
    case 'cancel-not-honoured':
      return fact.isAnew
        ? 'shutdown: it was cancelled, but the next one is announced, and the phases continue for that'
        : 'shutdown: it was cancelled, but logind continues it, so the phases continue too';
    case 'undone':
      return sayUndone(fact);
    case 'released':
      if (fact.delayMs !== undefined)
        return `shutdown: logind went on when its delay of ${sayTenths(fact.delayMs)} was over, before the phases were`;
      if (fact.isOvertaken)
        return 'shutdown: systemd began to stop everything before the phases were over; they are now';
      return fact.why === 'all-phases-done'
        ? 'shutdown: all phases are done, nodewarden no longer delays it'
        : 'shutdown: out of time, nodewarden no longer delays it';
    default:
      return assertNever(fact);
  }
}

function sayBegan(fact: Extract<ShutdownFact, { what: 'began' }>): string {
  const { tier, type, phases, grantedMs, limitMs, isSecond, byKubelet } = fact;
  const how = tier === 'logind' ? '' : isSecond ? ': nodewarden stops what is left' : ', without a signal from logind';
  const what = type === null || type === '' ? 'the machine is going down' : `the machine is going down (${type})`;
  const plan = phases
    .map(({ fromPriority, periodSeconds }) => `priority ${fromPriority}: ${periodSeconds} s`)
    .join(', ');
  const granted = grantedMs === null ? '' : `; logind grants ${sayTenths(grantedMs)}`;
  const limit = limitMs === null ? '' : `; the phases have ${sayTenths(limitMs)} in total`;
  const who = byKubelet ? ': stopping the pods is left to the kubelet' : ': no pod has to stop';
  return `shutdown: ${what}${how}${plan === '' ? who : `; phases from ${plan}`}${granted}${limit}`;
}

function sayRunning(running: readonly string[]): string {
  return running.length === 0 ? '' : `; still running: ${sayNames(running)}`;
}

function sayUndone({ started, notUndone }: Extract<ShutdownFact, { what: 'undone' }>): string {
  const lists = [
    ...(started.length === 0 ? [] : [`restarted: ${sayNames(started)}`]),
    ...(notUndone.length === 0 ? [] : [`not restarted: ${sayNames(notUndone)}`]),
  ];
  return `shutdown cancelled: ${lists.join('; ')}`;
}

type Begins = { readonly phase: number; readonly fromPriority: number };

/** kubelet-shutdown.md 4.3: lower priorities than the first phase's fall into it too. */
export function sayPriorities({ phase, fromPriority }: Begins, all: readonly Begins[]): string {
  const next = all[phase]?.fromPriority;
  if (next === undefined) return all.length === 1 ? 'every priority' : `priority ${fromPriority} and above`;
  if (phase === 1) return `priorities below ${next}`;
  return next - 1 <= fromPriority ? `priority ${fromPriority}` : `priorities ${fromPriority} to ${next - 1}`;
}

type Judged = {
  readonly verdict: StopVerdict;
  readonly getsMs: number;
  readonly observed: Pick<ObservedStops, 'unfinishedMs'> | null;
};

type SayTime = (ms: number) => string;

/** "cannot finish: took 12s, gets 10s" */
export function sayStopVerdict({ verdict, getsMs, observed }: Judged, sayTime: SayTime = sayMs): string {
  if (verdict.kind === 'finishes') return FINISHES[verdict.because];
  const needs = sayNeeds(verdict, observed?.unfinishedMs ?? getsMs, sayTime);
  return `${verdict.kind === 'cannot-finish' ? 'cannot finish' : 'may not finish'}: ${needs}, gets ${sayTime(getsMs)}`;
}
const FINISHES: { readonly [B in StopVerdict['because']]: string } = {
  observed: 'finishes, judging by earlier stops',
  declared: 'gets its declared grace period',
  'stop-timeout': 'gets its whole TimeoutStopSec',
};

function sayNeeds(verdict: Exclude<StopVerdict, { kind: 'finishes' }>, triedMs: number, sayTime: SayTime): string {
  const { because, needsMs } = verdict;
  switch (because) {
    case 'observed':
      return needsMs === null ? `was still running after ${sayTime(triedMs)}` : `took ${sayTime(needsMs)}`;
    case 'declared':
      return `may take ${sayTime(needsMs ?? 0)}`;
    case 'stop-timeout':
      if (verdict.kind === 'cannot-finish')
        return `systemd kills it before its declared ${sayTime(needsMs ?? 0)} are over`;
      return needsMs === null ? 'its unit has no stop timeout' : `its unit may take ${sayTime(needsMs)}`;
  }
}

/** Beside a kubelet, after the time that the phases take. `heldMs`: the longest that the agent holds the lock. */
export const sayHeld = (heldMs: number, sayTime: SayTime = sayMs): string =>
  ` in the phases; with the cordon before them and the confirmation after them, the lock is held for ${sayTime(heldMs)} at most`;
