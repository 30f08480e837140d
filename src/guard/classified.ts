import { isSettled } from '../core/guard/candidates.ts';
import { lookOf } from '../core/guard/gates.ts';
import { ageOf, classOf, type NodeClass } from '../core/guard/health.ts';
import type { NodeMemory } from '../core/guard/state.ts';
import type { GuardLook } from './loop.ts';

export type Classified = {
  readonly memory: NodeMemory;
  readonly health: NodeClass;
  /** As `ageOf` says. */
  readonly ageMs: number | null;
};

/** Every node at this look. */
export function* classified({ observation, verdict: { state }, config }: GuardLook): Iterable<Classified> {
  const look = lookOf(state, observation, config);
  const settled = isSettled(look);
  for (const memory of state.nodes.values()) {
    const ageMs = ageOf(memory, look.asOfMs, settled);
    yield { memory, ageMs, health: classOf(memory, ageMs, look.asOfMs, observation.atMs, config) };
  }
}

export const noNodes = (): { [C in NodeClass]: number } => ({
  ...{ healthy: 0, unhappy: 0, suspect: 0, dead: 0, planned: 0, new: 0 },
});
