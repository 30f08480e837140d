import type { CoreConfig } from './core-config.ts';
import type { Observation, ShutdownEvent } from './observation.ts';
import type { PodUid } from './pod.ts';
import { assertNever } from './reading.ts';
import type { PhaseEnd } from './reason.ts';
import { neededDelayMs, planShutdown, planStop } from './shutdown-plan.ts';
import type { ShutdownStop, State, Stopping } from './state.ts';
import { nextId, type Step, victimOf, waiting, withDecision, withReason } from './step.ts';

/** kubelet-shutdown.md 5.3. */
const VOLUME_LOOK_MS = 300;
const VOLUME_WAIT_MS = 123_000;
/** How soon pods that could not be read are asked for again. */
const RETRY_MS = 250;
/** What logind or the bus said, kept in the state. */
const MAX_WHY = 200;

/**
 * kubelet-shutdown.md sections 5 and 8, one look of it. At one instant, in this order (shutdown-scenarios.md 3.1): what
 * ended, volumes, the deadline of the phase, events, the next phase.
 */
export function stepShutdown(state: State, observation: Observation, config: CoreConfig): Step {
  let step = endPhase(settleStops(state, observation), observation);
  for (const event of observation.shutdownEvents) step = hear(step, event, observation, config);
  return holdUntil(beginPhases(step, observation, config), observation.atMs);
}

/** Pods of which a stop is under way are being stopped for whoever else looks at them. */
export function withStopsTerminating(observation: Observation, stops: readonly ShutdownStop[]): Observation {
  const { pods } = observation;
  if (stops.length === 0 || !pods.known) return observation;
  const stopping = new Set(stops.map(({ uid }) => uid));
  const value = pods.value.map((pod) => (stopping.has(pod.uid) ? { ...pod, isTerminating: true } : pod));
  return { ...observation, pods: { known: true, value } };
}

/** Takes out what ended, and waits no longer for what exceeded its wait. */
function settleStops(state: State, { atMs, outcomes, pods }: Observation): Step {
  const step = waiting(state, null);
  if (state.stops.length === 0) return step;
  const { shutdown } = state;
  const pending = new Set(shutdown.kind === 'stopping' ? shutdown.pending : []);
  // With the phase's own end at the same instant it is that which ends the wait, as recorded of the kubelet.
  const phaseEndsMs = shutdown.kind === 'stopping' ? shutdown.phaseEndsMs : atMs;
  const ended = new Set(outcomes.map(({ of }) => of));
  const alive = pods.known ? new Set(pods.value.map(({ uid }) => uid)) : null;
  const exceeded: PodUid[] = [];
  const stops: ShutdownStop[] = [];
  for (const stop of state.stops) {
    const isPending = pending.has(stop.uid);
    if (ended.has(stop.decision)) pending.delete(stop.uid);
    // The outcome of one that is gone, or of a cancelled shutdown, may have been lost with an earlier run of the agent.
    else if (isPending || ((alive === null || alive.has(stop.uid)) && !isStaying(shutdown, stop, atMs)))
      stops.push(stop);
    if (isPending && pending.has(stop.uid) && atMs >= stop.waitEndsMs && stop.waitEndsMs < phaseEndsMs) {
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

/** Of a machine that stays up: a pod that outlived its stop is again one that pressure may choose. */
function isStaying({ kind }: State['shutdown'], stop: ShutdownStop, atMs: number): boolean {
  return (kind === 'armed' || kind === 'unarmed') && atMs >= stop.waitEndsMs;
}

/** kubelet-shutdown.md 5.1 to 5.4: is the phase that runs over? */
function endPhase(step: Step, observation: Observation): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping' || shutdown.wait.kind === 'next') return step;
  const { atMs } = observation;
  let { wait } = shutdown;
  if (wait.kind === 'stops' && shutdown.pending.length === 0) wait = { kind: 'volumes', sinceMs: atMs, lookMs: atMs };
  if (wait.kind === 'volumes' && atMs >= wait.lookMs) {
    const isUnmounted = mountedOf(shutdown.group, observation).length === 0;
    if (isUnmounted) return phaseOver(step, shutdown, 'done', observation);
    const looks = Math.floor((atMs - wait.sinceMs) / VOLUME_LOOK_MS) + 1;
    wait = { ...wait, lookMs: wait.sinceMs + looks * VOLUME_LOOK_MS };
  }
  if (atMs >= shutdown.phaseEndsMs) return phaseOver(step, shutdown, 'period', observation);
  const isTooLong = wait.kind === 'volumes' && atMs >= wait.sinceMs + VOLUME_WAIT_MS;
  if (isTooLong) return phaseOver(step, shutdown, 'volume-timeout', observation);
  return withShutdown(step, { ...shutdown, wait });
}

/** Unknown is not unmounted; where no volumes are mounted for pods there are none to wait for. */
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
      return prepare(step, observation.atMs, config);
    case 'cancelled':
      return cancel(step, observation, config);
    case 'stopped-without-signal':
      // The second tier (product.md section 9) has no rule yet, and nobody sends it.
      return step;
    default:
      return assertNever(event);
  }
}

