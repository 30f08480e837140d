import type { ShutdownPhase } from '../core-config.ts';
import type { State, Stopping } from '../state/state.ts';
import type { Step } from '../step.ts';

/** The machine goes down: pods are being stopped, or all of them have been. */
export const isUnderWay = ({ kind }: State['shutdown']): boolean => kind === 'stopping' || kind === 'released';

/** It is one that logind has announced. */
export const isByLogind = (shutdown: State['shutdown']): boolean =>
  shutdown.kind === 'released' || (shutdown.kind === 'stopping' && shutdown.tier === 'logind');

/** Whether it waits for the pods or volumes of a phase. */
export const isInPhase = ({ wait }: Stopping): boolean => wait.kind === 'stops' || wait.kind === 'volumes';

/** Its own: a reload does not change a shutdown in progress. Where the kubelet stops the pods, it has none. */
export function phasesOf(shutdown: State['shutdown'], configured: readonly ShutdownPhase[]): readonly ShutdownPhase[] {
  const own = shutdown.kind === 'stopping' || shutdown.kind === 'released' ? (shutdown.phases ?? []) : [];
  return own.length > 0 ? own : configured;
}

export function withShutdown(step: Step, stopping: Stopping): Step {
  return setShutdown(step, { kind: 'stopping', ...stopping });
}

export function setShutdown(step: Step, shutdown: State['shutdown']): Step {
  return { ...step, state: { ...step.state, shutdown } };
}
