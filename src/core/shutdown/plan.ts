import type { CoreConfig, ShutdownPhase } from '../core-config.ts';
import { actionWithin } from '../pod/grace.ts';
import type { PodUid, PodView, Victim } from '../pod/pod.ts';
import { chainsOf, priorityOf, type StopChain } from './chain.ts';

/** What the plan needs of a pod. Pods that must not be stopped (mirror pods, finished ones) are already left out. */
type ShutdownPod = Pick<
  PodView,
  | keyof Victim
  | 'terminationGraceSeconds'
  | 'isTerminating'
  | 'inherited'
  | 'takesAlong'
  | 'stopsAfter'
  | 'stopsAfterUnits'
  | 'leaves'
  | 'endsMachine'
>;
export type PlannedStop = {
  readonly pod: ShutdownPod;
  /** As requested: the pod's own or the phase's, whichever is shorter (kubelet-shutdown.md 4.5). */
  readonly graceSeconds: number;
  /** What its containers get (4.6); null: it is already terminating and keeps its grace period (4.9). */
  readonly effectiveGraceSeconds: number | null;
  /** The longest wait of the phase for it (5.2). */
  readonly waitMs: number;
  /** Absent: it waits for no pod, and no pod waits for it. */
  readonly chain?: StopChain;
};
/** A phase with its pods; `phase` counts from 1. */
export type ShutdownGroup = ShutdownPhase & { readonly phase: number; readonly stops: readonly PlannedStop[] };

/** The minimum that a phase waits for a stop that exceeds its grace period (kubelet-shutdown.md 5.2). */
const LEAST_WAIT_SECONDS = 10;
const LEAST_GRACE_SECONDS = 1;
/** How many times a pod that is started again during the shutdown is stopped again. */
export const STOPS_AGAIN = 3;

/** The pods that belong to a phase after the first one, with its number. */
export type Assigned = { readonly [uid: PodUid]: number };

/** The phase of each pod by its current priority. */
export function assign(phases: readonly ShutdownPhase[], pods: readonly ShutdownPod[]): Assigned {
  const numbers = pods.map((pod) => [pod.uid, phaseNumber(phases, pod)] as const);
  return Object.fromEntries(numbers.filter(([, phase]) => phase > 1));
}

/**
 * Why a pod is stopped in no phase, but left to the service manager: its end may begin another shutdown in the middle of this
 * one, without phases. Null: it is not. The time of its job begins with its phase. Until the phases are over it may wait
 * for its turn, and if the shutdown is cancelled then, it gets the whole time that it declares.
 */
export function leftBecause(
  pod: Pick<PodView, 'endsMachine' | 'terminationGraceSeconds' | 'stopsAfter' | 'stopsAfterUnits'>,
  phases: readonly ShutdownPhase[],
): string | null {
  const mayWait = [...(pod.stopsAfter ?? []), ...(pod.stopsAfterUnits ?? [])].length > 0;
  const longestSeconds = mayWait ? phases.reduce((sum, { periodSeconds }) => sum + waitSeconds(periodSeconds), 0) : 0;
  return actionWithin(pod.endsMachine, longestSeconds + pod.terminationGraceSeconds);
}

/**
 * kubelet-shutdown.md section 4: every phase in order with the pods that stop in it, in the order given, with D16 and
 * chains. Pods in `assigned` keep their phase, even if their priority has changed, unless a pod of a later phase has come to
 * depend on them since: that one would be stopped along with them.
 */
export function planShutdown(
  phases: readonly ShutdownPhase[],
  pods: readonly ShutdownPod[],
  assigned: Assigned = {},
): readonly ShutdownGroup[] {
  const groups = phases.map((phase, index) => ({ ...phase, phase: index + 1, stops: [] as PlannedStop[] }));
  for (const pod of pods) {
    if (leftBecause(pod, phases) !== null) continue;
    const group = groups[assignedPhase(phases, pod, assigned) - 1];
    group?.stops.push(planStop(pod, group.periodSeconds));
  }
  return groups.map((group) => ({ ...group, stops: withChains(group.stops) }));
}

function assignedPhase(phases: readonly ShutdownPhase[], pod: ShutdownPod, assigned: Assigned): number {
  const { uid, inherited } = pod;
  const phase = assigned[uid] ?? phaseNumber(phases, pod);
  return inherited === undefined ? phase : Math.max(phase, phaseIndex(phases, inherited.priority) + 1);
}

/** Adds the chains, with the grace periods as now planned. */
export function withChains(stops: readonly PlannedStop[]): readonly PlannedStop[] {
  const links = stops.map(({ pod: { uid, stopsAfter }, graceSeconds }) => ({ uid, graceSeconds, stopsAfter }));
  const chains = chainsOf(links);
  return stops.map((stop) => {
    const chain = chains.get(stop.pod.uid);
    return chain === undefined ? stop : { ...stop, chain };
  });
}

/** The stop of one pod in a phase of `periodSeconds`. */
export function planStop(pod: ShutdownPod, periodSeconds: number): PlannedStop {
  const graceSeconds = Math.min(pod.terminationGraceSeconds, periodSeconds);
  return {
    pod,
    graceSeconds,
    effectiveGraceSeconds: pod.isTerminating ? null : Math.max(LEAST_GRACE_SECONDS, graceSeconds),
    waitMs: waitSeconds(graceSeconds) * 1_000,
  };
}

/** The longest wait of a phase for a stop with that grace period. */
const waitSeconds = (graceSeconds: number): number =>
  Math.max(LEAST_WAIT_SECONDS, graceSeconds + Math.floor(graceSeconds / 2));

function phaseNumber(phases: readonly ShutdownPhase[], pod: ShutdownPod): number {
  return pod.leaves === 'last' ? phases.length : phaseIndex(phases, priorityOf(pod)) + 1;
}

/**
 * kubelet-shutdown.md 4.3: the last phase that begins at or below the priority, or the first phase if none does. If two
 * begin at the same priority, the first gets the pods with exactly that priority (1.4).
 */
function phaseIndex(phases: readonly ShutdownPhase[], priority: number): number {
  const index = phases.findIndex(({ fromPriority }) => fromPriority >= priority);
  if (index === -1) return phases.length - 1;
  return phases[index]?.fromPriority === priority ? index : Math.max(0, index - 1);
}

/** kubelet-shutdown.md 2.3: what logind must grant: the sum of all periods, including those of phases without pods. */
export function neededDelayMs(phases: readonly ShutdownPhase[]): number {
  return phases.reduce((sum, { periodSeconds }) => sum + periodSeconds, 0) * 1_000;
}

/** product.md section 9: including what comes before and after the phases. */
export function neededTotalMs({ phases, tiers }: Pick<CoreConfig, 'phases' | 'tiers'>): number {
  const phasesMs = neededDelayMs(phases);
  return phasesMs <= 0 || tiers === undefined ? phasesMs : tiers.announceMs + phasesMs + tiers.confirmMs;
}

/** kubelet-shutdown.md 2.4: the value for the drop-in; null: logind grants enough, so none is written. */
export function dropInSeconds(neededMs: number, grantedMs: number): number | null {
  return neededMs > grantedMs ? neededMs / 1_000 : null;
}
