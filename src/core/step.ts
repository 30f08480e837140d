import type { Decision, DecisionId } from './decision.ts';
import type { PodView, Victim } from './pod/pod.ts';
import type { Reason } from './reason.ts';
import type { State } from './state/state.ts';
import type { NextLook } from './verdict.ts';

/** The result of one look. `heldToMs`: the latest time to look again, for what it waits for; null = it waits for nothing. */
export type Step = {
  readonly state: State;
  readonly decisions: readonly Decision[];
  readonly reasons: readonly Reason[];
  readonly pods: NextLook['pods'];
  readonly heldToMs: number | null;
  /** As in NextLook. */
  readonly isDiskShort?: true;
};
type Body = Decision extends infer D ? (D extends Decision ? Omit<D, 'id' | 'atMs'> : never) : never;

/** A step that decides nothing. */
export function waiting(state: State, heldToMs: number | null): Step {
  return { state, decisions: [], reasons: [], pods: null, heldToMs };
}

export function withReason(step: Step, reason: Reason): Step {
  return { ...step, reasons: [...step.reasons, reason] };
}

/** Gives the decision the state's next id. */
export function withDecision(step: Step, atMs: number, body: Body): Step {
  const decision: Decision = { id: nextId(step.state), atMs, ...body };
  const state = { ...step.state, nextDecision: step.state.nextDecision + 1 };
  return { ...step, state, decisions: [...step.decisions, decision] };
}

export const nextId = (state: State): DecisionId => `${state.bootId.slice(0, 8)}-${state.nextDecision}`;

export function victimOf({
  uid,
  namespace,
  name,
  qos,
  priority,
  boundTo,
  cgroupInode,
  cgroupPath,
  isBetweenRuns,
  unsaid,
}: Pick<PodView, keyof Victim>): Victim {
  return {
    ...{ uid, namespace, name, qos, priority },
    ...(boundTo === undefined ? {} : { boundTo }),
    ...(cgroupInode === undefined ? {} : { cgroupInode }),
    ...(cgroupPath === undefined ? {} : { cgroupPath }),
    ...(isBetweenRuns === undefined ? {} : { isBetweenRuns }),
    ...(unsaid === undefined ? {} : { unsaid }),
  };
}

/** The earlier of two times to look again. */
export function least(a: number | null, b: number | null): number | null {
  return a === null ? b : b === null ? a : Math.min(a, b);
}
