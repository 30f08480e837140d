import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../src/core/core-config.ts';
import { decide } from '../../src/core/decide.ts';
import { type Shortage, shortageOf } from '../../src/core/eviction/shortage.ts';
import { isSoft } from '../../src/core/eviction/threshold.ts';
import { evictionsOf, thresholdsOf } from '../../src/core/eviction/under-way.ts';
import type { Observation } from '../../src/core/observation.ts';
import { type Heard, isEnd, type Outcome } from '../../src/core/outcome.ts';
import { mayGoFor } from '../../src/core/pod/evict-for.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { Reason } from '../../src/core/reason.ts';
import { SIGNALS, type Signal } from '../../src/core/signal.ts';
import { readState } from '../../src/core/state/read.ts';
import { type Eviction, initialState, type State } from '../../src/core/state/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import { aConfig, anObservation, aThreshold, MI } from '../a.ts';
import { pods } from './some-pods.ts';

const CAPACITY = 1_000 * MI;
const USED: readonly Signal[] = ['memory.available', 'nodefs.available', 'pid.available'];

type Step = {
  readonly gapMs: number;
  readonly available: readonly (number | null)[];
  readonly pods: readonly PodView[];
  readonly isAsked: boolean;
  /** What becomes of the effects under way: nothing yet, or their end. */
  readonly end: Outcome['kind'] | null;
  /** What goes out to those who were sent nothing yet. */
  readonly sent: 'sigterm' | 'sigkill' | null;
};
const step: fc.Arbitrary<Step> = fc.record({
  gapMs: fc.constantFrom(1, 20, 250, 999, 1_000, 5_000, 30_000),
  available: fc.array(
    fc.option(
      fc.integer({ min: 0, max: 40 }).map((n) => n * 10 * MI),
      { freq: 8 },
    ),
    {
      minLength: USED.length,
      maxLength: USED.length,
    },
  ),
  pods,
  isAsked: fc.constantFrom(true, true, false),
  end: fc.constantFrom(null, null, 'ended', 'survived', 'dropped', 'reclaimed'),
  sent: fc.constantFrom(null, 'sigterm', 'sigkill', 'sigkill'),
});
const kubelets: fc.Arbitrary<CoreConfig> = fc.constantFrom(
  aConfig(USED.map((signal) => aThreshold(signal, 100 * MI))),
  aConfig(
    [
      aThreshold('memory.available', 100 * MI, { minReclaimBytes: 50 * MI }),
      aThreshold('memory.available', 200 * MI, { graceMs: 30_000 }),
    ],
    {
      maxPodGraceSeconds: 60,
    },
  ),
  aConfig(
    USED.flatMap((signal) => [
      aThreshold(signal, 100 * MI),
      aThreshold(signal, 300 * MI, { graceMs: 5_000, minReclaimBytes: 50 * MI }),
    ]),
    {
      reclaimSignals: ['nodefs.available'],
      pressureTransitionMs: 10_000,
    },
  ),
  aConfig([aThreshold('nodefs.available', 100 * MI), aThreshold('memory.available', 100 * MI)], { hasRuntime: true }),
);

const live = kubelets.map((core): CoreConfig => ({ ...core, isLive: true }));
const config = fc.oneof(kubelets, live);

type Played = { readonly before: State; readonly observation: Observation; readonly verdict: Verdict };

function outcomeOf(of: string, atMs: number, kind: Outcome['kind']): Outcome {
  switch (kind) {
    case 'ended':
      return { of, atMs, kind, via: 'sigkill', releasedBytes: known(1) };
    case 'survived':
      return { of, atMs, kind, left: [], detail: 'test' };
    case 'unknown':
      return { of, atMs, kind, detail: 'test' };
    case 'dropped':
      return { of, atMs, kind, because: 'no-longer-met' };
    case 'reclaimed':
      return { of, atMs, kind, freed: known(1) };
  }
}

function play(
  steps: readonly Step[],
  core: CoreConfig,
  between: (state: State) => State = (state) => state,
): readonly Played[] {
  let state = initialState('boot');
  let atMs = 0;
  return steps.map((next) => {
    atMs += next.gapMs;
    const underWay = [...evictionsOf(state), ...state.reclaims].map(({ decision }) => decision);
    const { end } = next;
    const unsent = evictionsOf(state).filter(({ signalledMs }) => signalledMs === undefined);
    const { sent } = next;
    const signalled =
      sent === null ? [] : unsent.map(({ decision: of }): Heard => ({ of, atMs, kind: 'signalled', with: sent }));
    const outcomes = [...signalled, ...(end === null ? [] : underWay.map((of) => outcomeOf(of, atMs, end)))];
    const signals = Object.fromEntries(
      USED.map((signal, i) => {
        const available = next.available[i] ?? null;
        const reading = available === null ? unknown('unreadable', 'test', 'lost') : { available, capacity: CAPACITY };
        return [signal, reading];
      }),
    );
    const podsRead: Reading<readonly PodView[]> = next.isAsked
      ? known(next.pods)
      : unknown('not-asked', 'pods', 'not asked');
    const observation = freeze(anObservation(atMs, signals, { pods: podsRead, outcomes }));
    const before = freeze(between(state));
    const verdict = decide(before, observation, core);
    state = verdict.state;
    return { before, observation, verdict };
  });
}

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) freeze(inner);
  }
  return value;
}
const history = fc.array(step, { minLength: 1, maxLength: 25 });
const RUNS = { numRuns: 300 };

