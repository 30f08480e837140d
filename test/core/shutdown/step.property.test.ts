import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { ShutdownEvent } from '../../../src/core/observation.ts';
import type { Outcome } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { planShutdown } from '../../../src/core/shutdown/plan.ts';
import { readState } from '../../../src/core/state/read.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { anObservation, aPod } from '../../a.ts';
import { aShutdownConfig, LOCK, PREPARING } from './a-shutdown.ts';

/** A pod and how long it takes to stop and then to unmount. */
type Actor = { readonly pod: PodView; readonly stopMs: number; readonly unmountMs: number };
type Event = { readonly atMs: number; readonly event: ShutdownEvent };
type Play = {
  readonly actors: readonly Actor[];
  readonly config: CoreConfig;
  readonly events: readonly Event[];
  /** Looks that nothing called for. */
  readonly looksMs: readonly number[];
};
type Look = { readonly atMs: number; readonly verdict: Verdict };

const LATEST_MS = 400_000;
const ms = (max: number) => fc.integer({ min: 0, max: max / 50 }).map((n) => n * 50);
const actors: fc.Arbitrary<readonly Actor[]> = fc
  .array(
    fc.record({
      priority: fc.constantFrom(-5, 0, 500, 1_000, 1_500, 2_000, 9_000),
      terminationGraceSeconds: fc.constantFrom(0, 1, 5, 12, 60),
      isTerminating: fc.constantFrom(false, false, false, true),
      stopMs: ms(40_000),
      unmountMs: fc.oneof(fc.constant(0), ms(10_000)),
    }),
    { maxLength: 7 },
  )
  .map((list) =>
    list.map(({ stopMs, unmountMs, ...pod }, i) => ({ pod: aPod({ name: `p${i}`, ...pod }), stopMs, unmountMs })),
  );
const periods = fc
  .uniqueArray(fc.constantFrom(-10, 0, 1_000, 1_001, 2_000), { minLength: 1 })
  .chain((from) =>
    fc
      .array(fc.constantFrom(0, 1, 5, 12, 30), { minLength: from.length, maxLength: from.length })
      .map((seconds) =>
        from.toSorted((a, b) => a - b).map((fromPriority, i) => ({ fromPriority, periodSeconds: seconds[i] ?? 0 })),
      ),
  );
const config = fc
  .record({
    phases: periods,
    shutdownCancel: fc.constantFrom('promptly' as const, 'afterPhases' as const),
    shutdownCarryOver: fc.boolean(),
  })
  .map((rest) => aShutdownConfig(rest));
const START: readonly Event[] = [
  { atMs: 0, event: LOCK },
  { atMs: 0, event: PREPARING },
];
const play: fc.Arbitrary<Play> = fc.record({
  actors,
  config,
  events: fc.constant(START),
  looksMs: fc.constant([]),
});

/** From one instant at which something is due to the next, until nothing is. */
function run(
  { actors, config, events, looksMs }: Play,
  through: (state: State) => State = (state) => state,
): readonly Look[] {
  let state = initialState('boot');
  const played: Look[] = [];
  const toldMs = new Map<string, number>();
  const waiting = new Map<string, number>();
  const due = [...events.map(({ atMs }) => atMs), ...looksMs];
  const stoppedMs = (actor: Actor) => (toldMs.get(actor.pod.uid) ?? Number.POSITIVE_INFINITY) + actor.stopMs;
  let eventsBefore = Number.NEGATIVE_INFINITY;
  for (let atMs = 0; atMs < LATEST_MS; ) {
    // There may be two looks at one instant: an event is heard at the first of them.
    const heard = events.filter((event) => event.atMs === atMs && event.atMs > eventsBefore);
    eventsBefore = atMs;
    const ended = [...waiting].filter(([, endMs]) => endMs <= atMs).map(([of]) => of);
    for (const of of ended) waiting.delete(of);
    const observation = anObservation(
      atMs,
      {},
      {
        outcomes: ended.map((of): Outcome => ({ of, atMs, kind: 'ended', via: 'sigterm', releasedBytes: known(0) })),
        shutdownEvents: heard.map(({ event }) => event),
        pods: known(actors.filter((actor) => stoppedMs(actor) > atMs).map(({ pod }) => pod)),
        volumesMounted: known(
          actors
            .filter((actor) => actor.unmountMs > 0 && stoppedMs(actor) + actor.unmountMs > atMs)
            .map(({ pod }) => pod.uid),
        ),
      },
    );
    const verdict = decide(through(state), observation, config);
    state = verdict.state;
    played.push({ atMs, verdict });
    for (const decision of verdict.decisions) {
      if (decision.kind !== 'stop-for-shutdown') continue;
      const actor = actors.find(({ pod }) => pod.uid === decision.victim.uid);
      toldMs.set(decision.victim.uid, atMs);
      waiting.set(decision.id, atMs + (actor?.stopMs ?? 0));
    }
    const own = state.shutdown.kind === 'stopping' ? atMs + verdict.next.afterMs : Number.POSITIVE_INFINITY;
    const next = Math.min(own, ...waiting.values(), ...due.filter((ms) => ms > atMs));
    if (!Number.isFinite(next)) break;
    // A stop that takes no time ends at the same instant.
    atMs = next;
  }
  return played;
}

