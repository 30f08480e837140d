import { sayCulprit } from '../core/eviction/attribution.ts';
import type { Unconfirmed } from '../core/observation.ts';
import { EVICT_FOR, evictResourceOf } from '../core/pod/evict-for.ts';
import type { PodUid } from '../core/pod/pod.ts';
import { assertNever } from '../core/reading.ts';
import type { PhaseEnd, Reason } from '../core/reason.ts';
import { STOPS_AGAIN } from '../core/shutdown/plan.ts';
import { sayDuration } from '../core/units/duration.ts';
import { and, counted, countPods, HELD_BY_OTHERS, sayNames, sayThreshold } from './phrases.ts';

/** `nameOf`: how the reader knows the pod, as namespace/name. */
export function sayReason(reason: Reason, nameOf: (uid: PodUid) => string): string {
  switch (reason.code) {
    case 'below-threshold':
      return sayThreshold(reason.threshold);
    case 'grace-running':
      return `${reason.threshold}: its grace period has ${ms(reason.remainingMs)} left`;
    case 'min-reclaim-pending':
      return `${reason.threshold}: counts as met until its min reclaim is reached`;
    case 'signal-unknown':
      return `${reason.signal} cannot be read (${reason.unknown.where}: ${reason.unknown.detail}), for ${counted(reason.failedLooks, 'sample')}: no decision is based on it`;
    case 'pods-unknown':
      return `the pods are not known (${reason.unknown.where}: ${reason.unknown.detail}): no pod is chosen`;
    case 'sample-not-new':
      return `${reason.signal} has not been measured again yet: waiting for the next sample`;
    case 'transition-period':
      return `${reason.condition} stays true: ${ms(reason.remainingMs)} of its transition period left`;
    case 'waiting-for-victim':
      return `eviction ${reason.eviction} is in progress: no other pod is chosen until its resources are free, ${ms(reason.remainingMs)} at most`;
    case 'not-signalled':
      return `eviction ${reason.eviction}: ${nameOf(reason.uid)} could not be signalled in time: no longer waiting for it`;
    case 'clean-up-wait':
      if (reason.isEmptying)
        return `${reason.signal}: the scratch directories of eviction ${reason.eviction} are being emptied and the signal is not getting worse: no other pod is chosen meanwhile, unless nothing comes back for another ${ms(reason.remainingMs)}`;
      return `${reason.signal}: eviction ${reason.eviction} is over and the signal is not getting worse: no other pod is chosen until what it left is cleaned up, ${ms(reason.remainingMs)} at most`;
    case 'reclaim-running':
      return `reclaim ${reason.decision} is running: no pod is evicted until it finishes`;
    case 'reclaim-sufficed':
      return `${reason.signal}: the reclaim freed enough, no pod is evicted`;
    case 'limit-spared':
      return `${reason.pod} is over its storage limit, but is not evicted for it: that may also stop ${reason.spares}, which is critical, protected or not evicted for a disk`;
    case 'passed-over':
      return `${nameOf(reason.uid)} is passed over: ${sayPassedOver(reason.because)}`;
    case 'no-candidate':
      return sayNobody(reason, nameOf);
    case 'order-unproven':
      return sayUnproven(reason, nameOf);
    case 'shutdown-phase':
      return `shutdown phase ${reason.phase}: ${countPods(reason.pods)}, ${ms(reason.remainingMs)} left`;
    case 'shutdown-phase-over':
      return `shutdown phase ${reason.phase} is over: ${sayPhaseEnd(reason.by, reason.running)}${sayLeft(reason, nameOf)}`;
    case 'shutdown-wait-exceeded':
      return `shutdown phase ${reason.phase} no longer waits for ${nameOf(reason.uid)}: its stop took too long`;
    case 'shutdown-shortened':
      return `shutdown phase ${reason.phase} gets ${ms(reason.periodMs)} of its configured ${ms(reason.wantedMs)}: there is no more time`;
    case 'shutdown-started-again':
      return sayStartedAgain(nameOf(reason.uid), reason.times);
    case 'shutdown-cancelled':
      return reason.policy === 'promptly'
        ? 'the shutdown was cancelled: no further phase begins, stops in progress continue'
        : 'the shutdown was cancelled: the phases continue, and the lock is taken again after the last one';
    case 'shutdown-announced':
      return `the shutdown is announced: ${reason.detail ?? NOT_ANNOUNCED}`;
    case 'shutdown-confirmed':
      return `after ${ms(reason.tookMs)} ${sayConfirmed(reason.left)}`;
    case 'shutdown-not-armed':
      return `the machine is going down, but the shutdown was not armed (${reason.why}): no phase begins`;
    default:
      return assertNever(reason);
  }
}

type Unproven = Extract<Reason, { code: 'order-unproven' }>;
export function sayUnproven(reason: Unproven, nameOf: (uid: PodUid) => string): string {
  const { signal, uid, against, isShared, isMaybeEmpty } = reason;
  if (isMaybeEmpty) {
    return `${signal}: no pod is chosen: ${nameOf(against)} may come before ${nameOf(uid)}, but it is not known whether it has processes`;
  }
  const why = isShared
    ? 'has files that other pods have, too, and may be the one that fills the disk'
    : 'is not fully measured and may use more';
  return `${signal}: no pod is chosen: ${nameOf(uid)} ranks first, but ${nameOf(against)} ${why}`;
}