function prepare(step: Step, atMs: number, { phases }: CoreConfig): Step {
  const { shutdown } = step.state;
  if (phases.length === 0) return step;
  if (shutdown.kind === 'unarmed') return withReason(step, { code: 'shutdown-not-armed', why: shutdown.why });
  if (shutdown.kind !== 'armed') return step;
  return withShutdown(step, {
    startedMs: atMs,
    phases,
    delayMaxMs: shutdown.delayMaxMs,
    tier: 'logind',
    mustEndMs: null,
    again: {},
    cancelledMs: null,
    phase: 0,
    phaseStartedMs: atMs,
    phaseEndsMs: atMs,
    pending: [],
    group: [],
    wait: { kind: 'next' },
  });
}

/** D10, or the kubelet's way (kubelet-shutdown.md 8.2). */
function cancel(step: Step, observation: Observation, { shutdownCancel: policy }: CoreConfig): Step {
  const { atMs } = observation;
  const { shutdown } = step.state;
  if (shutdown.kind === 'released') return retakeLock(step, atMs);
  if (shutdown.kind !== 'stopping' || shutdown.cancelledMs !== null) return step;
  const { phase, wait, delayMaxMs } = shutdown;
  const heard = withReason(step, { code: 'shutdown-cancelled', phase, policy });
  if (policy === 'afterPhases') return withShutdown(heard, { ...shutdown, cancelledMs: atMs });
  const ended = wait.kind === 'next' ? heard : phaseOver(heard, shutdown, 'cancelled', observation);
  return delayMaxMs === null ? retakeLock(ended, atMs) : setShutdown(ended, { kind: 'armed', delayMaxMs });
}

function retakeLock(step: Step, atMs: number): Step {
  const why = 'a shutdown was cancelled, the lock is being taken again';
  return withDecision(setShutdown(step, { kind: 'unarmed', why }), atMs, { kind: 'take-lock' });
}

/** The next phase that has pods, and all those before it that last no time. */
function beginPhases(step: Step, observation: Observation, config: CoreConfig): Step {
  let now = step;
  for (;;) {
    const { shutdown } = now.state;
    if (shutdown.kind !== 'stopping' || shutdown.wait.kind !== 'next') return now;
    if (shutdown.phase >= shutdown.phases.length) return release(now, shutdown, 'all-phases-done', observation.atMs);
    const { pods, atMs } = observation;
    if (!pods.known) {
      if (atMs >= lastMs(shutdown)) return release(now, shutdown, 'out-of-time', atMs);
      if (pods.why === 'not-asked') return { ...now, pods: 'all', heldToMs: 0 };
      return { ...withReason(now, { code: 'pods-unknown', unknown: pods }), pods: 'all', heldToMs: RETRY_MS };
    }
    now = beginPhase(now, shutdown, observation, config);
  }
}

