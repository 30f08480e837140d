import type { CoreConfig } from '../core-config.ts';
import type { Observation, ShutdownEvent } from '../observation.ts';
import { isEnd, type Outcome } from '../outcome.ts';
import type { PodUid } from '../pod/pod.ts';
import { assertNever, type MonoMs } from '../reading.ts';
import type { PhaseEnd } from '../reason.ts';
import type { ShutdownStop, State, Stopping } from '../state/state.ts';
import { nextId, type Step, waiting, withDecision, withReason } from '../step.ts';
import { lastMs, timeOf, totalMs, withoutReserve } from './phase-time.ts';
import { assign, neededTotalMs, planShutdown, planStop, withChains } from './plan.ts';
import { alive, isEveryPod, stopAgain, stopLeft, stopPods } from './stop-pods.ts';
import { isByLogind, isInPhase, isUnderWay, phasesOf, setShutdown, withShutdown } from './stopping.ts';
import { answered, beginConfirm, endTierWait, kubeletReleased } from './tiers.ts';

/** kubelet-shutdown.md 5.3. */
const VOLUME_LOOK_MS = 300;
const VOLUME_WAIT_MS = 123_000;
/** The retry interval for pods that could not be read. */
const RETRY_MS = 250;
/** A look that comes so long after a deadline follows a pause of the agent. */
const LATE_MS = 500;
/** After a pause, what ended meanwhile has been heard by then. */
const HEAR_MS = 500;
/** The maximum length of an error of logind or the bus in the state. */
const MAX_WHY = 200;

/**
 * One look of kubelet-shutdown.md sections 5 and 8. At one instant, in this order (shutdown-scenarios.md 3.1): ended pods,
 * volumes, the deadline of the phase, events, the next phase.
 */
export function stepShutdown(state: State, observation: Observation, config: CoreConfig): Step {
  const heard = afterPause(state, observation);
  const settled = stopLeft(settleStops(heard, observation, config), observation);
  let step = endTierWait(endPhase(stopAgain(settled, observation), observation), observation);
  for (const event of observation.shutdownEvents) step = hear(step, event, observation, config);
  return holdUntil(beginPhases(step, observation, config), observation.atMs);
}

/** To everything else, pods whose stop is in progress appear as terminating. */
export function withStopsTerminating(observation: Observation, stops: readonly ShutdownStop[]): Observation {
  const { pods } = observation;
  if (stops.length === 0 || !pods.known) return observation;
  const stopping = new Set(stops.map(({ uid }) => uid));
  const value = pods.value.map((pod) => (stopping.has(pod.uid) ? { ...pod, isTerminating: true } : pod));
  return { ...observation, pods: { known: true, value } };
}

/** Removes stops that have ended, and no longer waits for those that exceeded their wait. */
function settleStops(state: State, observation: Observation, { tiers }: CoreConfig): Step {
  const { atMs, outcomes, pods } = observation;
  const step = waiting(state, null);
  if (state.stops.length === 0) return step;
  const { shutdown } = state;
  const pending = new Set(shutdown.kind === 'stopping' ? shutdown.pending : []);
  // If the phase ends at the same instant, that is what ends the wait, as recorded from the kubelet.
  const phaseEndsMs = shutdown.kind === 'stopping' ? shutdown.phaseEndsMs : atMs;
  const ended = new Map(outcomes.filter(isEnd).map((outcome) => [outcome.of, outcome]));
  const graceMs = new Map(pods.known ? pods.value.map((pod) => [pod.uid, pod.terminationGraceSeconds * 1_000]) : []);
  const isGone = (uid: PodUid): boolean => pods.known && isEveryPod(observation) && !graceMs.has(uid);
  // What a cancel gives it more, so that it is resumed if the agent is restarted meanwhile. Beside a kubelet, none does.
  const moreMs = (uid: PodUid): number => (tiers === undefined ? (graceMs.get(uid) ?? Number.POSITIVE_INFINITY) : 0);
  const exceeded: PodUid[] = [];
  const stops: ShutdownStop[] = [];
  for (const stop of state.stops) {
    const isPending = pending.has(stop.uid);
    const end = ended.get(stop.decision);
    if (end !== undefined && !isLeft(end, stop, shutdown)) pending.delete(stop.uid);
    // The outcome of a pod that is gone, or of a cancelled shutdown, may have been lost with an earlier run of the agent.
    if (end !== undefined) continue;
    if (isPending || !(isGone(stop.uid) || isStaying(shutdown, stop, atMs - moreMs(stop.uid)))) stops.push(stop);
    if (
      isPending &&
      pending.has(stop.uid) &&
      isPast(stop.waitEndsMs, shutdown, atMs) &&
      stop.waitEndsMs < phaseEndsMs
    ) {
      pending.delete(stop.uid);
      exceeded.push(stop.uid);
    }
  }
  const settled: Step = { ...step, state: { ...state, stops } };
  if (shutdown.kind !== 'stopping') return settled;
  const { phase } = shutdown;
  const reasons = exceeded.map((uid) => ({ code: 'shutdown-wait-exceeded', phase, uid }) as const);
  return { ...withShutdown(settled, { ...shutdown, pending: [...pending] }), reasons };
}

