import type { CoreConfig } from '../core-config.ts';
import type { Observation } from '../observation.ts';
import { withMachineActions } from '../pod/grace.ts';
import type { PodView } from '../pod/pod.ts';
import { unknown } from '../reading.ts';
import { type FsLayout, isDisk, SIGNALS, type Signal, type SignalSample } from '../signal.ts';
import type { Eviction, State } from '../state/state.ts';
import { type Choice, firstCandidate, withoutBudgets } from './candidate.ts';
import { conditionsNow } from './condition.ts';
import { heldOf, NOTHING_HELD } from './escaped.ts';
import { isActedOn } from './hold-back.ts';
import { isKubeletWaitedFor, withoutKubeletWait } from './kubelet-wait.ts';
import { guardAfter, isGuarded } from './loop-guard.ts';
import { type Ranked, rank } from './rank.ts';
import { type Shortfall, shortageOf } from './shortage.ts';
import { type MetThreshold, signalOf, type ThresholdId } from './threshold.ts';
import type { Timers } from './thresholds-met.ts';
import { evictionsOf, isOverFor, settleEvictions } from './under-way.ts';
import { trailAfter } from './usage-trend.ts';

export type Look = { readonly observation: Observation; readonly config: CoreConfig; readonly layout: FsLayout };
/** Whom to evict for a shortfall. */
export type Question = {
  readonly guarded: (pod: PodView) => boolean;
  /** In eviction order, with the limits that hold under this threshold. */
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
    ownerKills: guardAfter(settled.ownerKills, null, config.guard, atMs),
    conditionLastMetMs: conditionsNow(
      state.conditionLastMetMs,
      {
        met: met.map(({ signal }) => signal),
        unread: (Object.keys(kept.firstMetMs) as ThresholdId[])
          .map(signalOf)
          .filter((signal) => !signals[signal].known),
      },
      atMs,
      config.pressureTransitionMs,
    ),
    lastLookMs: atMs,
    lastSample,
  };
}

/**
 * The pods, for a signal. kubelet-eviction.md 1.2.5: unknown for a disk while it is not known which of their files are on it.
 * What was measured of one file system does not depend on that.
 */
export function podsFor(
  { pods, fsLayout }: Pick<Observation, 'pods' | 'fsLayout'>,
  signal: Signal,
): Observation['pods'] {
  if (!pods.known || fsLayout.known || !isDisk(signal)) return pods;
  const isByKind = ({ usage: { disk }, diskRelief }: PodView): boolean =>
    disk.known ? disk.value.isOfFileSystem !== true : diskRelief === undefined;
  if (!pods.value.some(isByKind)) return pods;
  return unknown(fsLayout.why, 'the disk of their writable layers', `${fsLayout.where}: ${fsLayout.detail}`);
}

/** D14's facts are about the file system for which the pods were read. */
export function isOtherDisk({ observation, layout }: Look, { signal }: MetThreshold): boolean {
  const asked = observation.podsFor;
  if (asked === undefined || !isDisk(signal)) return false;
  return asked === null || asked === 'all' || shortageOf(asked, layout) !== shortageOf(signal, layout);
}

/** D3: the walks of their directories are not awaited for another resource. */
export function isUnknownForDisk({ podsFor = null }: Observation, { signal }: MetThreshold): boolean {
  return podsFor !== null && podsFor !== 'all' && isDisk(podsFor) && !isDisk(signal);
}

/** kubelet-eviction.md 4.10 and 4.11, with the differences of product.md section 6. `state`: that of `stateAt`. */
export function questionOf(state: State, { observation, config, layout }: Look, shortfall: Shortfall): Question {
  const { signal, isHard, isAhead, lacking } = shortfall;
  const evictions = evictionsOf(state);
  const underWay = evictions.map(({ victim }) => victim.uid);
  // Of one that is no longer waited for, the outcome may come later: what it holds is held until then, too.
  const shortage = shortageOf(signal, layout);
  const isAwaited = (eviction: Eviction): boolean => eviction.settledMs === null && !isOverFor(eviction, shortage);
  const awaited = evictions.filter(isAwaited).map(({ victim }) => victim.uid);
  const held = isAhead ? NOTHING_HELD : heldOf(state, observation, shortfall, config.isLive ? awaited : null, layout);
  const guarded = (pod: PodView): boolean => isGuarded(pod, state.ownerKills, config.guard, observation.atMs);
  return {
    guarded,
    ranked: (pods) => {
      const asked = withMachineActions(isHard ? withoutBudgets(pods) : pods, shortfall, config);
      const ranking = rank(signal, asked, layout);
      return withoutKubeletWait(state, observation, shortfall, ranking);
    },
    choose: (ranking) => firstCandidate(signal, ranking, underWay, guarded, lacking, held),
  };
}
