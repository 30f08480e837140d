import { describe, expect, it } from 'vitest';
import { rehearseReport } from '../../src/cli/rehearse-report.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { aConfig, aPod } from '../a.ts';
import { ARMED, CRITICAL, config, ended, type Given, NEVER, rehearsed, web } from './a-rehearsal.ts';

/** What becomes of shop/web, which declares `ownSeconds`, in its phase of 20 s; null: it declares none. */
function verdict(ownSeconds: number | null, given: Pick<Given, 'observed' | 'timeouts'> = {}) {
  const own = ownSeconds === null ? ({ isGraceDefault: true } as const) : { terminationGraceSeconds: ownSeconds };
  const report = rehearsed({ ...given, pods: [{ ...web, ...own }] });
  const [row] = report.phases[0]?.pods ?? [];
  return { ...row?.verdict, sets: report.changes.map(({ what, seconds }) => `${what} ${seconds}`) };
}

describe('whether a pod cannot finish', () => {
  it('is unknown for a pod that declares more than its phase has: it may need more', () => {
    expect(verdict(20)).toMatchObject({ kind: 'finishes', because: 'declared', sets: [] });
    expect(verdict(30)).toEqual({
      kind: 'may-need-more',
      because: 'declared',
      needsMs: 30_000,
      sets: ['phase 30'],
    });
  });

  it('is unknown for a unit with a longer TimeoutStopSec of its own, which counts more than the declared grace period', () => {
    expect(verdict(20, { timeouts: { web: 45_000 } })).toEqual({
      kind: 'may-need-more',
      because: 'stop-timeout',
      needsMs: 45_000,
      sets: ['phase 45', 'terminationGracePeriodSeconds 45'],
    });
    expect(verdict(25, { timeouts: { web: 45_000 } })).toMatchObject({ kind: 'may-need-more', needsMs: 45_000 });
    expect(verdict(25, { timeouts: { web: 25_000 } })).toMatchObject({ kind: 'may-need-more', needsMs: 25_000 });
    expect(verdict(null, { timeouts: { web: 12_000 } })).toMatchObject({ kind: 'finishes', because: 'stop-timeout' });
    const endless = verdict(20, { timeouts: { web: Number.POSITIVE_INFINITY } });
    expect(endless).toMatchObject({ kind: 'may-need-more', because: 'stop-timeout', needsMs: null, sets: [] });
  });

  it('is certain for a unit that systemd kills before the grace period that its manifest sets', () => {
    expect(verdict(15, { timeouts: { web: 2_000 } })).toEqual({
      kind: 'cannot-finish',
      because: 'stop-timeout',
      needsMs: 15_000,
      sets: ['TimeoutStopSec 15'],
    });
    // As long as the default, but written.
    expect(verdict(30, { timeouts: { web: 2_000 } })).toMatchObject({ kind: 'cannot-finish', needsMs: 30_000 });
  });

  it("is not concluded from systemd's default, which nobody chose", () => {
    expect(verdict(20, { timeouts: { web: 90_000 } })).toMatchObject({ kind: 'finishes', because: 'declared' });
  });

  it('is concluded from its earlier stops, whatever is declared', () => {
    expect(verdict(300, { observed: { web: ended(2_500) } })).toMatchObject({ kind: 'finishes', because: 'observed' });
    expect(verdict(300, { observed: { web: ended(20_000) } })).toMatchObject({ kind: 'finishes', because: 'observed' });
    expect(verdict(300, { observed: { web: ended(24_000) } })).toMatchObject({ needsMs: 24_000, sets: ['phase 30'] });
    expect(verdict(10, { observed: { web: ended(16_000) } })).toEqual({
      kind: 'cannot-finish',
      because: 'observed',
      needsMs: 16_000,
      // A quarter more than was seen, which its phase has.
      sets: ['terminationGracePeriodSeconds 20'],
    });
  });

  it('is certain for a pod that had to be killed after as much time as it gets now', () => {
    const observed = { web: { ...NEVER, unfinishedMs: 20_000 } };
    expect(verdict(20, { observed })).toEqual({
      kind: 'cannot-finish',
      because: 'observed',
      needsMs: null,
      sets: ['phase 40', 'terminationGracePeriodSeconds 40'],
    });
    // It had less then: what it declares is all that is known.
    expect(verdict(20, { observed: { web: { ...NEVER, unfinishedMs: 3_000 } } })).toMatchObject({
      kind: 'finishes',
      because: 'declared',
    });
    const once = { stops: 2, endedMs: 1_000, unfinishedMs: 3_000 };
    expect(verdict(30, { observed: { web: once } })).toMatchObject({ kind: 'may-need-more', because: 'declared' });
  });

  it.each([5_000, 5_010])(
    'is certain for a unit that systemd killed, even if its stop ended within the grace period: after %d ms',
    (ms) => {
      expect(verdict(20, { timeouts: { web: 5_000 }, observed: { web: ended(ms) } })).toEqual({
        kind: 'cannot-finish',
        because: 'observed',
        needsMs: null,
        sets: ['TimeoutStopSec 10'],
      });
    },
  );
});