/** A stop from before this shutdown that did not end its pod is not one of this shutdown. */
function isLeft({ kind }: Outcome, { decidedMs }: ShutdownStop, shutdown: State['shutdown']): boolean {
  return kind !== 'ended' && kind !== 'unknown' && shutdown.kind === 'stopping' && decidedMs < shutdown.startedMs;
}

/** If the machine stays up, a pod that survived its stop may be chosen for eviction again. */
function isStaying(shutdown: State['shutdown'], stop: ShutdownStop, atMs: number): boolean {
  return !isUnderWay(shutdown) && atMs >= stop.waitEndsMs;
}

/** kubelet-shutdown.md 5.1 to 5.4: ends the running phase if it is over. */
function endPhase(step: Step, observation: Observation): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping' || !isInPhase(shutdown)) return step;
  const { atMs } = observation;
  let { wait } = shutdown;
  if (wait.kind === 'stops' && shutdown.pending.length === 0) wait = { kind: 'volumes', sinceMs: atMs, lookMs: atMs };
  if (wait.kind === 'volumes' && atMs >= wait.lookMs) {
    const isUnmounted = mountedOf(shutdown.group, observation).length === 0;
    if (isUnmounted) return phaseOver(step, shutdown, 'done', observation);
    const looks = Math.floor((atMs - wait.sinceMs) / VOLUME_LOOK_MS) + 1;
    wait = { ...wait, lookMs: wait.sinceMs + looks * VOLUME_LOOK_MS };
  }
  if (isPast(shutdown.phaseEndsMs, shutdown, atMs)) return phaseOver(step, shutdown, 'period', observation);
  const isTooLong = wait.kind === 'volumes' && atMs >= wait.sinceMs + VOLUME_WAIT_MS;
  if (isTooLong) return phaseOver(step, shutdown, 'volume-timeout', observation);
  return withShutdown(step, { ...shutdown, wait });
}

/** After a pause of the agent, a look has not heard yet what ended meanwhile: as long as the phases have time, deadlines wait for that. */
function afterPause(state: State, { atMs }: Observation): State {
  const { shutdown, lastLookMs } = state;
  if (shutdown.kind !== 'stopping' || !isInPhase(shutdown) || lastLookMs === null) return state;
  const dueMs = firstDueMs(shutdown, state.stops);
  const isPause = lastLookMs < dueMs && atMs > dueMs + LATE_MS;
  if (!isPause || atMs >= lastMs(shutdown)) return state;
  return { ...state, shutdown: { ...shutdown, hearUntilMs: atMs + HEAR_MS } };
}

function isPast(deadlineMs: MonoMs, shutdown: State['shutdown'], atMs: MonoMs): boolean {
  return atMs >= Math.max(deadlineMs, (shutdown.kind === 'stopping' && shutdown.hearUntilMs) || 0);
}

/** When the phase, or the wait for one of its pods, is over. */
function firstDueMs({ pending, phaseEndsMs }: Stopping, stops: readonly ShutdownStop[]): MonoMs {
  const awaited = new Set(pending);
  const waits = stops.filter(({ uid }) => awaited.has(uid)).map(({ waitEndsMs }) => waitEndsMs);
  return Math.min(phaseEndsMs, ...waits);
}

/** Unknown does not mean unmounted. In a mode that mounts no volumes for pods there is nothing to wait for. */
function mountedOf(group: readonly PodUid[], { volumesMounted }: Observation): readonly PodUid[] {
  if (!volumesMounted.known) return volumesMounted.why === 'not-applicable' ? [] : group;
  const mounted = new Set(volumesMounted.value);
  return group.filter((uid) => mounted.has(uid));
}