/** What is decided and when a phase is over, and nothing of how often was looked. */
function deeds(looks: readonly Look[]): readonly unknown[] {
  return looks.flatMap(({ atMs, verdict }) => [
    ...verdict.decisions.map((decision) => ({ atMs, decision })),
    ...verdict.reasons.filter(({ code }) => code === 'shutdown-phase-over').map((reason) => ({ atMs, reason })),
  ]);
}

function stopsOf(looks: readonly Look[]) {
  return looks.flatMap(({ verdict }) =>
    verdict.decisions.flatMap((decision) => (decision.kind === 'stop-for-shutdown' ? [decision] : [])),
  );
}
const RUNS = { numRuns: 200 };
const totalMs = ({ phases }: CoreConfig): number =>
  phases.reduce((sum, { periodSeconds: graceSeconds }) => sum + Math.max(0, graceSeconds) * 1_000, 0);

describe('a shutdown, over generated pods and phases', () => {
  it('stops every pod once, in its own phase, phases in ascending priority, and then releases the lock', () => {
    fc.assert(
      fc.property(play, (given) => {
        const looks = run(given);
        const stops = stopsOf(looks);
        const phases = stops.map(({ phase }) => phase);
        expect(phases).toEqual(phases.toSorted((a, b) => a - b));
        const planned = planShutdown(
          given.config.phases,
          given.actors.map(({ pod }) => pod),
        ).flatMap((group) => group.stops.map((stop) => [group.phase, stop.pod.uid]));
        expect(stops.map(({ phase, victim }) => [phase, victim.uid])).toEqual(planned);
        const releases = looks.flatMap(({ verdict }) =>
          verdict.decisions.filter(({ kind }) => kind === 'release-lock'),
        );
        expect(releases).toHaveLength(1);
        expect(looks.at(-1)?.verdict.state.shutdown.kind).toBe('released');
      }),
      RUNS,
    );
  });

  it('never takes longer than its phases together, nor a phase longer than its own unless time is carried over', () => {
    fc.assert(
      fc.property(play, (given) => {
        const looks = run(given);
        let sumMs = 0;
        for (const { atMs, verdict } of looks) {
          for (const reason of verdict.reasons) {
            if (reason.code !== 'shutdown-phase-over') continue;
            const tookMs = atMs - reason.startedMs;
            sumMs += tookMs;
            const ownMs = (given.config.phases[reason.phase - 1]?.periodSeconds ?? 0) * 1_000;
            if (!given.config.shutdownCarryOver) expect(tookMs).toBeLessThanOrEqual(ownMs);
          }
        }
        expect(sumMs).toBeLessThanOrEqual(totalMs(given.config));
        expect(looks.at(-1)?.atMs).toBeLessThanOrEqual(totalMs(given.config) + 40_000);
      }),
      RUNS,
    );
  });

  it('requests from no pod more than its own grace period, nor less than the smaller of that and its period', () => {
    fc.assert(
      fc.property(play, (given) => {
        for (const { phase, victim, graceSeconds } of stopsOf(run(given))) {
          const own = given.actors.find(({ pod }) => pod.uid === victim.uid)?.pod.terminationGraceSeconds ?? 0;
          const least = Math.min(own, given.config.phases[phase - 1]?.periodSeconds ?? 0);
          expect(graceSeconds).toBeLessThanOrEqual(own);
          if (given.config.shutdownCarryOver) expect(graceSeconds).toBeGreaterThanOrEqual(least);
          else expect(graceSeconds).toBe(least);
        }
      }),
      RUNS,
    );
  });

  it('is the same however often it looked in between, so its own timers are exact', () => {
    fc.assert(
      fc.property(play, fc.array(ms(60_000), { maxLength: 40 }), (given, looksMs) => {
        expect(deeds(run({ ...given, looksMs }))).toEqual(deeds(run(given)));
      }),
      RUNS,
    );
  });

  it('continues identically after a restart at any look', () => {
    fc.assert(
      fc.property(play, (given) => {
        const again = run(given, (state) => {
          const read = readState(JSON.parse(JSON.stringify(state)));
          if (read === null) throw new Error('a state of our own is not read back');
          return read;
        });
        expect(again).toEqual(run(given));
      }),
      RUNS,
    );
  });

  it('that is cancelled at any time ends armed or unarmed, at once or after its last phase', () => {
    fc.assert(
      fc.property(play, ms(60_000), (given, cancelMs) => {
        const events = [...START, { atMs: cancelMs, event: { kind: 'cancelled' } as const }];
        const looks = run({ ...given, events });
        expect(['armed', 'unarmed']).toContain(looks.at(-1)?.verdict.state.shutdown.kind);
        if (given.config.shutdownCancel === 'afterPhases') return;
        for (const { atMs, verdict } of looks) {
          if (atMs < cancelMs) continue;
          expect(['armed', 'unarmed']).toContain(verdict.state.shutdown.kind);
          expect(stopsOf([{ atMs, verdict }])).toEqual([]);
        }
      }),
      RUNS,
    );
  });

  it('is armed, unarmed, stopping or released after any events in any order, and asks no pod twice', () => {
    const event = fc.constantFrom<ShutdownEvent>(
      LOCK,
      PREPARING,
      { kind: 'lock-lost', detail: 'gone' },
      { kind: 'cancelled' },
      { kind: 'stopped-without-signal', leftMs: 5_000 },
    );
    const events = fc.array(fc.record({ atMs: ms(60_000), event }), { maxLength: 12 });
    fc.assert(
      fc.property(play, events, (given, more) => {
        const looks = run({ ...given, events: [...START, ...more] });
        const told = new Set<string>();
        let wasSecondTier = false;
        let wasReleased = false;
        for (const { atMs, verdict } of looks) {
          const heard = more.filter((each) => each.atMs === atMs);
          // The next shutdown is another one, also if it begins at the same look.
          const isOver = ({ event: { kind } }: (typeof heard)[number]): boolean =>
            kind === 'cancelled' || (wasReleased && kind === 'lock-granted');
          if (heard.some(isOver)) told.clear();
          for (const { victim } of stopsOf([{ atMs, verdict }])) {
            expect(told).not.toContain(victim.uid);
            told.add(victim.uid);
          }
          if (['armed', 'unarmed'].includes(verdict.state.shutdown.kind)) told.clear();
          const isCancelled = heard.at(-1)?.event.kind === 'cancelled' && given.config.shutdownCancel === 'promptly';
          // What logind says of shutdowns does not end one that it never announced, which may be over at the same look.
          const isSecondTier = wasSecondTier || heard.some((each) => each.event.kind === 'stopped-without-signal');
          const { shutdown } = verdict.state;
          if (isCancelled && !isSecondTier) expect(['armed', 'unarmed']).toContain(shutdown.kind);
          wasSecondTier = shutdown.kind === 'stopping' && shutdown.tier === 'stop';
          wasReleased = shutdown.kind === 'released';
        }
      }),
      RUNS,
    );
  });

  it('keeps its state small: below 256 KiB with 1,000 pods in one phase', () => {
    const pods = Array.from({ length: 1_000 }, (_, n) =>
      aPod({ name: `pod-${n}`, uid: `0f8fad5b-d9cb-469f-a165-${String(n).padStart(12, '0')}` }),
    );
    const observation = anObservation(2 ** 40, {}, { pods: known(pods), shutdownEvents: [LOCK, PREPARING] });
    const { state, decisions } = decide(initialState('0f8fad5b-d9cb'), observation, aShutdownConfig());
    expect(decisions).toHaveLength(1_000);
    expect(JSON.stringify(state).length).toBeLessThan(256 * 1_024);
  });
});
