import type { Observation } from '../observation.ts';
import type { PodView } from '../pod/pod.ts';
import { isDisk, type Signal } from '../signal.ts';
import type { State } from '../state/state.ts';
import { isToBlame } from './give-way.ts';
import type { Ranked } from './rank.ts';
import type { Shortfall } from './shortage.ts';
import { isSoonZero } from './usage-trend.ts';

/**
 * beside-a-kubelet.md F6 (i): choices wait for what the kubelet's own eviction frees. Under a hard threshold of memory or
 * process IDs, pods to blame that are not protected (D7) are exempt from this wait, and all pods once the signal would reach
 * zero soon.
 */
export function withoutKubeletWait(
  state: State,
  observation: Observation,
  { signal, isHard, lacking }: Shortfall,
  ranking: readonly Ranked[],
): readonly Ranked[] {
  if (!isHard || isDisk(signal) || !isKubeletWaitedFor(observation)) return ranking;
  const isSoon = isZeroSoon(state, observation, signal);
  const isBlamed = (entry: Ranked): boolean => !entry.pod.isProtected && isToBlame(signal, entry, lacking);
  const isFree = (entry: Ranked): boolean => isWaiting(entry.pod) && (isSoon || isBlamed(entry));
  return ranking.map((entry) => (isFree(entry) ? { ...entry, pod: { ...entry.pod, limitedBy: null } } : entry));
}

export const isKubeletWaitedFor = ({ pods }: Observation): boolean => pods.known && pods.value.some(isWaiting);

const isWaiting = ({ limitedBy }: PodView): boolean => limitedBy === 'kubelet-evicting';

function isZeroSoon(state: State, { signals }: Observation, signal: Signal): boolean {
  const sample = signals[signal];
  const nothing = { coming: 0, byOthers: Number.POSITIVE_INFINITY };
  return sample.known && isSoonZero(state.trail[signal] ?? [], sample.value, nothing);
}
