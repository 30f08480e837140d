import { describe, expect, it } from 'vitest';
import type { decide } from '../../../src/core/decide.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { anObservation, aPod, aThreshold, MI, NOT_ASKED } from '../../a.ts';
import { aCore, aShutdownConfig, CANCELLED, db, dns, LOCK, PREPARING, said, web } from './a-shutdown.ts';

const START = { shutdownEvents: [LOCK, PREPARING] };
const over = (verdict: ReturnType<typeof decide>) =>
  verdict.reasons.flatMap((reason) => (reason.code === 'shutdown-phase-over' ? [reason] : []));

describe('the lock', () => {
  const core = () => aCore(aShutdownConfig(), []);
  it('is armed when granted and disarmed when lost, with the reason', () => {
    const { look } = core();
    expect(look(0, { shutdownEvents: [LOCK] }).state.shutdown).toEqual({ kind: 'armed', delayMaxMs: 600_000 });
    const lost = look(1, { shutdownEvents: [{ kind: 'lock-lost', detail: 'x'.repeat(5_000) }] });
    expect(lost.state.shutdown).toEqual({ kind: 'unarmed', why: 'x'.repeat(200) });
  });

  it('stops nothing if it was not held when the machine goes down, which a reason reports', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    const verdict = look(0, { shutdownEvents: [PREPARING] });
    expect(said(verdict)).toEqual([]);
    expect(verdict.reasons).toEqual([{ code: 'shutdown-not-armed', why: 'not started' }]);
  });

  it('has no effect without phases', () => {
    const { look } = aCore(aShutdownConfig({ phases: [] }), [web]);
    const verdict = look(0, START);
    expect(said(verdict)).toEqual([]);
    expect(verdict.state.shutdown.kind).toBe('armed');
  });

  it('lost in a phase does not end the phases', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web]);
    look(0, START);
    expect(look(1_000, { shutdownEvents: [{ kind: 'lock-lost', detail: 'gone' }] }).state.shutdown.kind).toBe(
      'stopping',
    );
    expect(said(look(2_000, { outcomes: [ended(web, 2_000)] }))).toEqual(['release-lock all-phases-done']);
  });

  it('granted in a phase changes the state after a cancel, not the phases', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    look(0, START);
    const granted = look(1_000, { shutdownEvents: [{ ...LOCK, delayMaxMs: 700_000 }, PREPARING] });
    expect(said(granted)).toEqual([]);
    expect(granted.state.shutdown).toMatchObject({ kind: 'stopping', phaseEndsMs: 20_000 });
    expect(look(2_000, { shutdownEvents: [CANCELLED] }).state.shutdown).toEqual({ kind: 'armed', delayMaxMs: 700_000 });
  });

  it('granted after the release shows that the shutdown is over', () => {
    const { look } = aCore(aShutdownConfig(), []);
    expect(look(0, START).state.shutdown).toMatchObject({ kind: 'released', atMs: 0 });
    expect(look(9, { shutdownEvents: [{ kind: 'lock-lost', detail: '' }] }).state.shutdown.kind).toBe('released');
    expect(look(10, { shutdownEvents: [LOCK] }).state.shutdown.kind).toBe('armed');
  });
});