function sayNobody(
  { signal, because, growth, unmeasured }: Extract<Reason, { code: 'no-candidate' }>,
  nameOf: (uid: PodUid) => string,
): string {
  switch (because) {
    case 'no-relief':
      return and(
        `${signal}: no pod is evicted, since none is known to free enough there`,
        unmeasured === undefined ? '' : `${nameOf(unmeasured)} is not fully measured`,
      );
    case 'escaped':
      return `${signal}: no pod is evicted that is not known to be the cause: ${HELD_BY_OTHERS}`;
    case 'awaited':
      return `${signal}: no pod is evicted until the API server or the container runtime has said more about the pod that may be the cause`;
    case 'manifest-unread':
      return `${signal}: no pod is evicted that is protected, or not known to be the cause, while a manifest could not be read: the cause may be a pod in it`;
    case 'evict-for':
    case undefined: {
      const ruledOut = `; ${EVICT_FOR} rules out pods that could otherwise be evicted for ${evictResourceOf(signal)}`;
      return and(`${signal}: no pod may be evicted${because === undefined ? '' : ruledOut}`, sayCulprit(growth));
    }
    default:
      return assertNever(because);
  }
}

type PassedOver = Extract<Reason, { code: 'passed-over' }>['because'];
export const sayPassedOver = (because: PassedOver): string => PASSED_OVER[because];
const PASSED_OVER: { readonly [B in PassedOver]: string } = {
  'static-critical': 'static or critical pods are never evicted',
  'evict-for': `it is not evicted for this resource (${EVICT_FOR})`,
  protected: 'it is protected, and chosen only when no other pod is left',
  'daemonset-within-request': 'it is a DaemonSet pod that does not exceed its request',
  guard:
    'its owner has lost enough pods recently, or it could not be asked to stop several times in the last seconds (guard)',
  terminating: 'it is already being stopped',
  'not-over-request': 'it is not known to exceed its request',
  'too-little':
    'it exceeds its request by less than a tenth of what a pod that is passed over does, or may: stopping it would hardly help',
  'budget-innocent':
    'it is not known to exceed its request, and is not stopped in place of a pod that a disruption budget keeps',
  'others-end': 'it uses no more than its request, and pods that were deleted already hold enough: they go first',
  escaped: `it is not known to be the cause, and ${HELD_BY_OTHERS}`,
  'no-relief': 'stopping it is not known to help',
  'own-limit': 'it stalls at its own memory limit, not because the node is short of memory',
  'restart-guard': 'it has just restarted after an eviction',
  'not-stoppable': 'it cannot be stopped',
  'ends-machine':
    'its end may make systemd take the machine down (FailureAction=, OnFailure= or the like of a unit that stops with it)',
  'maybe-empty': 'it is not known whether it has processes',
  'between-runs': 'it has no process until systemd starts it again',
  'manifest-unread':
    'it is not known to be the cause, and a pod that is may be in a manifest that could not be read in time',
  'declaration-unknown': 'it is not yet known to the API, or not in full',
  'undeclared-holds-less': 'it is not yet known to the API, and holds less than is lacking',
  unnamed: 'neither the API server nor the container runtime has named it yet',
  'looked-up': 'the API server has just been asked for it',
  finished:
    'none of its containers has a process any more, and the agent waits for the kubelet to free what it still holds',
  'maybe-finished':
    'none of its containers has a process any more, and it is not known whether one is started again: the agent waits once for the kubelet to free what it holds',
  'kubelet-evicting': 'the kubelet has just evicted a pod, and the agent waits for what that frees',
  'budget-refused': 'its disruption budget has just refused its eviction, or could not be asked',
  'budgets-refuse':
    'the disruption budgets of three pods have just refused their evictions, or could not be asked, or the API server may yet evict another pod',
};

/** Why a phase ended; `running`: the pods that had not stopped by then. */
export function sayPhaseEnd(by: PhaseEnd, running: readonly unknown[]): string {
  return by === 'done' && running.length > 0 ? 'it no longer waits for the pods that are left' : PHASE_END[by];
}
const PHASE_END: { readonly [B in PhaseEnd]: string } = {
  done: 'all its pods have ended',
  period: 'its time is used up',
  'volume-timeout': 'volumes took too long to unmount',
  cancelled: 'the shutdown was cancelled',
};

/** `times`: stops during this shutdown before. */
export function sayStartedAgain(pod: string, times: number): string {
  const then = times < STOPS_AGAIN ? 'it is stopped again' : `it is left running after ${STOPS_AGAIN} such stops`;
  return `${pod} was started during the shutdown: ${then}`;
}

/** beside-a-kubelet.md E4: the phases begin all the same. */
export const NOT_ANNOUNCED = 'the API server did not answer in time';

/** What the API shows after the last phase; null: it could not be asked. */
export function sayConfirmed(left: Unconfirmed | null): string {
  if (left === null) return 'the API server did not say whether the pods are gone';
  const { pods, volumes, isNothingDeleted } = left;
  if (isNothingDeleted) return 'no pod had been deleted, so nothing was to be confirmed';
  const still = [
    ...(pods.length === 0 ? [] : [`${countPods(pods.length)} (${sayNames(pods)})`]),
    ...(volumes.length === 0 ? [] : [`${counted(volumes.length, 'volume')} in use (${sayNames(volumes)})`]),
  ];
  return still.length === 0
    ? 'the API shows that all stopped pods have ended and their volumes are free'
    : `the API still shows ${still.join(' and ')}`;
}

function sayLeft(
  { running, mounted }: Extract<Reason, { code: 'shutdown-phase-over' }>,
  nameOf: (uid: PodUid) => string,
): string {
  const left = running.length === 0 ? '' : `; still running: ${running.map(nameOf).join(', ')}`;
  return mounted.length === 0 ? left : `${left}; volumes still mounted: ${mounted.map(nameOf).join(', ')}`;
}

const ms = (amount: number): string => sayDuration(Math.ceil(amount));
