import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { Hasten } from '../../src/core/eviction/hasten.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import type { StopOrder } from '../../src/ports.ts';
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

  it('resumes what an earlier run began, for the rest of its grace period', async () => {
    const { actor, orders, settled } = stage();
    const nowMs = clock.monoMs();
    const stop = { decision: 'boot-7', decidedMs: nowMs - 5_000, uid: 'u', graceEndsMs: nowMs + 15_000, waitEndsMs: 0 };
    actor.resumeStop(stop, victim, []);
    expect(await settled()).toMatchObject({ of: 'boot-7', kind: 'ended' });
    expect(orders).toMatchObject([{ why: 'shutdown', resumedFromMs: nowMs - 5_000 }]);
    expect(orders[0]?.graceMs).toBeLessThanOrEqual(15_000);
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
    actor.resumeStop({ decision: 'boot-2', uid: victim.uid, ...times }, victim, []);
    for (let i = 0; recorded.length < 2 && i < 200; i++)
      await new Promise((resolve) => clock.after(5, () => resolve(null)));
    expect(orders.map(({ why }) => why)).toEqual(['eviction']);
    expect(recorded.map(({ of }) => of).toSorted()).toEqual(['boot-1', 'boot-2']);
  });

  it('ends as gone for a pod that is no longer declared', async () => {
    const { actor, did, settled } = stage();
    actor.resumeStop({ decision: 'boot-7', decidedMs: 0, uid: 'u', graceEndsMs: 0, waitEndsMs: 0 }, null, []);
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
