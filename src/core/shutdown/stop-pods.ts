import type { Observation } from '../observation.ts';
import type { PodUid, PodView } from '../pod/pod.ts';
import type { MonoMs } from '../reading.ts';
import type { ShutdownStop, Stopping } from '../state/state.ts';
import { nextId, type Step, victimOf, withDecision, withReason } from '../step.ts';
import { tiesOf } from './chain.ts';
import { type PlannedStop, planShutdown, planStop, STOPS_AGAIN, withChains } from './plan.ts';
import { isInPhase, withShutdown } from './stopping.ts';

/** Which pods are asked to stop in a phase, at its start and later. */

/**
 * The pods that are alive, belong to this tier and have not been asked to stop since then. A stop that the previous tier
 * requested, or beside a kubelet a cancelled shutdown, is one to wait for.
 */
export function alive({ state }: Step, { pods }: Observation, { tier }: Stopping, sinceMs: number): readonly PodView[] {
  const told = new Set(state.stops.filter(({ decidedMs }) => decidedMs >= sinceMs).map(({ uid }) => uid));
  const isOfTier = ({ leaves }: PodView): boolean => tier === 'stop' || leaves === undefined;
  return pods.known ? pods.value.filter((pod) => !told.has(pod.uid) && isOfTier(pod)) : [];
}

type Now = Pick<Stopping, 'tier'> & { readonly phase: number; readonly atMs: MonoMs; readonly endsMs: MonoMs };

export function stopPods(step: Step, planned: readonly PlannedStop[], { phase, atMs, endsMs, tier }: Now): Step {
  const inTier = tier === 'stop' ? ({ tier } as const) : {};
  let told = step;
  const stops: ShutdownStop[] = [];
  const isTold = new Set(step.state.stops.map(({ uid }) => uid));
  for (const { pod, graceSeconds, waitMs, chain } of planned) {
    const { uid } = pod;
    if (isTold.has(uid)) continue;
    const own = { graceSeconds, endsMs, ...(chain === undefined ? {} : { chain }) };
    // How long units take that are not pods is unknown.
    const isWaiting = (chain?.after.length ?? 0) > 0 || pod.stopsAfterUnits !== undefined;
    const times = !isWaiting
      ? { graceEndsMs: atMs + graceSeconds * 1_000, waitEndsMs: atMs + waitMs }
      : { graceEndsMs: endsMs, waitEndsMs: Math.max(endsMs, atMs + waitMs) };
    const stop = { decision: nextId(told.state), decidedMs: atMs, uid, ...times, ...inTier };
    stops.push(isWaiting ? { ...stop, ...own } : { ...stop, endsMs });
    told = withDecision(told, atMs, {
      kind: 'stop-for-shutdown',
      victim: victimOf(pod),
      phase,
      ...own,
      ...inTier,
      ...tiesOf(pod),
    });
  }
  return { ...told, state: { ...told.state, stops: [...told.state.stops, ...stops] } };
}

/** Pods read for one signal lack those that no eviction could choose by it. */
export const isEveryPod = ({ podsFor = 'all' }: Observation): boolean => podsFor === 'all';

/** Within a phase: what an earlier shutdown, or tier, was still stopping at its start and did not end is stopped anew. */
export function stopLeft(step: Step, observation: Observation): Step {
  const { shutdown, stops } = step.state;
  const { pods, atMs } = observation;
  if (shutdown.kind !== 'stopping' || !pods.known || !isEveryPod(observation)) return step;
  const { phase, phaseEndsMs, tier, pending } = shutdown;
  const isTold = new Set(stops.map(({ uid }) => uid));
  const left = new Set(pending.filter((uid) => !isTold.has(uid)));
  if (left.size === 0 || atMs >= phaseEndsMs) return step;
  const alive = pods.value.filter(({ uid }) => left.has(uid));
  const awaited = withShutdown(step, {
    ...shutdown,
    pending: [...pending.filter((uid) => isTold.has(uid)), ...alive.map(({ uid }) => uid)],
  });
  const planned = withChains(alive.map((pod) => planStop(pod, (phaseEndsMs - atMs) / 1_000)));
  return stopPods(awaited, planned, { phase, atMs, endsMs: phaseEndsMs, tier });
}

/**
 * Within a phase: pods of this or an earlier phase that started since the shutdown began. They become pods of this phase and
 * are stopped too, at most three times. Pods that merely survived their stop are not among them.
 */
export function stopAgain(step: Step, observation: Observation): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping' || !isInPhase(shutdown)) return step;
  const { atMs, wallMs } = observation;
  const { phase, again, phaseEndsMs } = shutdown;
  const beganWallMs = wallMs - (atMs - shutdown.startedMs);
  const isBack = (pod: PodView): boolean =>
    !pod.isTerminating && (pod.startedAtWallMs ?? 0) > beganWallMs && (again[lineOf(pod)] ?? 0) <= STOPS_AGAIN;
  const pods = alive(step, observation, shutdown, 0).filter(isBack);
  const groups = planShutdown(shutdown.phases, pods, shutdown.assigned);
  const back = groups.slice(0, phase).flatMap(({ stops }) => stops.map(({ pod }) => pod));
  const leftSeconds = Math.max(0, phaseEndsMs - atMs) / 1_000;
  const lines = new Map(pods.map((pod) => [pod.uid, lineOf(pod)]));
  const line = (uid: PodUid): string => lines.get(uid) ?? uid;
  const wanted = back
    .filter(({ uid }) => (again[line(uid)] ?? 0) < STOPS_AGAIN)
    .map((pod) => planStop(pod, leftSeconds));
  const stopped = withChains(wanted);
  const seen = back.reduce((now, { uid }) => comesBack(now, uid, line(uid)), step);
  const { tier } = shutdown;
  return stopPods(seen, stopped, { phase, atMs, endsMs: phaseEndsMs, tier });
}

/** Successors are counted per controller, because each successor is a new pod (beside-a-kubelet.md E5). */
const lineOf = ({ ownerKey, uid }: Pick<PodView, 'ownerKey' | 'uid'>): string => ownerKey ?? uid;

/** Counts one more restart. The phase waits for the pod unless it has been stopped often enough. */
function comesBack(step: Step, uid: PodUid, line: string): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping') return step;
  const times = shutdown.again[line] ?? 0;
  const again = { ...shutdown.again, [line]: times + 1 };
  const said = withReason(step, { code: 'shutdown-started-again', uid, times });
  if (times >= STOPS_AGAIN) return withShutdown(said, { ...shutdown, again });
  const { group, pending } = shutdown;
  const others = group.filter((other) => other !== uid);
  return withShutdown(said, {
    ...shutdown,
    again,
    group: [...others, uid],
    pending: [...pending, uid],
    wait: { kind: 'stops' },
  });
}
