import { describe, expect, it } from 'vitest';
import type { RecordEntry } from '../../src/record/entry.ts';
import type { ShutdownRecord } from '../../src/record/reading/shutdown-record.ts';
import { shutdownsOf } from '../../src/record/reading/shutdowns.ts';
import { aBoot, aWholeShutdown, BEGAN, BEGAN_WALL_MS, over, phase } from './a-shutdown.ts';

const boot = aBoot('b');

function only(entries: readonly RecordEntry[], runningBoot = 'now'): ShutdownRecord {
  const { shutdowns } = shutdownsOf(entries, runningBoot);
  expect(shutdowns).toHaveLength(1);
  const [shutdown] = shutdowns;
  if (shutdown === undefined) throw new Error('no shutdown');
  return shutdown;
}
const bootEnd = (entries: readonly RecordEntry[]) => shutdownsOf(entries, 'now').boots.map(({ end }) => end);

describe('a shutdown in the record', () => {
  it('is shown phase by phase and pod by pod, plan versus actual', () => {
    expect(only(aWholeShutdown(boot))).toEqual({
      bootId: 'b',
      dry: false,
      beganWallMs: BEGAN_WALL_MS + 100_000,
      beganMs: 100_000,
      plan: { tier: 'logind', type: 'reboot', grantedMs: 32_000, limitMs: null },
      phases: [
        {
          phase: 1,
          fromPriority: 0,
          wantedMs: 20_000,
          state: 'over',
          began: { atMs: 100_000, wallMs: BEGAN_WALL_MS + 100_000, periodMs: 20_000 },
          over: { atMs: 120_000, tookMs: 20_000, by: 'period' },
          pods: [
            {
              pod: 'shop/web',
              uid: 'uid-web',
              priority: 0,
              graceSeconds: 20,
              decision: 'b-1',
              atMs: 100_000,
              isAgain: false,
              end: { kind: 'ended', afterMs: 2_500, via: 'stop-unit' },
              isLate: false,
            },
            {
              pod: 'shop/db',
              uid: 'uid-db',
              priority: 0,
              graceSeconds: 20,
              decision: 'b-2',
              atMs: 100_000,
              isAgain: false,
              end: { kind: 'ended', afterMs: 20_100, via: 'cgroup.kill' },
              isLate: true,
            },
          ],
        },
        {
          phase: 2,
          fromPriority: 2_000_000_000,
          wantedMs: 10_000,
          state: 'over',
          began: { atMs: 120_000, wallMs: BEGAN_WALL_MS + 120_000, periodMs: 10_000 },
          over: { atMs: 122_500, tookMs: 2_500, by: 'done' },
          pods: [
            {
              pod: 'shop/dns',
              uid: 'uid-dns',
              priority: 0,
              graceSeconds: 10,
              decision: 'b-3',
              atMs: 120_000,
              isAgain: false,
              end: { kind: 'ended', afterMs: 2_500, via: 'sigterm' },
              isLate: false,
            },
          ],
        },
      ],
      startedAgain: [],
      gone: [],
      lockLost: [],
      resumed: [],
      cancelled: null,
      undone: null,
      released: { atMs: 122_500, why: 'all-phases-done' },
      end: { kind: 'released' },
      decisions: ['b-1', 'b-2', 'b-3', 'b-4'],
    });
  });

  it('cut by the end of the boot names the phase, the pods without an end and the phases it never reached', () => {
    const cut = only(aWholeShutdown(boot).slice(0, 5));
    expect(cut.end).toEqual({ kind: 'cut', phase: 1, by: 'boot-ended' });
    expect(cut.phases.map(({ state }) => state)).toEqual(['cut', 'not-reached']);
    expect(cut.phases[0]?.pods.map(({ end }) => end.kind)).toEqual(['ended', 'cut-off']);
  });

  it('in the current boot is still in progress, with its pods', () => {
    const going = only(aWholeShutdown(boot).slice(0, 5), 'b');
    expect(going.end).toEqual({ kind: 'running', phase: 1 });
    expect(going.phases.map(({ state }) => state)).toEqual(['running', 'waiting']);
    expect(going.phases[0]?.pods.map(({ end }) => end.kind)).toEqual(['ended', 'under-way']);
  });

  it.each([
    ['was stopped', [boot.stopped(103_000, 'goes-down')]],
    ['was started again and did not continue it', [boot.started(103_000)]],
    ['began another one', [boot.fact(200_000, BEGAN)]],
  ])('is cut when the agent %s', (_, more) => {
    const [first] = shutdownsOf([...aWholeShutdown(boot).slice(0, 5), ...more], 'b').shutdowns;
    expect(first?.end).toEqual({ kind: 'cut', phase: 1, by: 'agent-ended' });
    expect(first?.phases[0]?.pods[1]?.end).toEqual({ kind: 'cut-off' });
  });

  it('that an agent continued after a crash is one shutdown, with the time of resumption and of the lost lock', () => {
    const whole = aWholeShutdown(boot);
    const resumed = only([
      ...whole.slice(0, 5),
      boot.fact(104_000, { what: 'lock-lost', detail: 'the agent was killed' }),
      boot.started(105_000),
      boot.fact(105_000, { what: 'resumed', phase: 1 }),
      boot.fact(105_000, phase(1, 'shop/db')),
      ...whole.slice(5),
    ]);
    expect(resumed).toMatchObject({
      end: { kind: 'released' },
      resumed: [{ atMs: 105_000, phase: 1 }],
      lockLost: [{ atMs: 104_000, phase: 1, detail: 'the agent was killed' }],
    });
    expect(resumed.phases[0]?.began?.atMs).toBe(100_000);
    expect(resumed.phases[0]?.pods).toHaveLength(2);
  });

  it('that was cancelled keeps the later outcomes of its stops, and what was undone', () => {
    const cancelled = only(
      [
        ...aWholeShutdown(boot).slice(0, 5),
        boot.fact(103_000, over(1, 3_000, 'cancelled', 'shop/db')),
        boot.fact(103_000, { what: 'cancelled', phase: 1, why: 'shutdown -c' }),
        boot.lock(103_000, 'b-5', 'undo-stops'),
        boot.lock(103_000, 'b-6', 'take-lock'),
        boot.ended(110_000, 'b-2'),
        boot.fact(111_000, { what: 'undone', started: ['web.service'], notUndone: ['db.service: masked'] }),
      ],
      'b',
    );
    expect(cancelled).toMatchObject({
      end: { kind: 'cancelled' },
      cancelled: { atMs: 103_000, phase: 1, why: 'shutdown -c', isHonoured: true },
      undone: { started: ['web.service'], notUndone: ['db.service: masked'] },
      decisions: ['b-1', 'b-2', 'b-5', 'b-6'],
    });
    expect(cancelled.phases.map(({ state }) => state)).toEqual(['over', 'not-reached']);
    expect(cancelled.phases[0]?.pods[1]).toMatchObject({ end: { kind: 'ended', afterMs: 10_000 }, isLate: true });
  });

  it.each([
    ['seen and then not honoured', [boot.fact(101_000, { what: 'cancelled', phase: 1, why: 'shutdown -c' })]],
    ['never seen by logind', []],
  ])('whose cancel was %s continues to its end', (_, heard) => {
    const whole = aWholeShutdown(boot);
    const refused = boot.fact(102_000, { what: 'cancel-not-honoured' });
    const { end, cancelled } = only([...whole.slice(0, 4), ...heard, refused, ...whole.slice(4)]);
    expect(end).toEqual({ kind: 'released' });
    expect(cancelled).toMatchObject({ phase: 1, isHonoured: false });
  });

  it('that waits for a pod which a cancelled one had asked to stop shows how that stop went', () => {
    const of = (...more: readonly RecordEntry[]) =>
      shutdownsOf(
        [
          ...aWholeShutdown(boot).slice(0, 5),
          boot.fact(103_000, over(1, 3_000, 'cancelled', 'shop/db')),
          boot.fact(103_000, { what: 'cancelled', phase: 1, why: 'logind died' }),
          boot.stop(104_000, 'b-3', 'web', 1),
          boot.fact(104_000, BEGAN),
          boot.fact(104_000, phase(1, 'shop/db', 'shop/web')),
          boot.ended(105_000, 'b-3', 'stop-unit', 104_000),
          ...more,
        ],
        'now',
      ).shutdowns[1]?.phases[0]?.pods.map(({ pod, decision, end, isLate, isEarlier }) => {
        return [pod, decision, end, isLate, isEarlier];
      });
    const web = ['shop/web', 'b-3', { kind: 'ended', afterMs: 1_000, via: 'stop-unit' }, false, undefined];
    const ended = boot.ended(106_000, 'b-2', 'stop-unit', 100_000);
    expect(of(ended, boot.fact(106_000, over(1, 2_000)))).toEqual([
      web,
      ['shop/db', 'b-2', { kind: 'ended', afterMs: 6_000, via: 'stop-unit' }, false, true],
    ]);
    expect(of(boot.fact(124_000, over(1, 20_000, 'period', 'shop/db')), boot.ended(125_000, 'b-2'))?.[1]).toEqual([
      ...['shop/db', 'b-2', { kind: 'ended', afterMs: 25_000, via: 'sigterm' }, true, true],
    ]);
    expect(of()?.[1]).toEqual(['shop/db', 'b-2', { kind: 'cut-off' }, false, true]);
  });

  it('whose lock is taken again after its release was then cancelled: the machine stayed up', () => {
    const entries = [...aWholeShutdown(boot), boot.lock(125_000, 'b-5', 'take-lock')];
    const { end, cancelled, released } = only(entries);
    expect(end).toEqual({ kind: 'cancelled' });
    expect(cancelled).toEqual({ atMs: 125_000, phase: 2, why: 'after the lock was released', isHonoured: true });
    expect(released).toEqual({ atMs: 122_500, why: 'all-phases-done' });
    expect(bootEnd([boot.started(1), ...entries])).toEqual(['ungraceful']);
  });

  it('shows a restarted pod as one more stop, with its times', () => {
    const whole = aWholeShutdown(boot);
    const { phases, startedAgain } = only([
      ...whole.slice(0, 5),
      boot.stop(110_000, 'b-9', 'web', 1, 10),
      boot.fact(110_000, { what: 'stopped-again', pod: 'shop/web', times: 1 }),
      boot.survived(119_000, 'b-9'),
      ...whole.slice(5),
    ]);
    expect(startedAgain).toEqual([{ atMs: 110_000, pod: 'shop/web', times: 1 }]);
    expect(phases[0]?.pods.map(({ pod, isAgain }) => [pod, isAgain])).toEqual([
      ['shop/web', false],
      ['shop/db', false],
      ['shop/web', true],
    ]);
    expect(phases[0]?.pods[2]?.end).toEqual({
      kind: 'survived',
      afterMs: 9_000,
      detail: 'in uninterruptible sleep',
    });
  });

  it('gives no priority to a pod of which it was unknown', () => {
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const entries = aWholeShutdown(boot).map((entry) => {
      if (entry.kind !== 'decision' || entry.decision.kind !== 'stop-for-shutdown') return entry;
      return { ...entry, decision: { ...entry.decision, victim: { ...entry.decision.victim, unsaid } } };
    });
    expect(only(entries).phases[0]?.pods[0]).toMatchObject({ pod: 'shop/web', priority: null });
  });

  it('has phases without pods, and what each got of its period', () => {
    const { phases, plan } = only([
      boot.fact(0, { ...BEGAN, tier: 'stop', type: null, grantedMs: null, limitMs: 8_000 }),
      boot.fact(0, { what: 'phase', phase: 2, periodMs: 8_000, wantedMs: 10_000, pods: ['shop/dns'] }),
    ]);
    expect(plan).toEqual({ tier: 'stop', type: null, grantedMs: null, limitMs: 8_000 });
    expect(phases).toMatchObject([
      { phase: 1, state: 'no-pods', began: null, wantedMs: 20_000 },
      { phase: 2, state: 'cut', began: { periodMs: 8_000 }, wantedMs: 10_000 },
    ]);
    // The phase names it, its decision is lost.
    expect(phases[1]?.pods).toMatchObject([{ pod: 'shop/dns', decision: null, end: { kind: 'cut-off' } }]);
  });

  it('whose beginning is lost is derived from what is left', () => {
    const rest = only(aWholeShutdown(boot).slice(4));
    expect(rest).toMatchObject({ plan: null, beganMs: 120_000, end: { kind: 'released' } });
    expect(rest.phases).toMatchObject([
      { phase: 1, state: 'over', fromPriority: null, wantedMs: null, pods: [] },
      { phase: 2, state: 'over', fromPriority: null, wantedMs: 10_000 },
    ]);
  });

  it('was released when that was decided, even if the agent was gone before it recorded it', () => {
    expect(only(aWholeShutdown(boot).slice(0, 11)).released).toEqual({ atMs: 122_500, why: 'all-phases-done' });
  });

  it('is not hidden by damaged entries beside it, which are counted', () => {
    const json = (entry: RecordEntry) => JSON.parse(JSON.stringify(entry));
    const broken = [
      { ...json(boot.fact(1, BEGAN)), note: { kind: 'shutdown', atMs: 1 } },
      { ...json(boot.fact(1, BEGAN)), note: { kind: 'shutdown', atMs: 1, fact: { ...BEGAN, phases: [null] } } },
      { ...json(boot.fact(1, BEGAN)), note: { kind: 'shutdown', atMs: null, fact: BEGAN } },
      { ...json(boot.running(1)), note: { kind: 'running', atMs: 1, pods: [7] } },
      { ...json(boot.stopped(1, 'stays')), note: { kind: 'stopped', atMs: 1, machine: 'flies' } },
      { ...json(boot.stop(1, 'x', 'x', 1)), decision: { id: 'x', atMs: 1, kind: 'stop-for-shutdown', victim: null } },
      { ...json(boot.survived(1, 'b-1')), outcome: { of: 'b-1', atMs: 1, kind: 'survived' } },
      { ...json(boot.survived(1, 'b-1')), outcome: { of: 'b-1', atMs: 1, kind: ['ended'] } },
    ];
    const whole = aWholeShutdown(boot);
    expect(only([...broken.slice(0, 4), ...whole, ...broken.slice(4)])).toEqual(only(whole));
    expect(shutdownsOf([...broken, ...whole], 'now').damaged).toBe(8);
  });

  it('accepts additions of a later version without counting them as damage', () => {
    const later = JSON.parse(JSON.stringify(boot.fact(100_001, BEGAN)));
    later.note.fact = { what: 'told-the-neighbours' };
    const { damaged, shutdowns } = shutdownsOf([...aWholeShutdown(boot), later], 'now');
    expect(damaged).toBe(0);
    expect(shutdowns).toHaveLength(1);
  });

  it('of a dry run is separate from that of the same boot', () => {
    const dry = aBoot('b', { dry: true });
    const { shutdowns, boots } = shutdownsOf([...aWholeShutdown(boot), ...aWholeShutdown(dry)], 'now');
    expect(shutdowns.map((shutdown) => [shutdown.dry, shutdown.decisions.length])).toEqual([
      [false, 4],
      [true, 4],
    ]);
    expect(boots).toMatchObject([{ dry: false, end: 'graceful' }]);
  });

  it('is not created by a lock that is taken again, or by an eviction', () => {
    expect(shutdownsOf([boot.started(1), boot.lock(2, 'b-1', 'take-lock')], 'b').shutdowns).toEqual([]);
  });
});
