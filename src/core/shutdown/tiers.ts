import type { DecisionId } from '../decision.ts';
import type { Observation, Unconfirmed } from '../observation.ts';
import type { MonoMs } from '../reading.ts';
import type { Stopping } from '../state/state.ts';
import { type Step, withReason } from '../step.ts';
import { withShutdown } from './stopping.ts';

/** Beside a kubelet: what comes before the first phase and after the last one (beside-a-kubelet.md E4, E10, E16, E17). */

/** The node shows the shutdown, or could not be marked. An answer for an earlier, cancelled one says nothing about this one. */
export function answered(step: Step, decision: DecisionId, detail: string, atMs: MonoMs): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping' || shutdown.wait.kind !== 'announce') return step;
  if (shutdown.wait.decision !== decision) return step;
  return announced(step, shutdown, detail, atMs);
}

function announced(step: Step, shutdown: Stopping, detail: string | null, atMs: MonoMs): Step {
  const said = withReason(step, { code: 'shutdown-announced', detail });
  // The time of the phases begins now.
  return withShutdown(said, { ...shutdown, startedMs: atMs, wait: { kind: 'next' } });
}

/** The kubelet has stopped its pods, or has died: the result is confirmed for as long as our own stops would be. */
export function kubeletReleased(step: Step, atMs: MonoMs): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping' || shutdown.byKubelet !== 'holds') return step;
  const wait: Stopping['wait'] = shutdown.wait.kind === 'confirm' ? { kind: 'confirm', sinceMs: atMs } : shutdown.wait;
  return withShutdown(step, { ...shutdown, byKubelet: 'released', wait });
}

/** All phases are over. */
export function beginConfirm(step: Step, shutdown: Stopping, observation: Observation): Step {
  const waiting = withShutdown(step, { ...shutdown, wait: { kind: 'confirm', sinceMs: observation.atMs } });
  return endTierWait(waiting, observation);
}

/** Ends a wait outside the phases if its condition is met or its time is over. */
export function endTierWait(step: Step, observation: Observation): Step {
  const { shutdown } = step.state;
  if (shutdown.kind !== 'stopping') return step;
  const { atMs } = observation;
  const { wait } = shutdown;
  if (wait.kind === 'announce') return atMs >= wait.untilMs ? announced(step, shutdown, null, atMs) : step;
  if (wait.kind !== 'confirm' || shutdown.confirm === undefined) return step;
  const { confirm, byKubelet, ...rest } = shutdown;
  const { unconfirmed } = observation;
  const left = unconfirmed === undefined ? NOTHING : unconfirmed.known ? unconfirmed.value : null;
  // It may use the time that our phases left: a pod that is still terminating at power-off stays so until the machine is up
  // again, and a volume that is still in use delays its next node by minutes.
  const hasTime = byKubelet === 'holds' || (left !== null && (byKubelet === undefined || left.pods.length === 0));
  const untilMs = hasTime ? confirm.latestMs : Math.min(confirm.latestMs, wait.sinceMs + confirm.ms);
  const isDone = left !== null && left.pods.length === 0 && left.volumes.length === 0;
  if (!isDone && atMs < untilMs) return step;
  const said = withReason(step, { code: 'shutdown-confirmed', tookMs: atMs - wait.sinceMs, left });
  return withShutdown(said, { ...rest, wait: { kind: 'next' } });
}

const NOTHING: Unconfirmed = { pods: [], volumes: [] };
