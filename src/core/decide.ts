import type { CoreConfig } from './core-config.ts';
import type { Decision } from './decision.ts';
import { stepEviction } from './eviction/evict.ts';
import { type Threshold, withContainerfs } from './eviction/threshold.ts';
import { resolve } from './eviction/thresholds-met.ts';
import type { Observation } from './observation.ts';
import { glanceFor, nextDisksMs, nextLookMs, spentAfter } from './pace.ts';
import { stepShutdown, withStopsTerminating } from './shutdown/step.ts';
import { isDisk } from './signal.ts';
import type { State } from './state/state.ts';
import { bytesUp } from './units/quantity.ts';
import type { Verdict } from './verdict.ts';

/** How long the first signal may wait for the record's fsync (product.md section 7). */
const HARD_INTENT_MS = 5;
const SOFT_INTENT_MS = 50;
/** A disk is near its threshold within this share of its capacity. */
const NEAR_SHARE = 0.05;

/** One step: first shutdown, then eviction, then the pace. The same arguments always give the same verdict. */
export function decide(state: State, observation: Observation, config: CoreConfig): Verdict {
  const layout = observation.fsLayout.known ? observation.fsLayout.value : 'nodefs-only';
  const { all, atOnce } = withContainerfs(config.thresholds, layout);
  const now = state.lastLookMs === null ? atOnce : all;
  const shutdown = stepShutdown(state, observation, config);
  const seen = withStopsTerminating(observation, shutdown.state.stops);
  const step = stepEviction(shutdown.state, seen, config, { now, all });
  const spent = spentAfter(state.spent, observation);
  const decisions = [...shutdown.decisions, ...step.decisions];
  const heldToMs = step.heldToMs ?? Number.POSITIVE_INFINITY;
  const paceMs = heldToMs === 0 ? 0 : nextLookMs(observation, all, config, spent, heldToMs);
  const isPaced = heldToMs > 0 && shutdown.heldToMs === null;
  const isQuiet = isPaced && decisions.length === 0 && isNothingUnderWay(step.state);
  const glance = isQuiet ? glanceFor(observation, all, config, spent, { heldToMs, paceMs }) : null;
  return {
    state: { ...step.state, spent },
    decisions,
    reasons: [...shutdown.reasons, ...step.reasons],
    next: {
      afterMs: Math.min(paceMs, shutdown.heldToMs ?? paceMs),
      pods: shutdown.pods ?? step.pods,
      ...(isDiskNear(observation, all) ? { isDiskNear: true } : {}),
      ...(step.isDiskShort === true ? { isDiskShort: true } : {}),
      ...(isPaced ? { disksAfterMs: nextDisksMs(observation, all, config, heldToMs) } : {}),
      ...(glance === null ? {} : { glance }),
      ...(step.state.escaped.length === 0 ? {} : { escaped: step.state.escaped }),
    },
    intentWaitMs: decisions.some(isUrgent) ? HARD_INTENT_MS : SOFT_INTENT_MS,
  };
}

/** No threshold counts as met and no victim is awaited: another look at the same values would decide the same. */
function isNothingUnderWay({ act, reclaims, firstMetMs, unresolved, stops }: State): boolean {
  const isIdle = act.kind === 'idle' && reclaims.length === 0;
  return isIdle && stops.length === 0 && unresolved.length === 0 && Object.keys(firstMetMs).length === 0;
}

function isUrgent(decision: Decision): boolean {
  return decision.kind === 'hasten' || (decision.kind === 'evict' && decision.threshold.isHard);
}

/** Whether a disk threshold is met or near: the pods' disk usage should be known before a ranking needs it. */
export function isDiskNear({ signals }: Pick<Observation, 'signals'>, thresholds: readonly Threshold[]): boolean {
  return thresholds.some(({ signal, value }) => {
    const sample = signals[signal];
    if (!isDisk(signal) || !sample.known) return false;
    const { available, capacity } = sample.value;
    // An approximation is enough: every look computes it, and it decides nothing.
    const limit = value.kind === 'fraction' ? capacity * value.fraction : bytesUp(resolve(value, capacity));
    return available - limit < NEAR_SHARE * capacity;
  });
}
