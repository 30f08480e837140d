import { sayTenths } from '../core/duration.ts';
import type { PodUid } from '../core/pod.ts';
import { assertNever } from '../core/reading.ts';
import type { PhaseEnd } from '../core/reason.ts';
import { STOPS_AGAIN } from '../core/shutdown-plan.ts';
import type { ShutdownFact } from '../ports.ts';

export type Names = (uid: PodUid) => string;

const NAMES_SAID = 10;

/** What a shutdown came to, in one sentence. Names are as tenants chose them: escape before printing. */
export function sayFact(fact: ShutdownFact): string {
  switch (fact.what) {
    case 'began':
      return sayBegan(fact);
    case 'resumed':
      return `shutdown: nodewarden was started again ${fact.phase === 0 ? 'before the first phase' : `in phase ${fact.phase}`} and goes on`;
    case 'phase': {
      const short = fact.periodMs < fact.wantedMs ? ` of the ${sayTenths(fact.wantedMs)} it wants` : '';
      return `shutdown phase ${fact.phase}: stopping ${count(fact.pods.length)} within ${sayTenths(fact.periodMs)}${short}: ${list(fact.pods)}`;
    }
    case 'phase-over':
      return `shutdown phase ${fact.phase} is over after ${sayTenths(fact.tookMs)}: ${PHASE_END[fact.by]}${sayRunning(fact.running)}`;
    case 'stopped-again':
      return fact.times < STOPS_AGAIN
        ? `shutdown: ${fact.pod} was started meanwhile and is stopped`
        : `shutdown: ${fact.pod} was started meanwhile, after ${STOPS_AGAIN} stops for that: it is left running`;
    case 'lock-lost':
      return `shutdown: the lock is lost, logind no longer waits for the phases: ${fact.detail}`;
    case 'cancelled':
      return `shutdown cancelled${fact.phase === 0 ? '' : ` in phase ${fact.phase}`}: ${fact.why}`;
    case 'cancel-not-honoured':
      return 'shutdown: it was cancelled, but this logind goes down all the same; the phases go on';
    case 'undone':
      return sayUndone(fact);
    case 'released':
      return fact.why === 'all-phases-done'
        ? 'shutdown: all phases are done, nodewarden no longer delays it'
        : 'shutdown: out of time, nodewarden no longer delays it';
    default:
      return assertNever(fact);
  }
}

const PHASE_END: { readonly [B in PhaseEnd]: string } = {
  done: 'all its pods have ended',
  period: 'its time is used up',
  'volume-timeout': 'volumes took too long to unmount',
  cancelled: 'the shutdown was cancelled',
};

function sayBegan({ tier, type, phases, grantedMs, limitMs }: Extract<ShutdownFact, { what: 'began' }>): string {
  const how = tier === 'logind' ? '' : ', without the signal of logind';
  const what = type === null || type === '' ? 'the machine goes down' : `the machine goes down (${type})`;
  const plan = phases.map(({ fromPriority, graceSeconds }) => `priority ${fromPriority}: ${graceSeconds} s`).join(', ');
  const granted = grantedMs === null ? '' : `; logind grants ${sayTenths(grantedMs)}`;
  const limit = limitMs === null ? '' : `; the phases have ${sayTenths(limitMs)} in all`;
  return `shutdown: ${what}${how}${plan === '' ? ': no pod has to stop' : `; phases from ${plan}`}${granted}${limit}`;
}

function sayRunning(running: readonly string[]): string {
  return running.length === 0 ? '' : `; still running: ${list(running)}`;
}

function sayUndone({ started, notUndone }: Extract<ShutdownFact, { what: 'undone' }>): string {
  const again = started.length === 0 ? 'nothing had to be started again' : `started again: ${list(started)}`;
  return `shutdown cancelled: ${again}${notUndone.length === 0 ? '' : `; not undone: ${list(notUndone)}`}`;
}

const count = (pods: number): string => `${pods} ${pods === 1 ? 'pod' : 'pods'}`;

function list(names: readonly string[]): string {
  const more = names.length - NAMES_SAID;
  return `${names.slice(0, NAMES_SAID).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}
