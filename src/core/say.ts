import { sayCulprit } from './attribution.ts';
import { sayDuration } from './duration.ts';
import type { Outcome } from './outcome.ts';
import type { PodUid } from './pod.ts';
import { bytesUp, type Quantity, sayBytes } from './quantity.ts';
import { assertNever } from './reading.ts';
import type { PhaseEnd, Reason } from './reason.ts';
import { UNSENT_MS } from './settle.ts';
import { STOPS_AGAIN } from './shutdown-plan.ts';
import { SIGNAL_FACTS, type Signal } from './signal.ts';
import type { Ties } from './stop-chain.ts';
import type { MetThreshold } from './threshold.ts';

/** An amount of the signal for people: "92.1 MiB", "1204 inodes", "311 pids". */
export function sayAmount(signal: Signal, amount: number): string {
  const { unit } = SIGNAL_FACTS[signal];
  return unit === 'bytes' ? sayBytes(amount) : `${amount} ${unit}`;
}

export function sayLimit(signal: Signal, limit: Quantity): string {
  return sayAmount(signal, bytesUp(limit));
}

/** "memory.available 92.1 MiB is below 100 MiB" */
export function sayThreshold(threshold: MetThreshold): string {
  const { signal, available, limit, target } = threshold;
  const bound =
    bytesUp(limit) > available ? sayLimit(signal, limit) : `${sayLimit(signal, target)} with its min reclaim`;
  return `${signal} ${sayAmount(signal, available)} is below ${bound}`;
}

type Ended = Extract<Outcome, { kind: 'ended' }>;

/**
 * What an eviction brought, in the unit of the signal that it was for: "gave back 300 MiB" of memory, "nodefs.available
 * went from 1.2 GiB to 1.5 GiB". Whose doing that is, is not known of a disk or of pids: others use and free them too.
 */
export function sayGivenBack(outcome: Ended): string {
  const { emptied } = outcome;
  if (emptied === undefined) return sayReturned(outcome);
  const freed = emptied.freedBytes.known ? `${sayBytes(emptied.freedBytes.value)} freed` : emptied.freedBytes.detail;
  const { problem } = emptied;
  const how = problem === null ? `was emptied, ${freed}` : `was not all emptied, ${freed}: ${problem}`;
  return `${sayReturned(outcome)}; its scratch ${how}`;
}

function sayReturned({ releasedBytes, signal }: Ended): string {
  if (signal === undefined) {
    return releasedBytes.known
      ? `gave back ${sayBytes(releasedBytes.value)}`
      : `gave back an unknown amount (${releasedBytes.detail})`;
  }
  const { name, before, after } = signal;
  if (!after.known) return `${name} afterwards is unknown (${after.detail})`;
  const now = sayAmount(name, after.value);
  if (before === null) return `${name} is ${now} now`;
  const was = sayAmount(name, before);
  return was === now ? `${name} is still ${now}` : `${name} went from ${was} to ${now}`;
}