describe('the rehearsal', () => {
  const dns = aPod({ name: 'dns', priority: CRITICAL, terminationGraceSeconds: 10 });

  it('gives the worst times, and times from observed stops if there are any', () => {
    const report = rehearsed({ pods: [web, dns], observed: { web: ended(2_500) } });
    expect(report.phases.map(({ worst, expected }) => [worst, expected])).toEqual([
      [
        { startMs: 0, endMs: 20_000 },
        { startMs: 0, endMs: 2_500 },
      ],
      [
        { startMs: 20_000, endMs: 30_000 },
        { startMs: 2_500, endMs: 12_500 },
      ],
    ]);
    expect([report.worstMs, report.expectedMs]).toEqual([30_000, 12_500]);
    // One that had to be killed once may have to be again.
    const once = { stops: 2, endedMs: 1_000, unfinishedMs: 3_000 };
    expect(rehearsed({ observed: { web: once } }).expectedMs).toBe(20_000);
  });

  it('waits no longer for a unit than systemd does', () => {
    const report = rehearsed({ timeouts: { web: 8_000 } });
    expect(report.worstMs).toBe(8_000);
    expect(report.phases[0]?.pods[0]?.getsMs).toBe(8_000);
    expect(report.warnings).toEqual([
      'systemd kills web.service after its TimeoutStopSec of 8s, before the 20s that shop/web is given',
    ]);
  });

  it('shrinks the phases into what logind grants, and says so', () => {
    const lock = { kind: 'not-armed', neededMs: 30_000, grantedMs: 17_000, isHeld: true, why: '/etc/x' } as const;
    const report = rehearsed({ pods: [web, dns], status: { lock } });
    expect(report.phases.map(({ pods }) => pods[0]?.graceSeconds)).toEqual([10, 5]);
    expect([report.grantedMs, report.worstMs]).toEqual([17_000, 15_000]);
    expect(report.phases.map(({ pods }) => pods[0]?.verdict.kind)).toEqual(['may-need-more', 'may-need-more']);
    expect(report.warnings[0]).toMatch(/^logind grants 17s of the 30s that all phases need: they shrink to fit/);
  });

  it('says of a pod whose end may begin another shutdown that systemd stops it after the phases', () => {
    const acting = { ...web, endsMachine: { what: 'SuccessAction=reboot of web.service', afterMs: 0 } };
    const report = rehearsed({ pods: [acting, dns] });
    expect(report.phases.map(({ pods }) => pods.map(({ name }) => name))).toEqual([[], ['dns']]);
    expect(report.warnings).toEqual([
      'shop/web is not stopped in a phase, but by systemd after the last one: its end may trigger SuccessAction=reboot of web.service, and so begin another shutdown before the phases are over',
    ]);
  });

  it('says the same of a pod whose stop may only have to wait too long for others', () => {
    const endsMachine = { what: 'JobTimeoutAction=reboot of web.service', afterMs: 45_000 };
    expect(rehearsed({ pods: [{ ...web, endsMachine }, dns] }).warnings).toEqual([]);
    const [warning] = rehearsed({ pods: [{ ...web, endsMachine, stopsAfter: ['uid-dns'] }, dns] }).warnings;
    expect(warning).toContain('shop/web is not stopped in a phase, but by systemd after the last one');
  });

  it('shows which pod is stopped after or together with which, and the time that is left for it', () => {
    const front = { ...web, name: 'front', uid: 'uid-front', terminationGraceSeconds: 30 };
    const db = aPod({
      name: 'db',
      stopsAfter: ['uid-front', 'uid-dns'],
      takesAlong: ['shop/front', 'helper.service'],
      inherited: { priority: 5, from: 'shop/front' },
      terminationGraceSeconds: 30,
    });
    const report = rehearsed({ pods: [db, front, dns] });
    const rows = report.phases[0]?.pods ?? [];
    expect(rows.map(({ name, toldAfterMs, getsMs }) => [name, toldAfterMs, getsMs])).toEqual([
      ['db', 10_000, 10_000],
      ['front', 0, 10_000],
    ]);
    expect(report.worstMs).toBe(30_000);
    expect(report.notes).toEqual([
      'default/db stops in phase 1, with the priority of shop/front, which may stop with it',
      'stopping default/db also stops shop/front, helper.service',
      'default/db is asked to stop after shop/front (systemd orders them), at most 10s after its phase begins, and then gets at least 10s',
      'default/db stops before default/dns (in a later phase), although systemd orders it after',
    ]);
    // As they went before there is time for all.
    const quick = rehearsed({ pods: [db, front, dns], observed: { front: ended(2_000), db: ended(12_000) } });
    expect(quick.phases[0]?.pods.map(({ verdict: { kind } }) => kind)).toEqual(['finishes', 'finishes']);
    const slow = rehearsed({ pods: [db, front, dns], observed: { front: ended(9_000), db: ended(12_000) } });
    expect(slow.cannotFinish).toEqual(['default/db']);
    // How long the one before it takes is not known: db may have all its 12 s.
    const half = rehearsed({ pods: [db, front, dns], observed: { db: ended(12_000) } });
    expect(half.cannotFinish).toEqual([]);
    expect(half.phases[0]?.pods[0]?.verdict).toEqual({
      kind: 'may-need-more',
      because: 'observed',
      needsMs: 12_000,
    });
  });

  it('counts the time of a slice from the beginning of its phase, whatever its services wait for', () => {
    const front = { ...web, name: 'front', uid: 'uid-front' };
    const more = { stopsAfter: ['uid-front'], stopsAfterUnits: ['helper.service'], takesAlong: ['helper.service'] };
    const db = aPod({ name: 'db', ...more, terminationGraceSeconds: 8 });
    const of = { timeouts: { db: 90_000 }, stops: { db: { unit: 'db.slice' } } };
    const report = rehearsed({ pods: [db, { ...front, terminationGraceSeconds: 10 }], ...of });
    expect(report.phases[0]?.pods[0]).toMatchObject({ name: 'db', toldAfterMs: 0, getsMs: 8_000 });
    expect(report.notes).toContain(
      'the time of default/db begins with its phase: those of its services that systemd orders after shop/front, helper.service are asked to stop after them, at the latest 2 s before that time is over (in half of it if it is shorter than 4 s)',
    );
  });

  it.each([1, 5, 8, 20])(
    'has each pod of a chain asked to stop within its phase of %d s, however many there are',
    (periodSeconds) => {
      const phases = [{ fromPriority: 0, periodSeconds }];
      const pods = Array.from({ length: 10 }, (_, i) =>
        aPod({ name: `l${i}`, terminationGraceSeconds: 30, ...(i === 0 ? {} : { stopsAfter: [`uid-l${i - 1}`] }) }),
      );
      const report = rehearsed({ pods, config: { ...config, phases } });
      const rows = report.phases[0]?.pods ?? [];
      expect(report.worstMs).toBe(periodSeconds * 1_000);
      const share = periodSeconds * 100;
      expect(rows.map(({ getsMs }) => getsMs)).toEqual(rows.map(() => share));
      expect(rows.map(({ toldAfterMs }) => toldAfterMs)).toEqual(rows.map((_, i) => i * share));
      // What is to be set is enough for all of them.
      expect(report.changes).toEqual([{ what: 'phase', phase: 1, fromPriority: 0, now: periodSeconds, seconds: 300 }]);
      const enough = rehearsed({
        pods,
        config: { ...config, phases: [{ fromPriority: 0, periodSeconds: 300 }] },
        status: { lock: { ...ARMED, grantedMs: 302_000 } },
      });
      expect(enough.phases[0]?.pods.map(({ verdict: { kind } }) => kind)).toEqual(pods.map(() => 'finishes'));
    },
  );

  it('gives a pod no more than its phase lasts, and 2 s if that has no time', () => {
    const getsIn = (graceSeconds: number) =>
      rehearsed({ config: { ...config, phases: [{ fromPriority: 0, periodSeconds: graceSeconds }] } }).phases[0]
        ?.pods[0]?.getsMs;
    expect([getsIn(1), getsIn(0)]).toEqual([1_000, 2_000]);
  });

  it('shows a pod as asked late if it waits for a unit that is not a pod, whose duration is unknown', () => {
    const ha = aPod({
      name: 'ha',
      terminationGraceSeconds: 3,
      takesAlong: ['nph.service'],
      stopsAfterUnits: ['nph.service', 'other.service'],
    });
    const given = { pods: [ha], config: { ...config, phases: [{ fromPriority: 0, periodSeconds: 10 }] } };
    const report = rehearsed(given);
    expect(report.phases[0]?.pods[0]).toMatchObject({
      toldAfterMs: 8_500,
      getsMs: 1_500,
      verdict: { kind: 'may-need-more', because: 'declared', needsMs: 3_000 },
    });
    expect(report.worstMs).toBe(10_000);
    // Its phase does not go on without it.
    const long = rehearsed({ pods: [ha], config: { ...config, phases: [{ fromPriority: 0, periodSeconds: 30 }] } });
    expect([long.worstMs, long.phases[0]?.pods[0]?.toldAfterMs]).toEqual([30_000, 28_500]);
    expect(report.notes).toContain(
      'default/ha is asked to stop after nph.service (systemd orders them), at most 8.5s after its phase begins, and then gets at least 1.5s',
    );
    // Whether it has time for what it needed before is not known.
    expect(rehearsed({ ...given, observed: { ha: ended(2_000) } }).cannotFinish).toEqual([]);
    expect(rehearsed({ ...given, observed: { ha: ended(3_100) } }).cannotFinish).toEqual(['default/ha']);
  });

  it('applies TimeoutStopSec= to each command of a stop and to the signal after them', () => {
    const given = { timeouts: { web: 6_000 }, stops: { web: { commands: 1 } } };
    const report = rehearsed(given);
    expect(report.phases[0]?.pods[0]).toMatchObject({ getsMs: 12_000, stopTimeoutMs: 6_000, stopSteps: 2 });
    expect(report.warnings).toEqual([
      'systemd kills web.service after 12s, its TimeoutStopSec of 6s for each ExecStop= and for the signal after it, before the 20s that shop/web is given',
    ]);
    expect(rehearsed({ ...given, observed: { web: ended(9_000) } }).cannotFinish).toEqual([]);
    expect(rehearsed({ ...given, timeouts: { web: 10_000 } }).warnings).toEqual([]);
  });

  it("names the pods whose unit's stop leaves processes unsignalled", () => {
    const of = (killMode: string) => rehearsed({ timeouts: { web: 90_000 }, stops: { web: { killMode } } }).notes;
    expect(of('process')).toEqual([
      'stopping shop/web signals only the main process (KillMode=process): the remaining processes are signalled afterwards',
    ]);
    expect(of('none')).toEqual([
      'stopping shop/web signals no process (KillMode=none): the remaining processes are signalled afterwards',
    ]);
    expect(of('mixed')).toEqual([]);
  });

  it('handles pods that are to be stopped after each other in a cycle', () => {
    const pods = [
      aPod({ name: 'y1', terminationGraceSeconds: 5, stopsAfter: ['uid-y2'] }),
      aPod({ name: 'y2', terminationGraceSeconds: 5, stopsAfter: ['uid-y1'] }),
    ];
    expect(rehearsed({ pods }).phases[0]?.pods.map(({ getsMs }) => getsMs)).toEqual([5_000, 5_000]);
  });

  it('warns that nothing waits for the phases while the lock is not held', () => {
    const lock = { kind: 'not-armed', neededMs: 30_000, grantedMs: null, isHeld: false, why: 'no bus' } as const;
    expect(rehearsed({ pods: [web], status: { lock } }).warnings).toEqual([
      'the lock is not held now: a shutdown would not wait for the phases (no bus)',
    ]);
  });

  it('warns first about a shutdown in progress', () => {
    const running = {
      tier: 'logind',
      type: null,
      phase: 1,
      phaseLeftMs: 5_000,
      podsLeft: [],
      cancelled: false,
      cancelIgnored: false,
    } as const;
    expect(rehearsed({ timeouts: { web: 8_000 }, status: { running } }).warnings).toEqual([
      'a shutdown is under way: nodewarden status shows it',
      expect.stringContaining('systemd kills web.service'),
    ]);
  });

  it("also plays the phases in the time that systemd leaves for the agent's stop", () => {
    const tier = (stopTimeoutMs: number | 'infinity' | null, secondTier = true) =>
      rehearsed({ pods: [web, dns], status: { stopTimeoutMs, secondTier } }).secondTier;
    expect(tier(90_000)).toEqual({ stopTimeoutMs: 90_000, leftMs: 85_000, worstMs: 30_000 });
    expect(tier(20_000)).toEqual({ stopTimeoutMs: 20_000, leftMs: 15_000, worstMs: 15_000 });
    expect(tier('infinity')).toEqual({ stopTimeoutMs: 'infinity', leftMs: null, worstMs: 30_000 });
    expect(tier(null)).toBeNull();
    expect(tier(90_000, false)).toBeNull();
  });

  it('warns about phases without time, and pods below the first phase', () => {
    const odd = aConfig([], {
      phases: [
        { fromPriority: 1_000, periodSeconds: 30 },
        { fromPriority: CRITICAL, periodSeconds: 0 },
      ],
    });
    expect(rehearsed({ pods: [dns], config: odd }).warnings).toHaveLength(1);
    expect(rehearsed({ pods: [{ ...web, priority: 1_000 }], config: odd }).warnings).toEqual([]);
    expect(rehearsed({ pods: [web, dns], config: odd }).warnings).toEqual([
      'phase 2 lasts 0s: it does not wait for its 1 pod',
      'the first phase begins at priority 1000, but also stops pods with a lower one: shop/web',
    ]);
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const { phases, warnings } = rehearsed({ pods: [{ ...web, unsaid }], config: odd });
    expect([phases[0]?.pods[0]?.priority, warnings]).toEqual([null, []]);
  });

  it('names the units whose timeout systemd did not report, and what else is missing', () => {
    const timeoutMs = unknown('absent', 'web.service', 'systemd knows no such unit');
    const units = new Map([['uid-web', { unit: 'web.service', timeoutMs, stopCommands: 0, killMode: null }]]);
    const timeouts = { units, defaultMs: timeoutMs, problems: ['x.yaml:1:1: bad'] };
    const base = {
      node: { name: 'n', dryRun: false },
      atWallMs: 0,
      config,
      pods: [web],
      observed: new Map(),
      findings: [],
    };
    const status = { lock: ARMED, stopTimeoutMs: null, secondTier: false, running: null };
    expect(rehearseReport({ ...base, status, timeouts }).warnings).toEqual([
      'TimeoutStopSec of web.service is not known: systemd knows no such unit',
      'x.yaml:1:1: bad',
      "nothing is stopped in phases when the machine goes down without logind's signal",
    ]);
  });
});

describe('a pod that is not bound', () => {
  it('is named with the reason, and its unit is not queried', () => {
    const text = '/etc/nodewarden/pods.d/ghost.yaml:1:1: cannot be resolved: ghost.service: systemd knows no such unit';
    const other = { id: 'record', text: 'the record takes no entries' };
    const timeoutMs = unknown('absent', 'ghost.service', 'systemd knows no such unit');
    const units = new Map([['uid-ghost', { unit: 'ghost.service', timeoutMs, stopCommands: 0, killMode: null }]]);
    const base = { node: { name: 'n', dryRun: false }, atWallMs: 0, config, pods: [web], observed: new Map() };
    const status = { lock: ARMED, stopTimeoutMs: null, secondTier: true, running: null };
    const timeouts = { units, defaultMs: known(90_000), problems: [] };
    const warningsWith = (id: string) =>
      rehearseReport({ ...base, status, timeouts, findings: [{ id, text }, other] }).warnings;
    expect(warningsWith('binding/shop/ghost')).toEqual([`not stopped in order: ${text}`]);
    // One that runs where nothing of it can be measured is stopped in its phase.
    expect(warningsWith('binding/shop/web')).toEqual([text]);
  });
});