describe('the phases', () => {
  it('begin one after another, each with all its pods at once, and the lock is released after the last', () => {
    const cache = aPod({ name: 'cache', terminationGraceSeconds: 5 });
    const { look, ended } = aCore(aShutdownConfig(), [dns, web, cache, db]);
    expect(said(look(0, START))).toEqual(['stop web in 1 for 20 s', 'stop cache in 1 for 5 s']);
    expect(said(look(3_000, { outcomes: [ended(cache, 3_000)] }))).toEqual([]);
    expect(said(look(4_000, { outcomes: [ended(web, 4_000)] }))).toEqual(['stop db in 2 for 10 s']);
    expect(said(look(5_000, { outcomes: [ended(db, 5_000, 'survived')] }))).toEqual(['stop dns in 3 for 5 s']);
    const last = look(6_000, { outcomes: [ended(dns, 6_000)] });
    expect(said(last)).toEqual(['release-lock all-phases-done']);
    expect(last.state).toMatchObject({ shutdown: { kind: 'released', atMs: 6_000 }, stops: [] });
  });

  it.each(['memory.available', null] as const)(
    'begin with every pod, not with those that were read for %s',
    (podsFor) => {
      const idle = aPod({ name: 'idle', limitedBy: 'not-stoppable' });
      const { look } = aCore(aShutdownConfig(), [idle, db]);
      const first = look(0, { ...START, pods: known([db]), podsFor });
      expect(said(first)).toEqual([]);
      expect(first.next).toMatchObject({ afterMs: 0, pods: 'all' });
      expect(said(look(1, { podsFor: 'all' }))).toEqual(['stop idle in 1 for 20 s']);
    },
  );

  it('leave a pod to the service manager whose end may begin another shutdown, with and without the signal', () => {
    const acting = { ...web, endsMachine: { what: 'FailureAction=reboot of web.service', afterMs: 0 } };
    const signalled = aCore(aShutdownConfig(), [acting, db]);
    expect(said(signalled.look(0, START))).toEqual(['stop db in 2 for 10 s']);
    const ended = [signalled.ended(db, 1)];
    expect(said(signalled.look(1, { outcomes: ended }))).toEqual(['release-lock all-phases-done']);
    const { look } = aCore(aShutdownConfig(), [acting, db]);
    const late = { kind: 'stopped-without-signal', leftMs: 60_000 } as const;
    expect(said(look(0, { shutdownEvents: [late] }))).toEqual(['stop db in 2 for 10 s']);
  });

  it('leave a pod to the service manager whose stop is short, but may have to wait for others until that limit is over', () => {
    const timesOut = { ...web, endsMachine: { what: 'JobTimeoutAction=reboot of web.service', afterMs: 60_000 } };
    const began = (pod: PodView) => said(aCore(aShutdownConfig(), [pod]).look(0, START));
    expect(began(timesOut)).toEqual(['stop web in 1 for 20 s']);
    for (const waits of [{ stopsAfter: [db.uid] }, { stopsAfterUnits: ['helper.service'] }])
      expect(began({ ...timesOut, ...waits })).toEqual(['release-lock all-phases-done']);
    expect(began({ ...web, stopsAfter: [db.uid] })).toEqual(['stop web in 1 for 20 s']);
    // A cancel gives it the whole time that it declares, from when it was told, which may be at the end of the phases.
    const late = { ...timesOut, endsMachine: { ...timesOut.endsMachine, afterMs: 75_000 } };
    expect(began({ ...late, terminationGraceSeconds: 40 })).toEqual(['stop web in 1 for 20 s']);
    expect(began({ ...late, terminationGraceSeconds: 40, stopsAfter: [db.uid] })).toEqual([
      'release-lock all-phases-done',
    ]);
    // Not if that limit is longer than both: what it depends on would be stopped before it.
    const endsMachine = { ...timesOut.endsMachine, afterMs: 3_600_000 };
    expect(began({ ...timesOut, endsMachine, stopsAfter: [db.uid] })).toEqual(['stop web in 1 for 20 s']);
  });

  it('without pods take no time', () => {
    const { look, ended } = aCore(aShutdownConfig(), [dns]);
    expect(said(look(0, START))).toEqual(['stop dns in 3 for 5 s']);
    expect(said(look(1, { outcomes: [ended(dns, 1)] }))).toEqual(['release-lock all-phases-done']);
  });

  it('end after their period even if pods still run, and the next begins at once', () => {
    const { look } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    expect(said(look(19_999))).toEqual([]);
    const verdict = look(20_000);
    expect(said(verdict)).toEqual(['stop db in 2 for 10 s']);
    expect(over(verdict)).toEqual([
      {
        code: 'shutdown-phase-over',
        phase: 1,
        startedMs: 0,
        by: 'period',
        volumesMs: 0,
        running: ['uid-web'],
        mounted: [],
      },
    ]);
    expect(verdict.state.stops.map(({ uid }) => uid)).toEqual(['uid-web', 'uid-db']);
  });

  it('of 0 s ask their pods to stop and do not wait', () => {
    const phases = [
      { fromPriority: 0, periodSeconds: 0 },
      { fromPriority: 1_000, periodSeconds: -5 },
      { fromPriority: 2_000, periodSeconds: 10 },
    ];
    const { look } = aCore(aShutdownConfig({ phases }), [web, db, dns]);
    const verdict = look(0, START);
    expect(said(verdict)).toEqual(['stop web in 1 for 0 s', 'stop db in 2 for -5 s', 'stop dns in 3 for 10 s']);
    expect(over(verdict).map(({ phase, by, running }) => [phase, by, running])).toEqual([
      [1, 'period', ['uid-web']],
      [2, 'period', ['uid-db']],
    ]);
    // Negative time is not taken from the phases that follow.
    expect(verdict.state.shutdown).toMatchObject({ phaseEndsMs: 10_000 });
  });

  it('stop the pods that are alive when they begin, not those alive at the signal', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const late = aPod({ name: 'late', priority: 1_000 });
    expect(said(look(1, { outcomes: [ended(web, 1)], pods: known([late]) }))).toEqual(['stop late in 2 for 10 s']);
  });

  it('keep pods that waited for one, even if their priority changes', () => {
    const base = aPod({ name: 'base', inherited: { priority: 2_000, from: 'default/top' } });
    const { look, ended } = aCore(aShutdownConfig(), [web, db, base]);
    expect(said(look(0, START))).toEqual(['stop web in 1 for 20 s']);
    // Its dependent has ended, and somebody has edited the other's manifest.
    const now = known([aPod({ name: 'db', priority: 5 }), aPod({ name: 'base' })]);
    expect(said(look(1_000, { pods: now, outcomes: [ended(web, 1_000)] }))).toEqual(['stop db in 2 for 10 s']);
    expect(said(look(2_000, { pods: now, outcomes: [ended(db, 2_000)] }))).toEqual(['stop base in 3 for 5 s']);
  });

  it('are those of the time of the signal: a reload only affects the next shutdown', () => {
    const { look, ended, state } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const outcomes = [ended(web, 1)];
    const reloaded = aCore(aShutdownConfig({ phases: [] }), [web, db], state());
    expect(said(reloaded.look(1, { outcomes }))).toEqual(['stop db in 2 for 10 s']);
    expect(look(1).state.shutdown.kind).toBe('stopping');
  });

  it('together never last longer than was armed for, however late looks are', () => {
    const { look } = aCore(aShutdownConfig(), [web, db, dns]);
    look(0, START);
    look(20_700);
    look(31_400);
    expect(look(35_000).state.shutdown).toMatchObject({ kind: 'released', atMs: 35_000 });
  });

  it('do not blame a pod that ended while the agent stood still: the first look after that has not heard of it yet', () => {
    const cache = aPod({ name: 'cache' });
    const brief = aPod({ name: 'brief', terminationGraceSeconds: 2 });
    const { look, ended } = aCore(aShutdownConfig(), [web, cache, brief, db]);
    look(0, START);
    const first = look(23_000);
    expect([said(first), first.reasons.map(({ code }) => code)]).toEqual([[], ['shutdown-phase']]);
    const { afterMs } = first.next;
    expect(afterMs).toBeLessThanOrEqual(500);
    expect(over(look(23_050, { outcomes: [ended(web, 23_050)] }))).toEqual([]);
    look(23_060, { outcomes: [ended(brief, 23_060)] });
    const next = look(23_000 + afterMs);
    expect(over(next)).toMatchObject([{ by: 'period', running: [cache.uid] }]);
    expect(said(next)).toEqual(['stop db in 2 for 10 s']);
  });

  it('are over at once, and never get negative time, if a look comes after all of them', () => {
    const { look } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    const late = look(40_000);
    expect(said(late)).toEqual(['stop db in 2 for 10 s', 'release-lock all-phases-done']);
    expect(late.reasons.map(({ code }) => code)).toEqual(['shutdown-phase-over', 'shutdown-phase-over']);
  });
});

