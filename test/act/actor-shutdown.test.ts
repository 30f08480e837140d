import { describe, expect, it } from 'vitest';
import { createGrace } from '../../src/act/grace.ts';
import { createHasten } from '../../src/act/hasten.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { Hasten } from '../../src/core/eviction/hasten.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import { graceFrom } from '../../src/core/shutdown/chain.ts';
import { until } from '../../src/demo/cast.ts';
import type { Killer, StopOrder } from '../../src/ports.ts';
import { aCore, aShutdownConfig, LOCK, PREPARING, web } from '../core/shutdown/a-shutdown.ts';
import { clock, evict, left, nothing, soft, stage, victim } from './an-actor.ts';

function stopFor(phase: number, graceSeconds: number): Decision {
  return { id: 'boot-2', atMs: 0, kind: 'stop-for-shutdown', victim, phase, graceSeconds };
}

describe('a stop for a shutdown', () => {
  it('asks the pod to stop, waits for the grace period of its phase, and returns its outcome', async () => {
    const { actor, did, orders, recorded, settled } = stage();
    actor.begin(stopFor(1, 20));
    expect(await settled()).toMatchObject({ of: 'boot-2', kind: 'ended' });
    expect(orders).toMatchObject([{ why: 'shutdown', first: 'sigterm', graceMs: 20_000, resumedFromMs: null }]);
    expect(recorded).toHaveLength(1);
    expect(did).toEqual(['stop', 'log: shop/web was ended by sigkill']);
  });

  it('gives 2 s in a phase without time, as the runtime does', async () => {
    const { actor, orders, settled } = stage();
    actor.begin(stopFor(1, 0));
    await settled();
    expect(orders[0]?.graceMs).toBe(2_000);
  });

  it('cuts the grace period of an eviction in progress instead of signalling the pod again', async () => {
    const orders: StopOrder[] = [];
    const cuts: [string, number][] = [];
    const stop = (order: StopOrder, hasten: Hasten): Promise<Outcome> =>
      new Promise((resolve) => {
        orders.push(order);
        void hasten.whenCut.then(() => {
          cuts.push([hasten.first(), hasten.endsMs(0) - clock.monoMs()]);
          expect(hasten.phase()).toMatchObject({ graceMs: 5_000 });
          resolve({ of: order.decision, atMs: 0, kind: 'ended', via: 'sigterm', releasedBytes: known(0) });
        });
      });
    const { actor, recorded } = stage({
      killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]) },
    });
    actor.begin(evict(soft, 60));
    await new Promise((resolve) => clock.after(20, () => resolve(null)));
    actor.begin(stopFor(1, 5));
    for (let i = 0; recorded.length < 2 && i < 200; i++)
      await new Promise((resolve) => clock.after(5, () => resolve(null)));
    expect(cuts).toEqual([['sigterm', expect.closeTo(5_000, -2)]]);
    expect(orders.map(({ why }) => why)).toEqual(['eviction']);
    expect(recorded.map(({ of }) => of).toSorted()).toEqual(['boot-1', 'boot-2']);
  });

  it('has the time of the signal of an eviction that it cuts short', async () => {
    const toldMs: number[] = [];
    const stop: Killer['stop'] = async (order, hasten, signalled) => {
      toldMs.push(clock.monoMs());
      signalled?.('sigterm');
      await hasten.whenCut;
      return { of: order.decision, atMs: clock.monoMs(), kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
    };
    const { actor, recorded } = stage({
      killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]) },
    });
    actor.begin(evict(soft, 60));
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    actor.begin(stopFor(1, 5));
    for (let i = 0; recorded.length < 2 && i < 200; i++)
      await new Promise((resolve) => clock.after(5, () => resolve(null)));
    const outcome = recorded.find(({ of }) => of === 'boot-2');
    expect(outcome).toMatchObject({ kind: 'ended', toldMs: expect.closeTo(toldMs[0] ?? 0, -1.3) });
    expect(toldMs).toHaveLength(1);
  });

  it('resumes what an earlier run began, for the rest of its grace period', async () => {
    const { actor, orders, settled } = stage();
    const nowMs = clock.monoMs();
    const stop = { decision: 'boot-7', decidedMs: nowMs - 5_000, uid: 'u', graceEndsMs: nowMs + 15_000, waitEndsMs: 0 };
    actor.resumeStop(stop, victim, nothing);
    expect(await settled()).toMatchObject({ of: 'boot-7', kind: 'ended' });
    expect(orders).toMatchObject([{ why: 'shutdown', resumedFromMs: nowMs - 5_000 }]);
    expect(orders[0]?.graceMs).toBeLessThanOrEqual(15_000);
  });

  it('kills what an earlier run had signalled once all of its grace period is over since then, not what was left', async () => {
    const fromMs = clock.monoMs() - 5_000;
    const { look, state } = aCore(aShutdownConfig(), [web]);
    look(fromMs, { shutdownEvents: [LOCK, PREPARING] });
    const { actor, orders, settled } = stage();
    for (const stop of state().stops) actor.resumeStop(stop, victim, nothing);
    await settled();
    const { graceMs = 0, turn } = orders[0] ?? {};
    const graceOf = (toldMs: number): number => (turn === undefined ? graceMs : graceFrom(turn, toldMs));
    const grace = createGrace({
      clock,
      graceMs,
      graceFrom: graceOf,
      sentBeforeMs: fromMs,
      hasten: createHasten(clock),
    });
    grace.begins();
    expect(grace.overMs() - fromMs).toBeCloseTo(20_000, 3);
  });

  it('that an earlier run began while it evicted the pod only cuts the grace period of the resumed eviction', async () => {
    const orders: StopOrder[] = [];
    const stop = async (order: StopOrder, hasten: Hasten): Promise<Outcome> => {
      orders.push(order);
      await hasten.whenCut;
      expect(hasten.endsMs(0) - clock.monoMs()).toBeCloseTo(5_000, -3);
      return { of: order.decision, atMs: 0, kind: 'ended', via: 'sigterm', releasedBytes: known(0) };
    };
    const { actor, recorded } = stage({
      killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]) },
    });
    const nowMs = clock.monoMs();
    actor.resume({ ...left, decidedMs: nowMs, signalledMs: nowMs, graceEndsMs: nowMs + 60_000 }, nothing);
    const times = { decidedMs: nowMs, graceEndsMs: nowMs + 5_000, waitEndsMs: 0 };
    actor.resumeStop({ decision: 'boot-2', uid: victim.uid, ...times }, victim, nothing);
    for (let i = 0; recorded.length < 2 && i < 200; i++)
      await new Promise((resolve) => clock.after(5, () => resolve(null)));
    expect(orders.map(({ why }) => why)).toEqual(['eviction']);
    expect(recorded.map(({ of }) => of).toSorted()).toEqual(['boot-1', 'boot-2']);
  });

  it.each<[string, { readonly isEvicted: boolean }, string[]]>([
    ['an eviction that it joined', { isEvicted: true }, ['survived', 'dropped']],
    ['an earlier eviction', { isEvicted: false }, ['dropped']],
  ])('that is cancelled leaves the finding about a pod that survived %s', async (_, { isEvicted }, kinds) => {
    const cancelled = new AbortController();
    const present = new Set(['survived/u']);
    const stop = async ({ decision, why }: StopOrder): Promise<Outcome> => {
      await new Promise((resolve) => clock.after(40, () => resolve(null)));
      const of = { of: decision, atMs: 0 };
      if (why === 'shutdown') return { ...of, kind: 'dropped', because: 'cancelled' };
      return { ...of, kind: 'survived', left: [], detail: 'it is in state D' };
    };
    const { actor, did, recorded } = stage({
      killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]), cancel: () => cancelled.signal },
      findings: { raise: ({ id }) => present.add(id), clear: (id) => present.delete(id), all: () => [] },
    });
    if (isEvicted) actor.begin(evict(soft, 60));
    await new Promise((resolve) => clock.after(20, () => resolve(null)));
    actor.begin(stopFor(1, 5));
    cancelled.abort();
    await until(clock, () => recorded.length === kinds.length, 10_000);
    expect(recorded.map(({ kind }) => kind)).toEqual(kinds);
    expect([...present]).toEqual(['survived/u']);
    expect(did.at(-1)).toContain('is not stopped: the shutdown was cancelled before it had asked the pod to stop');
  });

  it('is not resumed if an earlier run had recorded how it ended', async () => {
    const { actor, orders, recorded, settled } = stage();
    const outcome = { of: 'boot-7', atMs: 5, kind: 'ended', via: 'stop-unit', releasedBytes: known(1) } as const;
    const stop = { decision: 'boot-7', decidedMs: 0, uid: victim.uid, graceEndsMs: 0, waitEndsMs: 0 };
    actor.resumeStop(stop, null, { ...nothing, outcome });
    expect(await settled()).toEqual(outcome);
    expect([orders, recorded]).toEqual([[], []]);
  });

  it('of a pod that does not run any more is resumed all the same: it may have been asked to stop', async () => {
    const { actor, orders, settled } = stage();
    const decision = { ...stopFor(1, 20), id: 'boot-7' };
    const stop = { decision: 'boot-7', decidedMs: 0, uid: victim.uid, graceEndsMs: 0, waitEndsMs: 0 };
    actor.resumeStop(stop, null, { ...nothing, decision });
    expect(await settled()).toMatchObject({ of: 'boot-7' });
    expect(orders).toMatchObject([{ victim, why: 'shutdown', resumedFromMs: 0 }]);
  });

  it('has the time of its signal, also if an earlier run had sent it and remembers when', async () => {
    const ended = { of: 'boot-7', atMs: 9, kind: 'ended', via: 'sigterm', releasedBytes: known(0) } as const;
    const toldMs = async (atMs?: number): Promise<unknown> => {
      const stop: Killer['stop'] = async (_order, _hasten, signalled) => {
        signalled?.('sigterm', atMs);
        return ended;
      };
      const { actor, settled } = stage({
        killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]) },
      });
      const times = { decidedMs: 0, graceEndsMs: 0, waitEndsMs: 0 };
      actor.resumeStop({ decision: 'boot-7', uid: victim.uid, ...times }, victim, nothing);
      return settled();
    };
    expect(await toldMs(4)).toEqual({ ...ended, toldMs: 4 });
    expect(await toldMs()).toEqual(ended);
  });

  it('ends as gone for a pod that is no longer declared', async () => {
    const { actor, did, settled } = stage();
    actor.resumeStop({ decision: 'boot-7', decidedMs: 0, uid: 'u', graceEndsMs: 0, waitEndsMs: 0 }, null, nothing);
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'gone' });
    expect(did).toEqual([]);
  });
});

describe('the shutdown lock', () => {
  it('is taken and released, and stops are undone, as decided', () => {
    const { actor, did } = stage();
    actor.begin({ id: 'boot-1', atMs: 0, kind: 'take-lock' });
    actor.begin({ id: 'boot-2', atMs: 0, kind: 'undo-stops' });
    actor.begin({ id: 'boot-3', atMs: 0, kind: 'release-lock', why: 'all-phases-done' });
    expect(did).toEqual(['take', 'undo', 'release']);
  });
});
