import type { CoreConfig } from '../core-config.ts';
import type { Observation } from '../observation.ts';
import type { PodView } from '../pod/pod.ts';
import { type FsLayout, SIGNALS, type Signal, type SignalSample } from '../signal.ts';
import type { State } from '../state/state.ts';
import { type Choice, firstCandidate, guardAfter, isGuarded, withoutBudgets } from './candidate.ts';
import { conditionsNow } from './condition.ts';
import { heldByVictims } from './escaped.ts';
import { isActedOn } from './hold-back.ts';
import { isKubeletWaitedFor, withoutKubeletWait } from './kubelet-wait.ts';
import { type Ranked, rank } from './rank.ts';
import { type Shortfall, shortageOf } from './shortage.ts';
import type { Timers } from './thresholds-met.ts';
import { evictionsOf, settleEvictions } from './under-way.ts';
import { trailAfter } from './usage-trend.ts';

export type Look = { readonly observation: Observation; readonly config: CoreConfig; readonly layout: FsLayout };
/** Whom to evict for a shortfall. */
export type Question = {
  readonly guarded: (pod: PodView) => boolean;
  /** In eviction order, without the limits that do not hold under a hard threshold. */
  readonly ranked: (pods: readonly PodView[]) => readonly Ranked[];
  readonly choose: (ranking: readonly Ranked[]) => Choice;
};

/** The state that a look decides in: with its timers and conditions, and with the outcomes of earlier victims. */
export function stateAt(state: State, { observation, config, layout }: Look, timers: Timers): State {
  const { atMs, signals } = observation;
  const { met, kept } = timers;
  const lastSample: { [S in Signal]?: SignalSample } = {};
  for (const signal of SIGNALS) {
    const sample = signals[signal];
    if (sample.known) lastSample[signal] = sample.value;
  }
  const settled = settleEvictions({ ...state, ...kept }, observation, met, layout, config.isLive);
  const isWaiting = isKubeletWaitedFor(observation);
  const isTrailed = (signal: Signal): boolean => isWaiting || isActedOn(settled, shortageOf(signal, layout), layout);
  return {
    ...state,
    ...kept,
    ...settled,
    trail: trailAfter(state.trail, observation, isTrailed),
    ownerKills: guardAfter(state.ownerKills, null, config.guard, atMs),
    conditionLastMetMs: conditionsNow(
      state.conditionLastMetMs,
      met.map(({ signal }) => signal),
      atMs,
      config.pressureTransitionMs,
    ),
    lastLookMs: atMs,
    lastSample,
  };
}

/** kubelet-eviction.md 4.10 and 4.11, with the differences of product.md section 6. `state`: that of `stateAt`. */
export function questionOf(state: State, { observation, config, layout }: Look, shortfall: Shortfall): Question {
  const { signal, isHard, lacking, isAhead } = shortfall;
  const underWay = evictionsOf(state).map(({ victim }) => victim.uid);
  const held = isAhead
    ? 0
    : heldByVictims(state, observation, signal, { lacking, awaited: config.isLive ? underWay : null });
  const guarded = (pod: PodView): boolean => isGuarded(pod, state.ownerKills, config.guard, observation.atMs);
  return {
    guarded,
    ranked: (pods) => {
      const ranking = rank(signal, isHard ? withoutBudgets(pods) : pods, layout);
      return withoutKubeletWait(state, observation, shortfall, ranking);
    },
    choose: (ranking) => firstCandidate(signal, ranking, underWay, guarded, lacking, held),
  };
}