describe('the pods', () => {
  it('are requested at once if they are missing, and the first phase begins with them', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    expect(look(0, { ...START, pods: NOT_ASKED }).next).toEqual({ afterMs: 0, pods: 'all' });
    const verdict = look(0);
    expect(said(verdict)).toEqual(['stop web in 1 for 20 s']);
    // For those that are started again.
    expect(verdict.next.pods).toBe('all');
  });

  it('that cannot be read are retried until the time is over', () => {
    const { look } = aCore(aShutdownConfig(), []);
    const pods = unknown('unreadable', 'manifests', 'gone');
    const verdict = look(0, { ...START, pods });
    expect(verdict.reasons).toEqual([{ code: 'pods-unknown', unknown: pods }]);
    expect(verdict.next).toEqual({ afterMs: 250, pods: 'all' });
    const later = look(34_999, { pods });
    expect(said(later)).toEqual([]);
    expect(later.reasons).toEqual([{ code: 'pods-unknown', unknown: pods }]);
    expect(said(look(35_000, { pods }))).toEqual(['release-lock out-of-time']);
  });

  it('that are unknown only for an eviction are requested at once', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    const pods = unknown('timed-out', 'directories', 'their usage is being measured');
    expect(look(0, { ...START, pods, podsFor: 'nodefs.available' }).next).toEqual({ afterMs: 0, pods: 'all' });
    expect(said(look(1, { podsFor: 'all' }))).toEqual(['stop web in 1 for 20 s']);
  });

  it('whose stop takes longer than 10 s or 1.5 times their grace period are no longer waited for (kubelet-shutdown.md 5.2)', () => {
    const quick = aPod({ name: 'quick', terminationGraceSeconds: 2 });
    const slow = aPod({ name: 'slow', terminationGraceSeconds: 9 });
    const { look } = aCore(aShutdownConfig(), [quick, slow]);
    expect(look(0, START).next.afterMs).toBe(10_000);
    const first = look(10_000);
    expect(first.reasons.map(({ code }) => code)).toEqual(['shutdown-wait-exceeded', 'shutdown-phase']);
    expect(first.next.afterMs).toBe(3_000);
    const second = look(13_000);
    expect(over(second)).toMatchObject([{ by: 'done', running: ['uid-quick', 'uid-slow'] }]);
    expect(said(second)).toEqual(['release-lock all-phases-done']);
  });

  it('that end at the moment when the wait for them ends are not reported', () => {
    const quick = aPod({ name: 'quick', terminationGraceSeconds: 2 });
    const { look, ended } = aCore(aShutdownConfig(), [quick, web]);
    look(0, START);
    const { reasons } = look(10_000, { outcomes: [ended(quick, 9_999)] });
    expect(reasons.map(({ code }) => code)).toEqual(['shutdown-phase']);
  });

  it('keep the time that each was given, and the rest of the phase is reported', () => {
    const { look } = aCore(aShutdownConfig(), [web]);
    expect(look(1_000, START).state.stops).toMatchObject([{ graceEndsMs: 21_000, waitEndsMs: 31_000 }]);
    const { reasons } = look(4_000, { outcomes: [{ of: 'boot-1', atMs: 2_000, kind: 'signalled', with: 'sigterm' }] });
    expect(reasons).toEqual([{ code: 'shutdown-phase', phase: 1, remainingMs: 17_000, pods: 1 }]);
  });

  it('that stop after others or after units are waited for until the phase ends', () => {
    const front = aPod({ name: 'front', terminationGraceSeconds: 2 });
    const back = aPod({ name: 'back', terminationGraceSeconds: 2, stopsAfter: ['uid-front'] });
    const other = aPod({ name: 'other', terminationGraceSeconds: 2, stopsAfterUnits: ['backup.service'] });
    const long = aPod({ name: 'long', terminationGraceSeconds: 18, stopsAfterUnits: ['backup.service'] });
    const { look } = aCore(aShutdownConfig(), [front, back, other, long]);
    const { decisions, state } = look(0, START);
    const chain = { after: ['uid-front'], beforeSeconds: 2, restSeconds: 2 };
    expect(decisions.map((decision) => ('chain' in decision ? decision.chain : null))).toEqual([
      { after: [], beforeSeconds: 0, restSeconds: 4 },
      chain,
      null,
      null,
    ]);
    expect(state.stops).toMatchObject([
      { uid: 'uid-front', graceEndsMs: 2_000, waitEndsMs: 10_000 },
      { uid: 'uid-back', graceEndsMs: 20_000, waitEndsMs: 20_000, chain, graceSeconds: 2, endsMs: 20_000 },
      { uid: 'uid-other', graceEndsMs: 20_000, waitEndsMs: 20_000 },
      { uid: 'uid-long', graceEndsMs: 20_000, waitEndsMs: 27_000 },
    ]);
    expect(state.stops[2]).not.toHaveProperty('chain');
    const exceeded = (atMs: number) =>
      look(atMs).reasons.flatMap((reason) => (reason.code === 'shutdown-wait-exceeded' ? [reason.uid] : []));
    expect([9_999, 10_000, 10_001, 19_999].map(exceeded)).toEqual([[], ['uid-front'], [], []]);
  });

  it('whose longest wait ends with the phase are left to its end', () => {
    const phases = [{ fromPriority: 0, periodSeconds: 10 }];
    const { look } = aCore(aShutdownConfig({ phases }), [aPod({ name: 'web', terminationGraceSeconds: 1 })]);
    look(0, START);
    const verdict = look(10_000);
    expect(over(verdict)).toMatchObject([{ by: 'period', running: ['uid-web'] }]);
    expect(verdict.reasons.map(({ code }) => code)).not.toContain('shutdown-wait-exceeded');
  });

  it('without an outcome are forgotten once they are gone', () => {
    const { look } = aCore(aShutdownConfig(), [web, db]);
    look(0, START);
    look(20_000);
    expect(look(20_001, { pods: known([db]) }).state.stops.map(({ uid }) => uid)).toEqual(['uid-db']);
    expect(look(20_002, { pods: known([]) }).state.stops.map(({ uid }) => uid)).toEqual(['uid-db']);
  });

  it('that it stops count as terminating for evictions, even after a cancel', () => {
    const config = { ...aShutdownConfig(), thresholds: [aThreshold('memory.available', 100 * MI)] };
    const big = aPod({ name: 'big', workingSetBytes: 500 * MI });
    const { look } = aCore(config, [big, db]);
    const { signals } = anObservation(0, { 'memory.available': { available: 50 * MI, capacity: 1_000 * MI } });
    const verdict = look(0, { ...START, signals });
    expect(said(verdict)).toEqual(['stop big in 1 for 20 s', 'set-condition', 'evict']);
    expect(verdict.decisions.find(({ kind }) => kind === 'evict')).toMatchObject({ victim: { name: 'db' } });
    expect(verdict.reasons).toContainEqual({ code: 'passed-over', uid: 'uid-big', because: 'terminating' });
    const later = look(1_000, { shutdownEvents: [CANCELLED] });
    expect(later.state.stops.map(({ uid }) => uid)).toEqual(['uid-big']);
  });
});

