import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { Decision } from '../../../src/core/decision.ts';
import type { Observation } from '../../../src/core/observation.ts';
import type { Outcome } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { aConfig, anObservation, aPod } from '../../a.ts';

export const LOCK = { kind: 'lock-granted', delayMaxMs: 600_000 } as const;
export const PREPARING = { kind: 'preparing' } as const;
export const CANCELLED = { kind: 'cancelled' } as const;

/** Phases from priority 0 (20 s), 1,000 (10 s) and 2,000 (5 s). */
export function aShutdownConfig(rest: Partial<CoreConfig> = {}): CoreConfig {
  const phases = [
    { fromPriority: 0, periodSeconds: 20 },
    { fromPriority: 1_000, periodSeconds: 10 },
    { fromPriority: 2_000, periodSeconds: 5 },
  ];
  const pace = { minMs: 1, maxMs: 600_000, cpuShare: 1, cpus: 1 };
  return aConfig([], { phases, pace, ...rest });
}
export const web = aPod({ name: 'web' });
export const db = aPod({ name: 'db', priority: 1_000 });
export const dns = aPod({ name: 'dns', priority: 2_000 });

export type Played = {
  /** One look at `atMs`; the pods given last are still here. */
  readonly look: (atMs: number, rest?: Partial<Observation>) => Verdict;
  readonly state: () => State;
  /** How the stop of that pod ended. */
  readonly ended: (pod: PodView, atMs: number, kind?: 'ended' | 'survived') => Outcome;
};

/** A core that remembers, armed unless told otherwise. */
export function aCore(config: CoreConfig, pods: readonly PodView[], first: State = initialState('boot')): Played {
  let state = first;
  const stops = new Map<string, string>();
  const look = (atMs: number, rest: Partial<Observation> = {}): Verdict => {
    const verdict = decide(state, anObservation(atMs, {}, { pods: known(pods), ...rest }), config);
    state = verdict.state;
    for (const decision of verdict.decisions) {
      if (decision.kind === 'stop-for-shutdown') stops.set(decision.victim.uid, decision.id);
    }
    return verdict;
  };
  return {
    look,
    state: () => state,
    ended: ({ uid }, atMs, kind = 'ended') => {
      const of = stops.get(uid);
      if (of === undefined) throw new Error(`nobody stopped ${uid}`);
      return kind === 'ended'
        ? { of, atMs, kind, via: 'sigterm', releasedBytes: known(0) }
        : { of, atMs, kind, left: [], detail: 'it would not go' };
    },
  };
}

/** `stop web in 1 for 20 s`, `release-lock all-phases-done`, `take-lock`. */
export function said({ decisions }: Verdict): readonly string[] {
  return decisions.map((decision: Decision) => {
    if (decision.kind === 'stop-for-shutdown') {
      return `stop ${decision.victim.name} in ${decision.phase} for ${decision.graceSeconds} s`;
    }
    return decision.kind === 'release-lock' ? `release-lock ${decision.why}` : decision.kind;
  });
}
