import type { Observation } from './observation.ts';
import { type Heard, isEnd, type Outcome } from './outcome.ts';
import type { PodUid } from './pod.ts';
import { SIGNAL_FACTS, type Signal } from './signal.ts';
import type { Eviction, State } from './state.ts';
import type { MetThreshold } from './threshold.ts';

/** D3: a victim has its grace and 10 s to give back. */
export const PROOF_MS = 10_000;

type Settled = Pick<State, 'act' | 'dryDropped' | 'dryOverLimit'>;

/**
 * D3: what became of the evictions under way. One with an outcome is over. One after whose grace no threshold of its
 * resource is met any more, or whose deadline has passed, no longer holds back the next: while a soft threshold is still
 * met above the hard one that chose it, what it holds is coming back.
 */
export function settleEvictions(state: State, observation: Observation, met: readonly MetThreshold[]): Settled {
  const evictions = state.act.kind === 'evicting' ? state.act.evictions : [];
  const isShort = (signal: Signal): boolean =>
    met.some((threshold) => SIGNAL_FACTS[threshold.signal].condition === SIGNAL_FACTS[signal].condition) ||
    !observation.signals[signal].known;
  let dryDropped = state.dryDropped.filter((id) => met.some((threshold) => threshold.id === id));
  let dryOverLimit: readonly PodUid[] = state.dryOverLimit;
  const left: Eviction[] = [];
  for (const eviction of evictions) {
    const heard = observation.outcomes.filter(({ of }) => of === eviction.decision);
    const outcome = heard.find(isEnd);
    if (outcome === undefined) {
      left.push(settle(withSignals(eviction, heard), observation.atMs, isShort));
    } else if (isDryDrop(outcome)) {
      if (eviction.cause.kind === 'threshold') dryDropped = [...dryDropped, eviction.cause.threshold.id];
      else dryOverLimit = [...dryOverLimit, eviction.victim.uid];
    }
  }
  const act: State['act'] = state.act.kind !== 'evicting' ? state.act : actOf(left);
  return { act, dryDropped, dryOverLimit };
}

export function actOf(evictions: readonly Eviction[]): State['act'] {
  return evictions.length === 0 ? { kind: 'idle' } : { kind: 'evicting', evictions };
}

function withSignals(eviction: Eviction, heard: readonly Heard[]): Eviction {
  let { signalledMs, killedMs } = eviction;
  for (const signal of heard) {
    if (signal.kind !== 'signalled') continue;
    signalledMs ??= signal.atMs;
    if (signal.with === 'sigkill') killedMs ??= signal.atMs;
  }
  if (signalledMs === undefined || (signalledMs === eviction.signalledMs && killedMs === eviction.killedMs))
    return eviction;
  return { ...eviction, signalledMs, ...(killedMs === undefined ? {} : { killedMs }) };
}

function settle(eviction: Eviction, atMs: number, isShort: (signal: Signal) => boolean): Eviction {
  if (eviction.settledMs !== null || eviction.cause.kind !== 'threshold') return eviction;
  const hasGivenBack = atMs >= eviction.graceEndsMs && !isShort(eviction.cause.threshold.signal);
  return hasGivenBack || atMs >= eviction.deadlineMs ? { ...eviction, settledMs: atMs } : eviction;
}

function isDryDrop(outcome: Outcome): boolean {
  return outcome.kind === 'dropped' && outcome.because === 'dry-run';
}