/** kubelet-shutdown.md 5.1: all at once. Who is alive now counts, not who was when the signal came (12.3). */
function beginPhase(step: Step, shutdown: Stopping, observation: Observation, config: CoreConfig): Step {
  const { atMs, pods } = observation;
  const told = new Set(step.state.stops.map(({ uid }) => uid));
  const alive = pods.known ? pods.value.filter(({ uid }) => !told.has(uid)) : [];
  const group = planShutdown(shutdown.phases, alive)[shutdown.phase];
  const phase = shutdown.phase + 1;
  if (group === undefined || group.stops.length === 0) return withShutdown(step, { ...shutdown, phase });
  const { endsMs, periodSeconds } = timeOf(shutdown, atMs, config);
  const uids = group.stops.map(({ pod }) => pod.uid);
  let begun = withShutdown(step, {
    ...shutdown,
    phase,
    phaseStartedMs: atMs,
    phaseEndsMs: endsMs,
    pending: uids,
    group: uids,
    wait: { kind: 'stops' },
  });
  const stops: ShutdownStop[] = [];
  for (const { pod } of group.stops) {
    const { graceSeconds, waitMs } = planStop(pod, periodSeconds);
    const victim = victimOf(pod);
    const graceEndsMs = atMs + graceSeconds * 1_000;
    const waitEndsMs = atMs + waitMs;
    stops.push({ decision: nextId(begun.state), decidedMs: atMs, uid: pod.uid, graceEndsMs, waitEndsMs });
    begun = withDecision(begun, atMs, { kind: 'stop-for-shutdown', victim, phase, graceSeconds });
  }
  begun = { ...begun, state: { ...begun.state, stops: [...begun.state.stops, ...stops] } };
  // A phase without time waits for nobody (kubelet-shutdown.md 5.9).
  const running = begun.state.shutdown;
  return running.kind === 'stopping' && endsMs <= atMs ? phaseOver(begun, running, 'period', observation) : begun;
}

type PhaseTime = { readonly endsMs: number; readonly periodSeconds: number };

/** How long the next phase may last: its own period or, carried over, all that is left of the periods until its end. */
function timeOf({ phases, phase, startedMs }: Stopping, atMs: number, config: CoreConfig): PhaseTime {
  const ownSeconds = phases[phase]?.graceSeconds ?? 0;
  const carriedMs = startedMs + totalMs(phases.slice(0, phase + 1)) - atMs;
  const isCarried = config.shutdownCarryOver && carriedMs > ownSeconds * 1_000;
  const endsMs = atMs + (isCarried ? carriedMs : Math.max(0, ownSeconds * 1_000));
  const latestMs = startedMs + totalMs(phases);
  return {
    // Looks that came late must not add up to more than was armed for.
    endsMs: Math.min(endsMs, latestMs),
    periodSeconds: isCarried ? Math.floor(carriedMs / 1_000) : ownSeconds,
  };
}

/** A negative period counts negatively only for what is asked of logind (kubelet-shutdown.md 1.5). */
function totalMs(phases: Stopping['phases']): number {
  return neededDelayMs(phases.filter(({ graceSeconds }) => graceSeconds > 0));
}

const lastMs = ({ startedMs, phases }: Stopping): number => startedMs + totalMs(phases);

function release(step: Step, { cancelledMs }: Stopping, why: 'all-phases-done' | 'out-of-time', atMs: number): Step {
  const released = withDecision(setShutdown(step, { kind: 'released', atMs }), atMs, { kind: 'release-lock', why });
  return cancelledMs === null ? released : retakeLock(released, atMs);
}

/** Looks again at the next instant at which the running phase may end or look at volumes; exact, for virtual time. */
function holdUntil(step: Step, atMs: number): Step {
  const { shutdown, stops } = step.state;
  if (shutdown.kind !== 'stopping' || shutdown.wait.kind === 'next') return step;
  const { wait, phase, phaseEndsMs } = shutdown;
  const pending = new Set(shutdown.pending);
  const nextMs =
    wait.kind === 'volumes'
      ? Math.min(wait.lookMs, wait.sinceMs + VOLUME_WAIT_MS)
      : Math.min(...stops.filter(({ uid }) => pending.has(uid)).map(({ waitEndsMs }) => waitEndsMs));
  const remainingMs = phaseEndsMs - atMs;
  const running = withReason(step, { code: 'shutdown-phase', phase, remainingMs, pods: pending.size });
  return { ...running, heldToMs: Math.max(0, Math.min(phaseEndsMs, nextMs) - atMs) };
}

function withShutdown(step: Step, stopping: Stopping): Step {
  return setShutdown(step, { kind: 'stopping', ...stopping });
}

function setShutdown(step: Step, shutdown: State['shutdown']): Step {
  return { ...step, state: { ...step.state, shutdown } };
}
