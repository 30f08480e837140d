import type { CoreConfig } from './core-config.ts';
import type { Decision } from './decision.ts';
import { stepEviction } from './evict.ts';
import type { Observation } from './observation.ts';
import { nextLookMs, spentAfter } from './pace.ts';
import type { State } from './state.ts';
import { withContainerfs } from './threshold.ts';
import type { Verdict } from './verdict.ts';

/** How long the first signal may wait for the record's fsync (product.md section 7). */
const HARD_INTENT_MS = 5;
const SOFT_INTENT_MS = 50;

/** One step: what follows from what is. The same arguments give the same verdict, anywhere and at any time. */
export function decide(state: State, observation: Observation, config: CoreConfig): Verdict {
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const { all, atOnce } = withContainerfs(config.thresholds, layout);
  const now = state.lastLookMs === null ? atOnce : all;
  const step = stepEviction(state, observation, config, { now, all });
  const spent = spentAfter(state.spent, observation);
  const afterMs =
    step.heldToMs === 0 ? 0 : nextLookMs(observation, all, config, spent, step.heldToMs ?? Number.POSITIVE_INFINITY);
  return {
    state: { ...step.state, spent },
    decisions: step.decisions,
    reasons: step.reasons,
    next: { afterMs, pods: step.pods },
    intentWaitMs: step.decisions.some(isUrgent) ? HARD_INTENT_MS : SOFT_INTENT_MS,
  };
}

function isUrgent(decision: Decision): boolean {
  return decision.kind === 'hasten' || (decision.kind === 'evict' && decision.threshold.isHard);
}
