import type { Observation } from '../observation.ts';
import type { Heard } from '../outcome.ts';
import { isBeingStopped, type PodUid, type PodView } from '../pod/pod.ts';
import { SIGNAL_FACTS, type Signal, type SignalFacts } from '../signal.ts';
import type { EscapedFrom, State } from '../state/state.ts';
import { givesBack } from './gives-back.ts';

const MOST_KEPT = 16;

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
  return [{ decision: heard.of, cgroup: heard.unreaped, processes: [], isUnreaped: true }];
}

const COUNTS: { readonly [what in SignalFacts['comesBack']]: 'memoryBytes' | 'processIds' | null } = {
  memory: 'memoryBytes',
  swap: 'memoryBytes',
  'process-ids': 'processIds',
  stall: 'memoryBytes',
  nothing: null,
};

/**
 * D3: what victims still hold if that is all that the signal lacks, so that no pod that is not to blame is chosen for it; 0: it
 * is less. Those that could not be ended hold what they use, others what they hold outside their cgroups or by their unreaped
 * dead: one that has not been read yet may hold what is lacking. `awaited`: victims whose end is awaited; null: not live, so
 * nothing survives.
 */
export function heldByVictims(
  { escaped }: Pick<State, 'escaped'>,
  { escaped: held = [], pods }: Pick<Observation, 'escaped' | 'pods'>,
  signal: Signal,
  { lacking, awaited }: { readonly lacking: number; readonly awaited: readonly PodUid[] | null },
): number {
  const counts = COUNTS[SIGNAL_FACTS[signal].comesBack];
  if (counts === null) return 0;
  const isUnread = escaped.some(
    ({ decision, isUnreaped }) => !(isUnreaped && counts === 'memoryBytes') && held.every(({ of }) => of !== decision),
  );
  const outside = escaped.length === 0 ? 0 : held.reduce((all, one) => all + one[counts], 0);
  const hasSurvived = (pod: PodView): boolean =>
    pod.hasSurvived === true || (awaited !== null && isBeingStopped(pod) && !awaited.includes(pod.uid));
  const survivors = pods.known ? pods.value.filter(hasSurvived) : [];
  const inside = survivors.reduce((all, pod) => all + finite(givesBack(pod, signal)), 0);
  const all = outside + inside;
  return isUnread ? Math.max(all, lacking) : all >= lacking ? all : 0;
}
/** How much of a stall is due to a pod is unknown. */
const finite = (amount: number): number => (Number.isFinite(amount) ? amount : 0);