/** `nameOf`: how the reader knows the pod, as namespace/name. */
export function sayReason(reason: Reason, nameOf: (uid: PodUid) => string): string {
  switch (reason.code) {
    case 'below-threshold':
      return sayThreshold(reason.threshold);
    case 'grace-running':
      return `${reason.threshold}: its grace period has ${ms(reason.remainingMs)} left`;
    case 'min-reclaim-pending':
      return `${reason.threshold}: held until its min reclaim is reached`;
    case 'signal-unknown':
      return `${reason.signal} cannot be read (${reason.unknown.where}: ${reason.unknown.detail}), for ${reason.failedLooks} looks: no decision on it`;
    case 'pods-unknown':
      return `the pods are not known (${reason.unknown.where}: ${reason.unknown.detail}): nobody is chosen`;
    case 'sample-not-new':
      return `${reason.signal} was not measured since the last look: waiting for the next sample`;
    case 'transition-period':
      return `${reason.condition} stays for ${ms(reason.remainingMs)} of its transition period`;
    case 'waiting-for-victim':
      return `eviction ${reason.eviction} is under way: nobody else is chosen before it has given back, ${ms(reason.remainingMs)} at most`;
    case 'not-signalled':
      return `eviction ${reason.eviction}: no signal could be sent to ${nameOf(reason.uid)} for ${ms(UNSENT_MS)}: it is waited for no more`;
    case 'clean-up-wait':
      return `${reason.signal}: eviction ${reason.eviction} has ended and it is not getting worse: nobody else is chosen until what it left is cleaned up, ${ms(reason.remainingMs)} at most`;
    case 'reclaim-running':
      return `reclaim ${reason.decision} is running: no pod goes before it has ended`;
    case 'reclaim-sufficed':
      return `${reason.signal}: the reclaim freed enough, no pod has to go`;
    case 'passed-over':
      return `${nameOf(reason.uid)} is passed over: ${PASSED_OVER[reason.because]}`;
    case 'no-candidate':
      return reason.because === 'no-relief'
        ? `${reason.signal}: no pod is stopped, since the end of none is known to help there`
        : and(`${reason.signal}: no pod may be evicted`, sayCulprit(reason.growth));
    case 'order-unproven':
      return `${reason.signal}: nobody is chosen: ${nameOf(reason.uid)} would be, but ${nameOf(reason.against)} is measured in part alone and may use more`;
    case 'shutdown-phase':
      return `shutdown phase ${reason.phase}: ${reason.pods} ${reason.pods === 1 ? 'pod' : 'pods'}, ${ms(reason.remainingMs)} left`;
    case 'shutdown-phase-over':
      return `shutdown phase ${reason.phase} is over: ${PHASE_OVER[reason.by]}${sayLeft(reason, nameOf)}`;
    case 'shutdown-wait-exceeded':
      return `shutdown phase ${reason.phase} no longer waits for ${nameOf(reason.uid)}: its stop took longer than it may`;
    case 'shutdown-shortened':
      return `shutdown phase ${reason.phase} gets ${ms(reason.periodMs)} of the ${ms(reason.wantedMs)} it wants: there is no more time`;
    case 'shutdown-started-again':
      return `${nameOf(reason.uid)} was started during the shutdown, ${reason.times < STOPS_AGAIN ? 'and is stopped' : `after ${STOPS_AGAIN} stops for that: it is left running`}`;
    case 'shutdown-cancelled':
      return reason.policy === 'promptly'
        ? 'the shutdown was cancelled: no further phase begins, stops under way run their course'
        : 'the shutdown was cancelled: the phases go on, the lock is taken again after the last one';
    case 'shutdown-not-armed':
      return `the machine goes down, but the shutdown was not armed (${reason.why}): no phase begins`;
    default:
      return assertNever(reason);
  }
}

const PASSED_OVER: { readonly [B in Extract<Reason, { code: 'passed-over' }>['because']]: string } = {
  'static-critical': 'static or critical pods are never evicted',
  protected: 'protected, chosen only when nobody else is left',
  'daemonset-within-request': 'a DaemonSet pod that does not exceed its request',
  guard: 'its owner has lost enough pods lately',
  terminating: 'it is being stopped already',
  'no-relief': 'its end is not known to help',
  'restart-guard': 'it restarted after an eviction a moment ago',
  'not-stoppable': 'it cannot be stopped',
  'declaration-unknown': 'what it declares is not known',
  'kubelet-evicting': 'the kubelet is evicting it',
};

const PHASE_OVER: { readonly [B in PhaseEnd]: string } = {
  done: 'all its pods were waited for',
  period: 'its time is used up',
  'volume-timeout': 'volumes took too long to unmount',
  cancelled: 'the shutdown was cancelled',
};

function sayLeft(
  { running, mounted }: Extract<Reason, { code: 'shutdown-phase-over' }>,
  nameOf: (uid: PodUid) => string,
): string {
  const left = running.length === 0 ? '' : `; still running: ${running.map(nameOf).join(', ')}`;
  return mounted.length === 0 ? left : `${left}; volumes still mounted: ${mounted.map(nameOf).join(', ')}`;
}

/** D16: who goes with it, and who counts for it; '' where nobody does. */
export function sayTies({ inherited, takesAlong = [] }: Ties): string {
  const names = takesAlong.slice(0, TIES_SAID).join(', ');
  const more = takesAlong.length > TIES_SAID ? ` and ${takesAlong.length - TIES_SAID} more` : '';
  const along = takesAlong.length === 0 ? '' : `takes along ${names}${more}`;
  if (inherited === undefined) return along;
  const counts = `counts with priority ${inherited.priority} of ${inherited.from}`;
  return along === '' ? counts : and(along, counts);
}
const TIES_SAID = 5;

export const and = (first: string, second: string): string => (second === '' ? first : `${first}; ${second}`);
const ms = (amount: number): string => sayDuration(Math.ceil(amount));
