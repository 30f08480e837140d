import { describe, expect, it } from 'vitest';
import type { decide } from '../../../src/core/decide.ts';
import type { ShutdownEvent } from '../../../src/core/observation.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { NOT_ASKED } from '../../a.ts';
import { aCore, aShutdownConfig, CANCELLED, db, LOCK, PREPARING, said, web } from './a-shutdown.ts';

const START = { shutdownEvents: [LOCK, PREPARING] };
const over = (verdict: ReturnType<typeof decide>) =>
  verdict.reasons.flatMap((reason) => (reason.code === 'shutdown-phase-over' ? [reason] : []));

describe('a cancel', () => {
  it('honoured promptly keeps the lock and begins no other phase (D10)', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const outcome = ended(web, 5_000);
    const verdict = look(2_000, { shutdownEvents: [CANCELLED] });
    expect(verdict.state.shutdown).toEqual({ kind: 'armed', delayMaxMs: 600_000 });
    expect(said(verdict)).toEqual(['undo-stops']);
    expect(over(verdict)).toMatchObject([{ by: 'cancelled', running: ['uid-web'] }]);
    expect(look(5_000, { outcomes: [outcome] }).state.stops).toEqual([]);
  });

  it('makes stopped pods eligible for eviction once the wait for their stop is over, with the time that they declare', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    const waitEndsMs = look(0, START).state.stops[0]?.waitEndsMs ?? Number.NaN;
    const overMs = waitEndsMs + web.terminationGraceSeconds * 1_000;
    look(2_000, { shutdownEvents: [CANCELLED] });
    expect(look(overMs - 1).state.stops).toHaveLength(1);
    // Nobody is forgotten because the pods were not read.
    expect(look(overMs - 1, { pods: NOT_ASKED }).state.stops).toHaveLength(1);
    expect(look(overMs, { pods: NOT_ASKED }).state.stops).toHaveLength(1);
    expect(look(overMs, { pods: known([]), podsFor: 'nodefs.available' }).state.stops).toHaveLength(1);
    expect(look(overMs).state.stops).toEqual([]);
    const lost = aCore(aShutdownConfig(), [web]);
    lost.look(0, START);
    lost.look(2_000, { shutdownEvents: [{ kind: 'lock-lost', detail: '' }, CANCELLED] });
    expect(lost.look(overMs).state).toMatchObject({ shutdown: { kind: 'unarmed' }, stops: [] });
  });

  it('keeps the stop of a pod that it gives more time than its phase had, for the next run of the agent', () => {
    const { look, ended } = aCore(aShutdownConfig(), [{ ...web, terminationGraceSeconds: 600 }]);
    look(0, START);
    look(5_000, { shutdownEvents: [CANCELLED] });
    for (const ms of [31_000, 90_000, 600_000]) expect(look(ms, { pods: NOT_ASKED }).state.stops).toHaveLength(1);
    expect(look(600_100, { outcomes: [ended(web, 600_100)] }).state.stops).toEqual([]);
  });

  it('keeps none longer than its phase would have waited beside a kubelet, whose grace period it does not change', () => {
    const tiers = { announceMs: 0, confirmMs: 0 };
    const { look } = aCore(aShutdownConfig({ tiers }), [web]);
    look(0, START);
    const waitEndsMs = look(1_000).state.stops[0]?.waitEndsMs ?? Number.NaN;
    look(2_000, { shutdownEvents: [CANCELLED] });
    expect(look(waitEndsMs - 1, { pods: NOT_ASKED }).state.stops).toHaveLength(1);
    expect(look(waitEndsMs, { pods: NOT_ASKED }).state.stops).toEqual([]);
  });

  it('is followed by a shutdown that stops each pod anew in its phase, whatever the cancel has given it', () => {
    const told = (againMs: number, event: ShutdownEvent) => {
      const { look } = aCore(aShutdownConfig(), [web]);
      look(0, START);
      look(2_000, { shutdownEvents: [CANCELLED] });
      return said(look(againMs, { shutdownEvents: [event] }));
    };
    for (const event of [PREPARING, { kind: 'stopped-without-signal', leftMs: 60_000 } as const])
      for (const ms of [3_000, 19_999, 20_000, 29_999]) expect(told(ms, event)).toEqual(['stop web in 1 for 20 s']);
  });

  it('at the same time as the signal comes before any phase', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    const verdict = look(0, { shutdownEvents: [LOCK, PREPARING, CANCELLED] });
    expect(said(verdict)).toEqual(['undo-stops']);
    expect(verdict.reasons).toEqual([{ code: 'shutdown-cancelled', phase: 0, policy: 'promptly' }]);
  });

  it('between two phases is handled before the second', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const verdict = look(2_000, { outcomes: [ended(web, 2_000)], shutdownEvents: [CANCELLED] });
    expect(said(verdict)).toEqual(['undo-stops']);
    expect(verdict.state.shutdown.kind).toBe('armed');
  });

  it('after the lock was lost or released takes it again', () => {
    const lost = aCore(aShutdownConfig(), [web]);
    lost.look(0, START);
    const verdict = lost.look(1, { shutdownEvents: [{ kind: 'lock-lost', detail: '' }, CANCELLED] });
    expect(said(verdict)).toEqual(['take-lock', 'undo-stops']);
    expect(verdict.state.shutdown.kind).toBe('unarmed');
    const released = aCore(aShutdownConfig(), []);
    released.look(0, START);
    const late = released.look(1, { shutdownEvents: [CANCELLED] });
    expect(said(late)).toEqual(['take-lock', 'undo-stops']);
    expect(late.reasons).toEqual([{ code: 'shutdown-cancelled', phase: 3, policy: 'promptly' }]);
    const why = 'a shutdown was cancelled, the lock is being taken again';
    expect(late.state.shutdown).toEqual({ kind: 'unarmed', why });
  });

  it("is handled once after the last phase with the kubelet's policy", () => {
    const { look, ended } = aCore(aShutdownConfig({ shutdownCancel: 'afterPhases' }), [web, db]);
    look(0, START);
    const heard = look(1, { shutdownEvents: [CANCELLED, CANCELLED] });
    expect(said(heard)).toEqual([]);
    expect(heard.reasons.filter(({ code }) => code === 'shutdown-cancelled')).toEqual([
      { code: 'shutdown-cancelled', phase: 1, policy: 'afterPhases' },
    ]);
    expect(said(look(2, { outcomes: [ended(web, 2)] }))).toEqual(['stop db in 2 for 10 s']);
    const last = look(3, { outcomes: [ended(db, 3)] });
    expect(said(last)).toEqual(['release-lock all-phases-done', 'take-lock', 'undo-stops']);
    expect(last.state.shutdown.kind).toBe('unarmed');
  });

  it("with the kubelet's policy is taken back by the next shutdown, whose phases those that still run are", () => {
    const afterAgain = (event: ShutdownEvent) => {
      const { look, ended } = aCore(aShutdownConfig({ shutdownCancel: 'afterPhases' }), [web, db]);
      look(0, START);
      look(1_000, { shutdownEvents: [CANCELLED] });
      const again = look(5_000, { shutdownEvents: [event] });
      expect(again.state.shutdown).toMatchObject({ kind: 'stopping', cancelledMs: null });
      look(6_000, { outcomes: [ended(web, 6_000)] });
      const last = look(7_000, { outcomes: [ended(db, 7_000)] });
      return { again, said: [...said(again), ...said(last)], kind: last.state.shutdown.kind };
    };
    for (const event of [PREPARING, { kind: 'stopped-without-signal', leftMs: 60_000 } as const]) {
      const { said: decided, kind } = afterAgain(event);
      expect([decided, kind]).toEqual([['release-lock all-phases-done'], 'released']);
    }
    const late = afterAgain({ ...PREPARING, leftMs: 12_000 });
    expect(late.again.state.shutdown).toMatchObject({ mustEndMs: 15_000, phaseEndsMs: 15_000 });
  });

  it('followed by another shutdown starts over: a stop in progress becomes that of its phase', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const again = look(1_000, { shutdownEvents: [CANCELLED, PREPARING] });
    expect(said(again)).toEqual(['undo-stops', 'stop web in 1 for 20 s']);
    expect(again.state.stops).toMatchObject([{ uid: web.uid, decidedMs: 1_000, waitEndsMs: 31_000 }]);
    expect(again.state.shutdown).toMatchObject({ phase: 1, pending: [web.uid], phaseEndsMs: 21_000 });
    expect(said(look(5_000, { outcomes: [ended(web, 5_000)] }))).toEqual(['stop db in 2 for 10 s']);
  });

  it('from logind alone is ignored once the agent itself is asked to stop, but not from systemd', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    look(0, START);
    look(1_000, { shutdownEvents: [{ kind: 'stopped-without-signal', leftMs: 60_000 }] });
    expect(look(2_000, { shutdownEvents: [CANCELLED] }).state.shutdown.kind).toBe('stopping');
    const stays = look(3_000, { shutdownEvents: [{ ...CANCELLED, machineStays: true }] });
    expect(said(stays)).toEqual(['undo-stops']);
    expect(stays.state.shutdown.kind).toBe('armed');
  });

  it('is no soft-reboot: earlier pods are neither awaited nor restarted, and a later cancel does not count', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    look(0, START);
    const back = look(1_000, { shutdownEvents: [{ kind: 'came-back' }] });
    expect(said(back)).toEqual([]);
    expect(back.state).toMatchObject({ shutdown: { kind: 'unarmed' }, stops: [] });
    expect(said(look(2_000, { shutdownEvents: [{ ...CANCELLED, machineStays: true }] }))).toEqual([]);
    expect(said(look(3_000, { shutdownEvents: [LOCK, PREPARING] }))).toEqual(['stop web in 1 for 20 s']);
  });

  it('without a shutdown changes nothing', () => {
    const { look } = aCore(aShutdownConfig(), []);
    expect(look(0, { shutdownEvents: [CANCELLED] }).state.shutdown).toEqual(initialState('boot').shutdown);
    expect(look(1, { shutdownEvents: [LOCK, CANCELLED] }).state.shutdown.kind).toBe('armed');
  });
});