function phaseOver(step: Step, shutdown: Stopping, by: PhaseEnd, observation: Observation): Step {
  const { phase, phaseStartedMs, group, wait } = shutdown;
  const underWay = new Set(step.state.stops.map(({ uid }) => uid));
  const over = withReason(step, {
    code: 'shutdown-phase-over',
    phase,
    startedMs: phaseStartedMs,
    by,
    volumesMs: wait.kind === 'volumes' ? observation.atMs - wait.sinceMs : 0,
    running: group.filter((uid) => underWay.has(uid)),
    mounted: mountedOf(group, observation).filter((uid) => !underWay.has(uid)),
  });
  return withShutdown(over, { ...shutdown, pending: [], group: [], wait: { kind: 'next' } });
}

function hear(step: Step, event: ShutdownEvent, observation: Observation, config: CoreConfig): Step {
  const { shutdown } = step.state;
  switch (event.kind) {
    case 'lock-granted':
      if (shutdown.kind === 'stopping') return withShutdown(step, { ...shutdown, delayMaxMs: event.delayMaxMs });
      // While the machine goes down logind grants none (kubelet-shutdown.md 2.1): a shutdown that released is over.
      return setShutdown(step, { kind: 'armed', delayMaxMs: event.delayMaxMs });
    case 'lock-lost':
      if (shutdown.kind === 'stopping') return withShutdown(step, { ...shutdown, delayMaxMs: null });
      if (shutdown.kind === 'released') return step;
      return setShutdown(step, { kind: 'unarmed', why: event.detail.slice(0, MAX_WHY) });
    case 'preparing':
      return prepare(step, event, observation.atMs, config);
    case 'announced':
      return answered(step, event.decision, event.detail, observation.atMs);
    case 'kubelet-released':
      return kubeletReleased(step, observation.atMs);
    case 'cancelled':
      return cancel(step, event.machineStays ?? false, observation, config);
    case 'came-back':
      return comeBack(step);
    case 'stopped-without-signal':
      return prepareLate(step, event.leftMs, observation, config);
    default:
      return assertNever(event);
  }
}

type Preparing = Extract<ShutdownEvent, { kind: 'preparing' }>;

/** `leftMs`: the signal was noticed late, and counts even without a lock; absent: all that was granted is left. */
function prepare(
  step: Step,
  { leftMs: saidMs, byKubelet: isTheirs }: Preparing,
  atMs: number,
  config: CoreConfig,
): Step {
  const { phases, tiers } = config;
  const leftMs = saidMs ?? null;
  const byKubelet = isTheirs === true;
  const { shutdown } = step.state;
  if (shutdown.kind === 'stopping' && shutdown.cancelledMs !== null) {
    const endMs = leftMs === null ? Number.POSITIVE_INFINITY : atMs + withoutReserve(leftMs);
    return withShutdown(step, goesOn(shutdown, endMs));
  }
  if (phases.length === 0) return step;
  if (shutdown.kind === 'unarmed' && leftMs === null) {
    return withReason(step, { code: 'shutdown-not-armed', why: shutdown.why });
  }
  if (shutdown.kind !== 'armed' && shutdown.kind !== 'unarmed') return step;
  const delayMaxMs = shutdown.kind === 'armed' ? shutdown.delayMaxMs : null;
  const timeMs = Math.min(leftMs ?? Number.POSITIVE_INFINITY, delayMaxMs ?? Number.POSITIVE_INFINITY);
  const neededMs = neededTotalMs(config);
  const mustEndMs = timeMs < neededMs ? atMs + withoutReserve(timeMs) : null;
  const given = { tier: 'logind', atMs, phases, delayMaxMs, mustEndMs } as const;
  if (tiers === undefined) return begin(withoutStops(step), given);
  // Every part gets its share of the available time (D11).
  const share = mustEndMs === null ? 1 : Math.min(1, (mustEndMs - atMs) / Math.max(1, neededMs));
  // Pods that the kubelet stops may take as long as logind waits.
  const grantedMs = byKubelet && Number.isFinite(timeMs) ? withoutReserve(timeMs) : neededMs;
  const begun = begin(step, {
    ...given,
    phases: byKubelet ? [] : phases,
    confirm: { ms: tiers.confirmMs * share, latestMs: mustEndMs ?? atMs + grantedMs },
    ...(byKubelet ? { byKubelet: 'holds' } : {}),
    wait: { kind: 'announce', decision: nextId(step.state), untilMs: atMs + tiers.announceMs * share },
  });
  return withDecision(begun, atMs, { kind: 'announce-shutdown', totalMs: neededMs, byKubelet });
}