describe('decide, over generated histories', () => {
  it('gives the same verdict for the same arguments, even if the state went through a file', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        const played = play(steps, core);
        const again = play(steps, core, (state) => {
          const read = readState(JSON.parse(JSON.stringify(state)));
          if (read === null) throw new Error('a state of our own is not read back');
          return read;
        });
        expect(again.map(({ verdict }) => verdict)).toEqual(played.map(({ verdict }) => verdict));
      }),
      RUNS,
    );
  });

  it('evicts only for a met or held threshold whose grace is over, and no second threshold victim of a shortage before the first is settled', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        for (const { before, observation, verdict } of play(steps, core)) {
          const evicts = verdict.decisions.filter((decision) => decision.kind === 'evict');
          expect(evicts.length).toBeLessThanOrEqual(1);
          for (const { threshold } of evicts) {
            const configured = core.thresholds.find(({ id }) => id === threshold.id);
            expect(threshold.available).toBeLessThan(Number(threshold.target.nanos) / 1e9);
            if (before.reclaims.length === 0) {
              expect(observation.atMs - threshold.sinceMs).toBeGreaterThanOrEqual(configured?.graceMs ?? 0);
              expect(observation.signals[threshold.signal].known).toBe(true);
            }
          }
          // One that was overtaken because it does not die stays, and waits for nobody's decision any more.
          const chosen = (id: string): boolean => evicts.some((decision) => decision.id === id);
          const holding = evictionsOf(verdict.state)
            .filter(
              ({ decision, settledMs, killedMs = observation.atMs }) =>
                !chosen(decision) && settledMs === null && observation.atMs - killedMs < 1_000,
            )
            .flatMap(shortagesOf);
          const chosenFor = evictionsOf(verdict.state)
            .filter(({ decision }) => chosen(decision))
            .flatMap(shortagesOf);
          expect(holding.filter((shortage) => chosenFor.includes(shortage))).toEqual([]);
        }
      }),
      RUNS,
    );
  });

  it('never chooses a second victim of one resource within the grace period of the first, counted from its first signal', () => {
    fc.assert(
      fc.property(history, live, (steps, core) => {
        for (const { verdict, observation } of play(steps, core)) {
          const { atMs } = observation;
          const within = evictionsOf(verdict.state)
            .filter(({ signalledMs, graceEndsMs }) => signalledMs !== undefined && atMs < graceEndsMs)
            .filter(({ settledMs }) => settledMs === null)
            // D3: whoever is not dead a second after its SIGKILL holds nobody back, its grace neither.
            .filter(({ killedMs = atMs }) => atMs - killedMs < 1_000);
          for (const decision of verdict.decisions) {
            if (decision.kind !== 'evict') continue;
            const shortage = shortageOf(decision.threshold.signal, 'nodefs-only');
            const others = within.filter((eviction) => eviction.decision !== decision.id);
            for (const other of others) expect(shortagesOf(other)).not.toContain(shortage);
          }
        }
      }),
      RUNS,
    );
  });

  it('chooses nothing while the last victim is cleaned up and the signal is no worse than at the proof (D15)', () => {
    fc.assert(
      fc.property(history, live, (steps, core) => {
        for (const { verdict, observation } of play(steps, core)) {
          for (const decision of verdict.decisions) {
            if (decision.kind !== 'evict' || verdict.state.reclaims.length > 0) continue;
            const { signal, available } = decision.threshold;
            const proof = verdict.state.proofs[shortageOf(signal, 'nodefs-only')];
            if (proof === undefined) continue;
            expect(observation.atMs - proof.atMs).toBeLessThan(30_000);
            // Others took what the last kill gave back, and less than nothing cannot be left.
            if (available === 0 && (proof.releasedBytes ?? 0) > 0) continue;
            expect(available).toBeLessThan(proof.available[signal] ?? Number.POSITIVE_INFINITY);
          }
        }
      }),
      RUNS,
    );
  });

  it('lets a hard memory or PID threshold wait only for an eviction for the same resource, of the pod it would choose, or that frees enough', () => {
    fc.assert(
      fc.property(history, live, (steps, core) => {
        for (const { verdict, observation } of play(steps, core)) {
          const holdings = new Map(
            (observation.pods.known ? observation.pods.value : []).map(({ uid, usage }) => [uid, usage]),
          );
          const awaited = verdict.reasons.flatMap((reason) =>
            reason.code === 'waiting-for-victim' ? [reason.eviction] : [],
          );
          for (const id of awaited) {
            const eviction = evictionsOf(verdict.state).find(({ decision }) => decision === id);
            const met = verdict.reasons.flatMap((reason) =>
              reason.code === 'below-threshold' || reason.code === 'min-reclaim-pending'
                ? [signalOfReason(reason)]
                : [],
            );
            // A reclaim waits for a pod over its limit too, since that frees the same disk.
            if (eviction === undefined || eviction.cause.kind === 'over-limit') continue;
            // What it is about to give back is enough.
            const { workingSetBytes, processes } = holdings.get(eviction.victim.uid) ?? {};
            const gives = [workingSetBytes, processes].some((held) => held?.known === true && held.value > 0);
            if (eviction.signalledMs !== undefined && gives) continue;
            const shortages = shortagesOf(eviction);
            expect(met.some((signal) => shortages.includes(shortageOf(signal, 'nodefs-only')))).toBe(true);
          }
        }
      }),
      RUNS,
    );
  });

  it('never chooses a critical pod, one being stopped or one excluded for this resource, and a protected one only if no other is left', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        for (const { before, observation, verdict } of play(steps, core)) {
          const seen = observation.pods.known ? observation.pods.value : [];
          const stopping = before.act.kind === 'evicting' ? before.act.evictions.map(({ victim }) => victim.uid) : [];
          const ended = new Set(observation.outcomes.filter(isEnd).map(({ of }) => of));
          const stillStopping =
            before.act.kind === 'evicting'
              ? before.act.evictions.filter(({ decision }) => !ended.has(decision)).map(({ victim }) => victim.uid)
              : stopping;
          for (const decision of verdict.decisions) {
            if (decision.kind !== 'evict') continue;
            const chosen = seen.find(({ uid }) => uid === decision.victim.uid);
            expect(chosen).toMatchObject({ isStaticCritical: false, isTerminating: false });
            expect(stillStopping).not.toContain(decision.victim.uid);
            const mayGo = (pod: PodView) => mayGoFor(pod, decision.threshold.signal);
            expect(chosen !== undefined && mayGo(chosen)).toBe(true);
            if (chosen?.isProtected !== true) continue;
            const others = seen.filter(
              (other) =>
                !other.isProtected &&
                mayGo(other) &&
                !other.isStaticCritical &&
                !other.isTerminating &&
                !stillStopping.includes(other.uid),
            );
            expect(others).toEqual([]);
          }
        }
      }),
      RUNS,
    );
  });

  it('gives every decision a higher id than all before it', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        const numbers = play(steps, core).flatMap(({ verdict }) =>
          verdict.decisions.map(({ id }) => Number(id.split('-')[1])),
        );
        expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
      }),
      RUNS,
    );
  });

  it('never evicts more for a signal that became unknown, and never resets its timers, but lets soft ones stand still (D5)', () => {
    fc.assert(
      fc.property(history, config, fc.constantFrom(...USED), (steps, core, lost) => {
        const last = play(steps, core).at(-1);
        if (last === undefined || last.before.reclaims.length > 0) return;
        const signals = { ...last.observation.signals, [lost]: unknown('unreadable', 'test', 'lost') };
        const verdict = decide(last.before, { ...last.observation, signals }, core);
        expect(
          verdict.decisions.filter((decision) => decision.kind === 'evict' && decision.threshold.signal === lost),
        ).toEqual([]);
        const { atMs } = last.observation;
        const { firstMetMs, lastLookMs } = last.before;
        for (const { id } of core.thresholds.filter((threshold) => threshold.signal === lost)) {
          const before = firstMetMs[id];
          const unreadMs = isSoft(id) ? atMs - (lastLookMs ?? atMs) : 0;
          expect(verdict.state.firstMetMs[id]).toBe(before === undefined ? undefined : before + unreadMs);
        }
      }),
      RUNS,
    );
  });

  it('is not affected by a jump of the wall clock', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        const last = play(steps, core).at(-1);
        if (last === undefined) return;
        const jumped = decide(last.before, { ...last.observation, wallMs: last.observation.wallMs - 10 ** 12 }, core);
        expect(jumped).toEqual(last.verdict);
      }),
      RUNS,
    );
  });

  it('looks again within the configured pace, or at once when it requests the pods', () => {
    fc.assert(
      fc.property(history, config, (steps, core) => {
        for (const { verdict } of play(steps, core)) {
          const { afterMs, pods: asked } = verdict.next;
          if (afterMs === 0) expect(asked).not.toBeNull();
          else expect(afterMs >= core.pace.minMs && afterMs <= core.pace.maxMs).toBe(true);
        }
      }),
      RUNS,
    );
  });
});

const shortagesOf = (eviction: Eviction): readonly Shortage[] =>
  thresholdsOf(eviction).map(({ signal }) => shortageOf(signal, 'nodefs-only'));

function signalOfReason(reason: Extract<Reason, { code: 'below-threshold' | 'min-reclaim-pending' }>): Signal {
  if (reason.code === 'below-threshold') return reason.threshold.signal;
  const signal = SIGNALS.find((other) => reason.threshold.startsWith(`${other}/`));
  if (signal === undefined) throw new Error(`${reason.threshold} is of no signal`);
  return signal;
}
