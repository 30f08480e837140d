import type { State, Stopping } from '../state/state.ts';
import type { Step } from '../step.ts';

/** Whether it waits for the pods or volumes of a phase. */
export const isInPhase = ({ wait }: Stopping): boolean => wait.kind === 'stops' || wait.kind === 'volumes';

export function withShutdown(step: Step, stopping: Stopping): Step {
  return setShutdown(step, { kind: 'stopping', ...stopping });
}

export function setShutdown(step: Step, shutdown: State['shutdown']): Step {
  return { ...step, state: { ...step.state, shutdown } };
}
