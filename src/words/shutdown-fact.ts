import type { PodUid } from '../core/pod/pod.ts';
import { assertNever } from '../core/reading.ts';
import { sayTenths } from '../core/units/duration.ts';
import type { ShutdownFact } from '../ports.ts';
import { countPods, sayNames } from './phrases.ts';
import { NOT_ANNOUNCED, sayConfirmed, sayPhaseEnd, sayStartedAgain } from './reason.ts';

export type Names = (uid: PodUid) => string;

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
  const again = started.length === 0 ? 'nothing had to be restarted' : `restarted: ${sayNames(started)}`;
  return `shutdown cancelled: ${again}${notUndone.length === 0 ? '' : `; not restarted: ${sayNames(notUndone)}`}`;
}
