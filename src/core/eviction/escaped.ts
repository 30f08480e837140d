import type { Observation } from '../observation.ts';
import type { Heard } from '../outcome.ts';
import { isBeingStopped, type PodUid, type PodView } from '../pod/pod.ts';
import { valueOrNull } from '../reading.ts';
import { type FsLayout, hasRequest, isDisk, SIGNAL_FACTS, type Signal, type SignalFacts } from '../signal.ts';
import type { EscapedFrom, State } from '../state/state.ts';
import { measuredDisk, measuredUsage } from './comparator.ts';
import { comesBackOf, givesBack } from './gives-back.ts';
import { freedOf } from './relief.ts';
import type { Shortfall } from './shortage.ts';

const MOST_KEPT = 16;
/** A running pod's unreaped dead count from this share of all process IDs on: a few have nothing to do with a shortage. */
const DEAD_SHARE = 0.01;
/** Fewer never count, so that nobody has to count them. */
export const LEAST_DEAD = 10;

/** What somebody still holds if that is all that the signal lacks. */
export type Held = {
  /** 0: less than is lacking. */
  readonly amount: number;
  /** Only with what pods left that have ended: that saves no pod that exceeds its request, however little. */
  readonly isLeft?: true;
  /** A running pod with as many unreaped dead is to blame. Absent: none is by them. */
  readonly leastDead?: number;
};
export const NOTHING_HELD: Held = { amount: 0 };

/** Its unreaped dead, if it is to blame by them alone; else 0. */
export function blamedDead({ usage: { deadHeld } }: PodView, { leastDead = Number.POSITIVE_INFINITY }: Held): number {
  return deadHeld?.known && deadHeld.value >= leastDead ? deadHeld.value : 0;
}

/** After this look: victims whose outcome says that they still hold something, as long as they do. */
export function escapedAfter(
  { escaped }: Pick<State, 'escaped'>,
  { escaped: held = [], outcomes }: Pick<Observation, 'escaped' | 'outcomes'>,
): State['escaped'] {
  const isOver = ({ decision }: EscapedFrom): boolean =>
    held.some(({ of, memoryBytes, processIds }) => of === decision && memoryBytes === 0 && processIds === 0);
  const left = escaped.filter((one) => !isOver(one));
  return [...left, ...outcomes.flatMap(joined)].slice(-MOST_KEPT);
}

function joined(heard: Heard): readonly EscapedFrom[] {
  if (heard.kind === 'survived' && heard.escaped !== undefined) return [{ decision: heard.of, ...heard.escaped }];
  if (heard.kind !== 'ended' || heard.unreaped === undefined) return [];
  return [{ decision: heard.of, cgroup: heard.unreaped, isUnreaped: true }];
}

/** How much of a stall is due to what somebody holds is unknown. */
const COUNTS: {
  readonly [what in SignalFacts['comesBack']]: 'memoryBytes' | 'swapBytes' | 'processIds' | null;
} = {
  memory: 'memoryBytes',
  swap: 'swapBytes',
  'process-ids': 'processIds',
  stall: null,
  nothing: null,
};

/**
 * D3: what victims still hold, and what is left of pods that have ended, if that is all that the signal lacks, so that no pod
 * that is not to blame is chosen for it. Victims that could not be ended and pods that have finished hold what they use, others
 * what they hold outside their cgroups or by their unreaped dead: one that has not been read yet may hold what is lacking. A
 * running pod is to blame if its unreaped dead alone are what is lacking. Of a disk, whose files outlive their writers, they hold
 * what is removed once they have ended, which saves no pod that exceeds its request, however little. One that may be started
 * again saves nobody once the signal is urgent. `awaited`: victims whose end is awaited; null: not live, so nothing survives.
 */
export function heldOf(
  { escaped }: Pick<State, 'escaped'>,
  observation: Pick<Observation, 'escaped' | 'pods' | 'signals' | 'leftBytes' | 'comesBack'>,
  { signal, lacking, isUrgent }: Shortfall,
  awaited: readonly PodUid[] | null,
  layout: FsLayout,
): Held {
  const { escaped: held = [], pods, signals, leftBytes = 0 } = observation;
  const hasFinished = ({ limitedBy }: PodView): boolean =>
    limitedBy === 'finished' || (limitedBy === 'maybe-finished' && isUrgent !== true);
  const hasSurvived = (pod: PodView): boolean =>
    pod.hasSurvived === true ||
    hasFinished(pod) ||
    (awaited !== null && isBeingStopped(pod) && !awaited.includes(pod.uid));
  const survivors = pods.known ? pods.value.filter(hasSurvived) : [];
  if (isDisk(signal)) {
    const removed = observation.comesBack?.filter(({ uid }) => awaited !== null && !awaited.includes(uid)) ?? [];
    const ofRemoved = removed.reduce((all, { disk }) => all + (disk ? measuredDisk(signal, disk, layout) : 0), 0);
    const amount = survivors.reduce((all, pod) => all + filesOf(signal, pod, layout), ofRemoved);
    // For a signal without requests nobody is known to be to blame: whoever fills on would do so down to zero.
    const isBounded = hasRequest(signal) || isUrgent !== true;
    return amount >= lacking && isBounded ? { amount, isLeft: true } : NOTHING_HELD;
  }
  const counts = COUNTS[SIGNAL_FACTS[signal].comesBack];
  const sample = signals[signal];
  if (counts === null || !sample.known) return NOTHING_HELD;
  const { capacity } = sample.value;
  const isUnread = escaped.some(
    ({ decision, isUnreaped }) => !(isUnreaped && counts !== 'processIds') && held.every(({ of }) => of !== decision),
  );
  const outside = escaped.length === 0 ? 0 : held.reduce((all, one) => all + (one[counts] ?? 0), 0);
  const unmounting = comesBackOf(observation, signal);
  const inside = survivors.reduce((all, pod) => all + givesBack(pod, signal), unmounting);
  // Nobody may ever free it, so it saves innocents only until half of what the threshold keeps free is used up: the kernel must
  // not choose instead. A victim's cgroup may be among them.
  const left = counts === 'memoryBytes' && isUrgent !== true ? leftBytes : 0;
  const leastDead = Math.max(lacking, LEAST_DEAD, DEAD_SHARE * capacity);
  const running = pods.known && counts === 'processIds' ? pods.value.filter((pod) => !isBeingStopped(pod)) : [];
  const dead = running.reduce((all, pod) => all + blamedDead(pod, { amount: 0, leastDead }), 0);
  const byOthers = outside + inside + dead;
  const blamed = dead > 0 ? { leastDead } : {};
  if (isUnread || byOthers >= lacking) return { amount: Math.max(byOthers, lacking), ...blamed };
  const withLeft = Math.max(outside, left) + inside;
  return withLeft >= lacking ? { amount: withLeft, isLeft: true } : NOTHING_HELD;
}

/** What is removed of it from the disk. Where D14 is not measured, all that it has, as the kubelet removes a pod whole. */
const filesOf = (signal: Signal, pod: PodView, layout: FsLayout): number =>
  freedOf(signal, pod) ?? valueOrNull(measuredUsage(signal, pod, layout)) ?? 0;