/** A cancel gives the pods that it finds stopping more time; the next shutdown stops them, too, each in its phase. */
const withoutStops = ({ state, ...step }: Step): Step => ({ ...step, state: { ...state, stops: [] } });

/** product.md section 9, second tier: the same phases within the agent's own stop timeout. */
function prepareLate(step: Step, leftMs: number, observation: Observation, config: CoreConfig): Step {
  const { atMs } = observation;
  const { tiers } = config;
  const { shutdown } = step.state;
  const phases = phasesOf(shutdown, config.phases);
  const endMs = atMs + leftMs;
  const mustEndMs = leftMs < totalMs(phases) ? endMs : null;
  const late = { tier: 'stop', atMs, phases, delayMaxMs: null, mustEndMs } as const;
  if (tiers !== undefined && isByLogind(shutdown) && phases.length > 0) {
    const isRunning = shutdown.kind === 'stopping' && isInPhase(shutdown);
    const over = isRunning ? phaseOver(step, shutdown, 'period', observation) : step;
    return begin(over, late);
  }
  if (shutdown.kind === 'stopping') return withShutdown(step, { ...goesOn(shutdown, endMs), tier: 'stop' });
  if (shutdown.kind === 'released' || phases.length === 0) return step;
  return begin(tiers === undefined ? withoutStops(step) : step, late);
}

/** The phases that run are those of the next shutdown too, whatever cancelled theirs. */
function goesOn(shutdown: Stopping, endMs: MonoMs): Stopping {
  const soonerMs = Math.min(shutdown.mustEndMs ?? Number.POSITIVE_INFINITY, endMs);
  const mustEndMs = Number.isFinite(soonerMs) ? soonerMs : null;
  return { ...shutdown, cancelledMs: null, mustEndMs, phaseEndsMs: Math.min(shutdown.phaseEndsMs, soonerMs) };
}

type Begin = Pick<Stopping, 'tier' | 'phases' | 'delayMaxMs' | 'mustEndMs' | 'confirm' | 'byKubelet'> & {
  readonly atMs: number;
  readonly wait?: Stopping['wait'];
};

function begin(step: Step, { atMs, wait = { kind: 'next' }, ...given }: Begin): Step {
  return withShutdown(step, {
    ...given,
    startedMs: atMs,
    again: {},
    cancelledMs: null,
    phase: 0,
    phaseStartedMs: atMs,
    phaseEndsMs: atMs,
    pending: [],
    group: [],
    wait,
  });
}

/** D10, or the kubelet's way (kubelet-shutdown.md 8.2). */
function cancel(
  step: Step,
  machineStays: boolean,
  observation: Observation,
  { shutdownCancel: policy, phases }: CoreConfig,
): Step {
  const { atMs } = observation;
  const { shutdown } = step.state;
  if (shutdown.kind === 'released') {
    const late = withReason(step, { code: 'shutdown-cancelled', phase: phases.length, policy });
    return undoStops(retakeLock(late, atMs), atMs);
  }
  if (shutdown.kind !== 'stopping' || shutdown.cancelledMs !== null) return step;
  // This shutdown did not come from logind's signal, so a cancel by logind alone does not concern it.
  if (shutdown.tier === 'stop' && !machineStays) return step;
  const { phase, delayMaxMs } = shutdown;
  const heard = withReason(step, { code: 'shutdown-cancelled', phase, policy });
  if (policy === 'afterPhases') return withShutdown(heard, { ...shutdown, cancelledMs: atMs });
  const ended = isInPhase(shutdown) ? phaseOver(heard, shutdown, 'cancelled', observation) : heard;
  const kept = delayMaxMs === null ? retakeLock(ended, atMs) : setShutdown(ended, { kind: 'armed', delayMaxMs });
  return undoStops(kept, atMs);
}

/** Nothing to undo or wait for: whatever runs now was started since. */
function comeBack({ state, ...step }: Step): Step {
  const shutdown = { kind: 'unarmed', why: 'the system has just come back, the lock is being taken' } as const;
  return { ...step, state: { ...state, shutdown, stops: [] } };
}

const undoStops = (step: Step, atMs: number): Step => withDecision(step, atMs, { kind: 'undo-stops' });

function retakeLock(step: Step, atMs: number): Step {
  const why = 'a shutdown was cancelled, the lock is being taken again';
  return withDecision(setShutdown(step, { kind: 'unarmed', why }), atMs, { kind: 'take-lock' });
}

