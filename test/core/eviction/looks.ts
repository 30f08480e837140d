import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { Decision } from '../../../src/core/decision.ts';
import type { Observation } from '../../../src/core/observation.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import type { Verdict } from '../../../src/core/verdict.ts';

/** Looks one after another through the same state. */
export function looks(config: CoreConfig, ...observations: readonly Observation[]): readonly Verdict[] {
  let state: State = initialState('boot');
  return observations.map((observation) => {
    const verdict = decide(state, observation, config);
    state = verdict.state;
    return verdict;
  });
}
export const kinds = (verdict: Verdict | undefined): readonly string[] =>
  verdict?.decisions.map(({ kind }) => kind) ?? [];
export const evictions = (verdict: Verdict | undefined): readonly Extract<Decision, { kind: 'evict' }>[] =>
  verdict?.decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision] : [])) ?? [];
export const codes = (verdict: Verdict | undefined): readonly string[] =>
  verdict?.reasons.map(({ code }) => code) ?? [];
