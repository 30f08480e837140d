import { firstSignal } from '../../core/eviction/threshold.ts';
import { givenSeconds } from '../../core/pod/grace.ts';
import type { PodUid, PodView } from '../../core/pod/pod.ts';
import type { ObservedStops } from '../../core/shutdown/stop-verdict.ts';
import type { DecisionRecord } from '../entry.ts';

type Stop = { readonly tookMs: number; readonly isEnded: boolean };

/** Older ones say little about today's program. */
const STOPS_COUNTED = 5;

/**
 * For every pod that an eviction or a shutdown asked to stop, from records in order. A kill without a request says nothing, and
 * neither does the stop of what the pod's manifest named before.
 */
export function observedStops(
  records: readonly DecisionRecord[],
  pods: readonly Pick<PodView, 'uid' | 'boundTo'>[],
): ReadonlyMap<PodUid, ObservedStops> {
  const boundTo = new Map(pods.map((pod) => [pod.uid, pod.boundTo]));
  const stopsOf = new Map<PodUid, Stop[]>();
  for (const record of records) {
    const { decision } = record;
    if (!('victim' in decision) || record.dry) continue;
    const { victim } = decision;
    const isOfIt = (): boolean => boundTo.has(victim.uid) && boundTo.get(victim.uid) === victim.boundTo;
    const stop = believed(() => (isOfIt() ? stopOf(record) : null));
    if (stop === null) continue;
    const { uid } = victim;
    stopsOf.set(uid, [...(stopsOf.get(uid) ?? []), stop]);
  }
  return new Map([...stopsOf].map(([uid, stops]) => [uid, sumUp(stops.slice(-STOPS_COUNTED))]));
}

/**
 * Bodies of entries are not checked when they are read; one that a failing disk changed is ignored, and hides no other.
 */
function believed(stop: () => Stop | null): Stop | null {
  try {
    const found = stop();
    return found !== null && Number.isFinite(found.tookMs) ? found : null;
  } catch {
    // The stop is not counted; `history` reports its entry as damaged.
    return null;
  }
}

function stopOf({ decision, outcomes, evidence }: DecisionRecord): Stop | null {
  if (!('graceSeconds' in decision) || decision.kind === 'hasten') return null;
  if (decision.kind === 'evict' && firstSignal(decision.threshold) === 'sigkill') return null;
  const outcome = outcomes.find(({ kind }) => kind === 'ended' || kind === 'survived');
  if (outcome === undefined) return null;
  if (outcome.kind === 'ended' && outcome.isNoticedLater) return null;
  const toldMs = 'toldMs' in outcome ? outcome.toldMs : undefined;
  // A pod that was not signalled was not asked to stop.
  if (toldMs === null) return null;
  // It waited for others, nobody knows how long.
  if (toldMs === undefined && 'chain' in decision && decision.chain.after.length > 0) return null;
  const tookMs = outcome.atMs - (toldMs ?? evidence?.stopBeganAtMs ?? decision.atMs);
  // An entry that a failing disk changed may violate either.
  if (!(tookMs >= 0) || !Number.isFinite(decision.graceSeconds)) return null;
  const isEnded = outcome.kind === 'ended' && (outcome.via === 'sigterm' || outcome.via === 'stop-unit');
  // The grace period of an eviction may have been cut meanwhile; the kill came after it.
  const givenMs = givenSeconds(decision.graceSeconds) * 1_000;
  return { tookMs: isEnded ? tookMs : Math.min(tookMs, givenMs), isEnded };
}

function sumUp(stops: readonly Stop[]): ObservedStops {
  const longest = (isEnded: boolean): number | null => {
    const times = stops.filter((stop) => stop.isEnded === isEnded).map(({ tookMs }) => tookMs);
    return times.length === 0 ? null : Math.max(...times);
  };
  return { stops: stops.length, endedMs: longest(true), unfinishedMs: longest(false) };
}
