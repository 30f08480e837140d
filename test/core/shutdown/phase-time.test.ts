import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Observation } from '../../../src/core/observation.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aPod } from '../../a.ts';
import { aCore, aShutdownConfig, CANCELLED, db, dns, PREPARING, said, web } from './a-shutdown.ts';

/** Phases of 20, 10 and 5 s: 35 s in all. */
const config = aShutdownConfig();
const granted = (delayMaxMs: number): Partial<Observation> => ({
  shutdownEvents: [{ kind: 'lock-granted', delayMaxMs }, PREPARING],
});
const late = (leftMs: number): Partial<Observation> => ({
  shutdownEvents: [{ kind: 'stopped-without-signal', leftMs }],
});

describe('a shutdown that logind grants less than its total (D11)', () => {
  it('shrinks its phases by their periods, so that they end 2 s before logind continues, and says so', () => {
    const { look, ended } = aCore(config, [web, db, dns]);
    const first = look(0, granted(9_000));
    expect(said(first)).toEqual(['stop web in 1 for 4 s']);
    expect(first.reasons).toContainEqual({ code: 'shutdown-shortened', phase: 1, periodMs: 4_000, wantedMs: 20_000 });
    expect(first.state.shutdown).toMatchObject({ phaseEndsMs: 4_000, mustEndMs: 7_000 });
    const second = look(4_000, { outcomes: [ended(web, 4_000)], pods: known([db, dns]) });
    expect(said(second)).toEqual(['stop db in 2 for 2 s']);
    expect(second.reasons).toContainEqual({ code: 'shutdown-shortened', phase: 2, periodMs: 2_000, wantedMs: 10_000 });
    expect(said(look(6_000, { outcomes: [ended(db, 6_000)], pods: known([dns]) }))).toEqual(['stop dns in 3 for 1 s']);
    expect(said(look(7_000, { pods: known([dns]) }))).toEqual(['release-lock all-phases-done']);
  });

  it('shrinks nothing if the phases that have pods fit', () => {
    const { look } = aCore(config, [db, dns]);
    const verdict = look(0, granted(20_000));
    expect(said(verdict)).toEqual(['stop db in 2 for 10 s']);
    expect(verdict.reasons.filter(({ code }) => code === 'shutdown-shortened')).toEqual([]);
  });

  it('gives the unused time of an earlier phase to later ones, as far as they need it', () => {
    const { look, ended } = aCore(config, [web, db]);
    expect(said(look(0, granted(17_000)))).toEqual(['stop web in 1 for 10 s']);
    expect(said(look(1_000, { outcomes: [ended(web, 1_000)], pods: known([db]) }))).toEqual(['stop db in 2 for 10 s']);
  });

  it('leaves a later phase its own period if that fits, and does not mention it', () => {
    const { look, ended } = aCore(config, [web, db]);
    look(0, granted(17_000));
    const second = look(4_000, { outcomes: [ended(web, 4_000)], pods: known([db]) });
    expect(said(second)).toEqual(['stop db in 2 for 10 s']);
    expect(second.reasons.map(({ code }) => code)).not.toContain('shutdown-shortened');
  });

  it('reserves no time for a pod that outlived its stop in an earlier phase', () => {
    const { look, ended } = aCore(config, [web, db]);
    look(0, granted(17_000));
    expect(said(look(10_000, { outcomes: [ended(web, 10_000, 'survived')] }))).toEqual(['stop db in 2 for 5 s']);
  });

  it('carries over only what leaves room for later phases', () => {
    const { look, ended } = aCore(aShutdownConfig({ shutdownCarryOver: true }), [web, db, dns]);
    look(0, granted(32_000));
    const second = look(1_000, { outcomes: [ended(web, 1_000)], pods: known([db, dns]) });
    expect(said(second)).toEqual(['stop db in 2 for 24 s']);
  });

  it('gives half of very little time to the phases', () => {
    const { look } = aCore(config, [web]);
    expect(said(look(0, granted(3_000)))).toEqual(['stop web in 1 for 1.5 s']);
  });

  it('ends all its phases before logind continues, whatever is granted and whenever pods stop', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 40_000 }),
        fc.array(fc.constantFrom(0, 500, 1_000, 1_500, 2_000), { maxLength: 6 }),
        fc.boolean(),
        (grantedMs, priorities, shutdownCarryOver) => {
          const pods = priorities.map((priority, i) => aPod({ name: `p${i}`, priority }));
          const { look, state } = aCore(aShutdownConfig({ shutdownCarryOver }), pods);
          let verdict = look(0, granted(grantedMs));
          let atMs = 0;
          while (state().shutdown.kind === 'stopping') {
            atMs += verdict.next.afterMs;
            verdict = look(atMs);
          }
          const isShort = grantedMs < 35_000;
          expect(atMs).toBeLessThanOrEqual(isShort ? Math.max(grantedMs - 2_000, grantedMs / 2) : 35_000);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe('a shutdown that is noticed late', () => {
  const heard = { kind: 'preparing', leftMs: 9_000 } as const;

  it('begins even without a lock, with the remaining time', () => {
    const { look } = aCore(config, [web]);
    const verdict = look(0, { shutdownEvents: [heard] });
    expect(said(verdict)).toEqual(['stop web in 1 for 7 s']);
    expect(verdict.state.shutdown).toMatchObject({ kind: 'stopping', tier: 'logind', delayMaxMs: null });
  });

  it('is not a second one for an agent that is in the middle of it', () => {
    const { look } = aCore(config, [web]);
    look(0, granted(60_000));
    expect(said(look(1_000, { shutdownEvents: [heard] }))).toEqual([]);
  });
});

describe('a machine that goes down without the signal', () => {
  it("has the same phases, in the time that the agent's stop leaves", () => {
    const { look, ended } = aCore(config, [web, db]);
    const verdict = look(0, late(15_000));
    expect(said(verdict)).toEqual(['stop web in 1 for 10 s']);
    expect(verdict.state.shutdown).toMatchObject({ tier: 'stop', delayMaxMs: null });
    expect(said(look(10_000, { outcomes: [ended(web, 10_000)], pods: known([db]) }))).toEqual(['stop db in 2 for 5 s']);
  });

  it('has all its time if that is enough', () => {
    const { look } = aCore(config, [web, db]);
    expect(said(look(0, late(85_000)))).toEqual(['stop web in 1 for 20 s']);
  });

  it('shortens a shutdown in progress to the remaining time', () => {
    const { look } = aCore(config, [web, db]);
    look(0, granted(60_000));
    const { shutdown } = look(5_000, late(3_000)).state;
    expect(shutdown).toMatchObject({ kind: 'stopping', phaseEndsMs: 8_000, mustEndMs: 8_000 });
  });

  it('is shortened no more than necessary, and never gets time back', () => {
    const cut = (leftMs: number) => {
      const { look } = aCore(config, [web, db]);
      look(0, granted(60_000));
      look(1_000, late(leftMs));
      return look(2_000, late(60_000)).state.shutdown;
    };
    expect(cut(30_000)).toMatchObject({ phaseEndsMs: 20_000, mustEndMs: 31_000 });
    expect(cut(3_000)).toMatchObject({ phaseEndsMs: 4_000, mustEndMs: 4_000 });
  });

  it.each([34_999, 35_000, 60_000])('has an end of its own only with less time than it needs: %d ms', (ms) => {
    const isLess = ms < 35_000;
    const heard = [granted(ms), late(ms)].map((start) => aCore(config, [web]).look(0, start).state.shutdown);
    expect(heard).toMatchObject([{ mustEndMs: isLess ? 32_999 : null }, { mustEndMs: isLess ? ms : null }]);
  });

  it('stops nothing after all phases are over, nor if shutdown is off', () => {
    const done = aCore(config, []);
    done.look(0, granted(60_000));
    expect(said(done.look(1, { ...late(10_000), pods: known([web]) }))).toEqual([]);
    const off = aCore(aShutdownConfig({ phases: [] }), [web]);
    expect(said(off.look(0, late(10_000)))).toEqual([]);
  });

  it("is not cancelled by logind's messages about shutdowns", () => {
    const { look, state } = aCore(config, [web]);
    look(0, late(85_000));
    expect(said(look(1_000, { shutdownEvents: [CANCELLED] }))).toEqual([]);
    expect(state().shutdown.kind).toBe('stopping');
  });
});

describe('a pod that is started during the shutdown', () => {
  const START = granted(60_000);
  const wall = (atMs: number) => ({ wallMs: 1_000_000 + atMs });
  const since = (atMs: number, priority = 0) => aPod({ name: 'back', priority, startedAtWallMs: 1_000_000 + atMs });

  it('is stopped again in the rest of its phase, at most three times', () => {
    const slow = aPod({ name: 'slow' });
    const { look, ended } = aCore(config, [since(-60_000), slow]);
    look(0, { ...START, ...wall(0) });
    for (const [times, atMs] of [2_000, 4_000, 6_000].entries()) {
      look(atMs - 1_000, { ...wall(atMs - 1_000), outcomes: [ended(since(0), atMs - 1_000)], pods: known([slow]) });
      const verdict = look(atMs, { ...wall(atMs), pods: known([since(atMs - 500), slow]) });
      expect(said(verdict)).toEqual([`stop back in 1 for ${20 - atMs / 1_000} s`]);
      expect(verdict.reasons).toContainEqual({ code: 'shutdown-started-again', uid: 'uid-back', times });
    }
  });

  it('is left running after that, and reported', () => {
    const blocker = aPod({ name: 'slow' });
    const { look, ended } = aCore(config, [since(-60_000), blocker]);
    look(0, { ...START, ...wall(0) });
    const said4: (readonly string[])[] = [];
    const reasons: number[] = [];
    let outcomes = [ended(since(0), 1_000)];
    for (let i = 0; i < 6; i++) {
      const atMs = 1_000 + i * 1_000;
      const verdict = look(atMs, { ...wall(atMs), outcomes, pods: known([since(atMs), blocker]) });
      said4.push(said(verdict));
      reasons.push(...verdict.reasons.flatMap((r) => (r.code === 'shutdown-started-again' ? [r.times] : [])));
      outcomes = [ended(since(0), atMs + 500)];
    }
    expect(said4.flat().filter((text) => text.startsWith('stop back')).length).toBe(3);
    expect(reasons).toEqual([0, 1, 2, 3]);
  });

  it('has its own three times, however many other pods come back', () => {
    const back = (atMs: number) =>
      ['a', 'b', 'c', 'd'].map((name) => aPod({ name, startedAtWallMs: 1_000_000 + atMs }));
    const { look, ended } = aCore(config, back(-60_000));
    look(0, { ...START, ...wall(0) });
    for (const atMs of [1_000, 2_000, 3_000]) {
      const outcomes = back(0).map((pod) => ended(pod, atMs));
      expect(said(look(atMs, { ...wall(atMs), outcomes, pods: known(back(atMs)) }))).toHaveLength(4);
    }
  });

  it('excludes pods started at the very moment of the signal, and pods being stopped', () => {
    const { look, ended } = aCore(config, [web]);
    look(5_000, { ...START, ...wall(5_000), pods: known([since(5_000), web]) });
    const gone = { ...wall(6_000), outcomes: [ended(since(5_000), 6_000)], pods: known([since(5_000), web]) };
    expect(said(look(6_000, gone))).toEqual([]);
    expect(said(look(7_000, { ...wall(7_000), pods: known([since(6_500), web]) }))).toEqual([
      'stop back in 1 for 18 s',
    ]);
    // Its stop is under way.
    const next = look(8_000, { ...wall(8_000), pods: known([since(6_500), web]) });
    expect(next.reasons).toEqual([{ code: 'shutdown-phase', phase: 1, remainingMs: 17_000, pods: 2 }]);
  });

  it('is listed once among those that still run or hold volumes at the end, besides the others', () => {
    const { look, ended } = aCore(config, [since(-60_000), web]);
    const volumesMounted = known(['uid-back', 'uid-web']);
    look(0, { ...START, ...wall(0), volumesMounted });
    const outcomes = [ended(since(0), 1_000), ended(web, 1_000)];
    look(1_000, { ...wall(1_000), outcomes, pods: known([]), volumesMounted });
    // While its volumes are waited for.
    const back = look(1_100, { ...wall(1_100), pods: known([since(1_050)]), volumesMounted });
    expect(said(back)).toEqual(['stop back in 1 for 18.9 s']);
    const stopped = look(2_000, {
      ...wall(2_000),
      outcomes: [ended(since(0), 2_000)],
      pods: known([]),
      volumesMounted,
    });
    expect(stopped.next.afterMs).toBe(300);
    const over = look(20_000, { ...wall(20_000), pods: known([]), volumesMounted });
    expect(over.reasons).toContainEqual(
      expect.objectContaining({ code: 'shutdown-phase-over', running: [], mounted: ['uid-web', 'uid-back'] }),
    );
  });

  it('is no longer waited for once it was stopped again three times', () => {
    const { look, ended } = aCore(config, [since(-60_000)]);
    look(0, { ...START, ...wall(0) });
    for (const atMs of [1_000, 2_000, 3_000]) {
      look(atMs, { ...wall(atMs), outcomes: [ended(since(0), atMs)], pods: known([since(atMs)]) });
    }
    const last = { outcomes: [ended(since(0), 4_000)], pods: known([since(4_000)]) };
    expect(said(look(4_000, { ...wall(4_000), ...last }))).toEqual(['release-lock all-phases-done']);
  });

  it('waits for its own phase if that is still to come', () => {
    const { look } = aCore(config, [web]);
    look(0, { ...START, ...wall(0) });
    expect(said(look(1_000, { ...wall(1_000), pods: known([web, since(900, 1_000)]) }))).toEqual([]);
  });

  it('is not confused with one that only outlived its stop', () => {
    const { look, ended } = aCore(config, [web]);
    look(0, { ...START, ...wall(0) });
    expect(said(look(1_000, { ...wall(1_000), outcomes: [ended(web, 1_000, 'survived')] }))).not.toContain(
      'stop web in 1 for 19 s',
    );
  });

  it('is not searched for while the pods are unknown', () => {
    const { look } = aCore(config, [web]);
    look(0, { ...START, ...wall(0) });
    const pods = unknown('unreadable', 'manifests', 'gone');
    expect(said(look(1_000, { ...wall(1_000), pods }))).toEqual([]);
  });
});