describe('volumes', () => {
  const mounted = (...uids: readonly string[]) => ({ volumesMounted: known(uids) });
  const begun = () => {
    const core = aCore(aShutdownConfig({ phases: [{ fromPriority: 0, periodSeconds: 300 }] }), [web]);
    core.look(0, { ...START, ...mounted('uid-web', 'uid-other') });
    return core;
  };

  it('of its pods are checked every 300 ms after the stops have ended', () => {
    const { look, ended } = begun();
    const first = look(1_000, { outcomes: [ended(web, 1_000)], ...mounted('uid-web', 'uid-other') });
    expect(first.next.afterMs).toBe(300);
    // Not a look of its own: nothing is judged.
    expect(look(1_100, mounted('uid-other')).next.afterMs).toBe(200);
    expect(look(1_300, mounted('uid-web')).next.afterMs).toBe(300);
    // One that came late moves none of those after it.
    expect(look(1_650, mounted('uid-web')).next.afterMs).toBe(250);
    expect(over(look(1_900, mounted('uid-other')))).toMatchObject([{ by: 'done', volumesMs: 900 }]);
  });

  it('are no longer waited for after 123 s', () => {
    const { look, ended } = begun();
    look(1_000, { outcomes: [ended(web, 1_000)], ...mounted('uid-web') });
    expect(over(look(123_999, mounted('uid-web')))).toEqual([]);
    const verdict = look(124_000, mounted('uid-web'));
    expect(over(verdict)).toMatchObject([{ by: 'volume-timeout', mounted: ['uid-web'], volumesMs: 123_000 }]);
    expect(said(verdict)).toEqual(['release-lock all-phases-done']);
  });

  it('of pods that still run at the end of the phase are not listed in addition', () => {
    const { look, ended } = aCore(aShutdownConfig(), [web, aPod({ name: 'done' })]);
    look(0, { ...START, ...mounted('uid-web', 'uid-done') });
    look(1_000, { outcomes: [ended(aPod({ name: 'done' }), 1_000)], ...mounted('uid-web', 'uid-done') });
    const verdict = look(20_000, mounted('uid-web', 'uid-done'));
    expect(over(verdict)).toMatchObject([{ running: ['uid-web'], mounted: ['uid-done'] }]);
  });

  it('that cannot be read do not count as unmounted', () => {
    const { look, ended } = begun();
    const volumesMounted = unknown('unreadable', 'mountinfo', 'gone');
    expect(look(1_000, { outcomes: [ended(web, 1_000)], volumesMounted }).state.shutdown.kind).toBe('stopping');
    const released = look(1_300, { volumesMounted: unknown('not-applicable', 'volumes', 'none') });
    expect(released.state.shutdown.kind).toBe('released');
  });
});