/** Begins the next phase that has pods, after all earlier ones that take no time. */
function beginPhases(step: Step, observation: Observation, config: CoreConfig): Step {
  let now = step;
  for (;;) {
    const { shutdown } = now.state;
    if (shutdown.kind !== 'stopping' || shutdown.wait.kind !== 'next') return now;
    if (shutdown.phase >= shutdown.phases.length) {
      if (shutdown.confirm === undefined) return release(now, shutdown, 'all-phases-done', observation.atMs);
      now = beginConfirm(now, shutdown, observation);
      continue;
    }
    const { pods, atMs } = observation;
    if (!pods.known && atMs >= lastMs(shutdown)) return release(now, shutdown, 'out-of-time', atMs);
    if (!isEveryPod(observation) || (!pods.known && pods.why === 'not-asked'))
      return { ...now, pods: 'all', heldToMs: 0 };
    if (!pods.known)
      return { ...withReason(now, { code: 'pods-unknown', unknown: pods }), pods: 'all', heldToMs: RETRY_MS };
    now = beginPhase(now, shutdown, observation, config);
  }
}

/** kubelet-shutdown.md 5.1: stops all at once. The pods alive now count, not those alive at the signal (12.3). */
function beginPhase(step: Step, shutdown: Stopping, observation: Observation, config: CoreConfig): Step {
  const { atMs } = observation;
  const pods = alive(step, observation, shutdown, shutdown.startedMs);
  const assigned = shutdown.assigned ?? assign(shutdown.phases, pods);
  const groups = planShutdown(shutdown.phases, pods, assigned);
  const group = groups[shutdown.phase];
  const phase = shutdown.phase + 1;
  if (group === undefined || group.stops.length === 0) return withShutdown(step, { ...shutdown, assigned, phase });
  const { endsMs, periodSeconds, wantedMs } = timeOf(shutdown, groups, atMs, config);
  const uids = group.stops.map(({ pod }) => pod.uid);
  const begun = withShutdown(step, {
    ...shutdown,
    assigned,
    phase,
    phaseStartedMs: atMs,
    phaseEndsMs: endsMs,
    pending: uids,
    group: uids,
    wait: { kind: 'stops' },
  });
  const periodMs = endsMs - atMs;
  const short = { code: 'shutdown-shortened', phase, periodMs, wantedMs } as const;
  const said = periodMs < wantedMs ? withReason(begun, short) : begun;
  const stops = withChains(group.stops.map(({ pod }) => planStop(pod, periodSeconds)));
  const told = stopPods(said, stops, { phase, atMs, endsMs, tier: shutdown.tier });
  // A phase without time does not wait for pods (kubelet-shutdown.md 5.9).
  const running = told.state.shutdown;
  return running.kind === 'stopping' && endsMs <= atMs ? phaseOver(told, running, 'period', observation) : told;
}

function release(
  step: Step,
  { cancelledMs, phases }: Stopping,
  why: 'all-phases-done' | 'out-of-time',
  atMs: number,
): Step {
  const released = withDecision(setShutdown(step, { kind: 'released', atMs, phases }), atMs, {
    kind: 'release-lock',
    why,
  });
  return cancelledMs === null ? released : undoStops(retakeLock(released, atMs), atMs);
}

/** Schedules the next look for when the phase may end or volumes are due: exact, for virtual time. */
function holdUntil(step: Step, atMs: number): Step {
  const { shutdown, stops } = step.state;
  if (shutdown.kind !== 'stopping' || shutdown.wait.kind === 'next') return step;
  const { wait, phase, phaseEndsMs } = shutdown;
  if (wait.kind === 'announce') return { ...step, heldToMs: Math.max(0, wait.untilMs - atMs) };
  if (wait.kind === 'confirm') return { ...step, heldToMs: VOLUME_LOOK_MS };
  const nextMs =
    wait.kind === 'volumes' ? Math.min(wait.lookMs, wait.sinceMs + VOLUME_WAIT_MS) : firstDueMs(shutdown, stops);
  const remainingMs = phaseEndsMs - atMs;
  const dueMs = Math.max(Math.min(phaseEndsMs, nextMs), shutdown.hearUntilMs ?? 0);
  const running = withReason(step, { code: 'shutdown-phase', phase, remainingMs, pods: shutdown.pending.length });
  // Asks for the pods because of those that are started again: the mode that finds one wakes the loop.
  return { ...running, pods: 'all', heldToMs: Math.max(0, dueMs - atMs) };
}
