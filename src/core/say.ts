import { sayDuration } from './duration.ts';
import type { PodUid } from './pod.ts';
import { bytesUp, type Quantity, sayBytes } from './quantity.ts';
import { assertNever } from './reading.ts';
import type { Reason } from './reason.ts';
import { SIGNAL_FACTS, type Signal } from './signal.ts';
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
    case 'reclaim-running':
      return `reclaim ${reason.decision} is running: no pod goes before it has ended`;
    case 'reclaim-sufficed':
      return `${reason.signal}: the reclaim freed enough, no pod has to go`;
    case 'passed-over':
      return `${nameOf(reason.uid)} is passed over: ${PASSED_OVER[reason.because]}`;
    case 'no-candidate':
      return `${reason.signal}: no pod may be evicted`;
    case 'shutdown-phase':
      return `shutdown phase ${reason.phase}: ${reason.pods} pods, ${ms(reason.remainingMs)} left`;
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
  'restart-guard': 'it restarted after an eviction a moment ago',
  'not-stoppable': 'it cannot be stopped',
  'declaration-unknown': 'what it declares is not known',
  'kubelet-evicting': 'the kubelet is evicting it',
};

const ms = (amount: number): string => sayDuration(Math.ceil(amount));