describe('shutdownCarryOver', () => {
  const config = aShutdownConfig({ shutdownCarryOver: true });
  const patient = aPod({ name: 'patient', priority: 1_000, terminationGraceSeconds: 60 });

  it('gives the next phase the unused time of the previous one', () => {
    const { look, ended } = aCore(config, [web, patient]);
    look(0, START);
    const verdict = look(5_500, { outcomes: [ended(web, 5_500)] });
    expect(said(verdict)).toEqual(['stop patient in 2 for 24 s']);
    expect(verdict.state.shutdown).toMatchObject({ phaseEndsMs: 30_000 });
  });

  it('also gives it the time of phases without pods', () => {
    const { look } = aCore(config, [patient]);
    expect(said(look(0, START))).toEqual(['stop patient in 2 for 30 s']);
  });

  it('takes nothing from a phase that begins after one that used all its time', () => {
    const { look } = aCore(config, [web, patient]);
    look(0, START);
    expect(said(look(20_003))).toEqual(['stop patient in 2 for 10 s']);
  });
});

describe('the sentences', () => {
  it.each([
    [{ code: 'shutdown-phase', phase: 1, remainingMs: 1_500, pods: 2 }, 'shutdown phase 1: 2 pods, 1.5s left'],
    [
      {
        code: 'shutdown-phase-over',
        phase: 1,
        startedMs: 0,
        by: 'period',
        volumesMs: 0,
        running: ['a'],
        mounted: ['b'],
      },
      'shutdown phase 1 is over: its time is used up; still running: A; volumes still mounted: B',
    ],
    [
      { code: 'shutdown-phase-over', phase: 2, startedMs: 0, by: 'done', volumesMs: 0, running: [], mounted: [] },
      'shutdown phase 2 is over: all its pods have ended',
    ],
    [
      { code: 'shutdown-wait-exceeded', phase: 1, uid: 'a' },
      'shutdown phase 1 no longer waits for A: its stop took too long',
    ],
    [
      { code: 'shutdown-cancelled', phase: 1, policy: 'promptly' },
      'the shutdown was cancelled: no further phase begins, stops in progress continue',
    ],
    [
      { code: 'shutdown-cancelled', phase: 1, policy: 'afterPhases' },
      'the shutdown was cancelled: the phases continue, and the lock is taken again after the last one',
    ],
    [
      { code: 'shutdown-not-armed', why: 'no logind' },
      'the machine is going down, but the shutdown was not armed (no logind): no phase begins',
    ],
  ] as const)('%j', (reason, sentence) => {
    expect(sayReason(reason, (uid) => uid.toUpperCase())).toBe(sentence);
  });
});
