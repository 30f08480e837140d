import { describe, expect, it } from 'vitest';
import type { RecordEntry } from '../../src/record/entry.ts';
import { shutdownsOf } from '../../src/record/reading/shutdowns.ts';
import { aBoot, aWholeShutdown, BEGAN, BEGAN_WALL_MS } from './a-shutdown.ts';

const boot = aBoot('b');
const bootEnd = (entries: readonly RecordEntry[]) => shutdownsOf(entries, 'now').boots.map(({ end }) => end);

describe('the end of an earlier boot', () => {
  const whole = aWholeShutdown(boot);
  const announcedAt = (atMs: number) => boot.fact(atMs, { what: 'announced', detail: null });
  const second = [
    boot.fact(130_000, { ...BEGAN, tier: 'stop', grantedMs: null, isSecond: true }),
    boot.fact(131_000, { what: 'released', why: 'all-phases-done' }),
  ];
  const left = [...whole.slice(0, 9), boot.dropped(120_500, 'b-3', 'not-deleted'), ...whole.slice(10)];
  it.each([
    ['graceful', 'a shutdown that released its lock', [boot.started(1), ...whole]],
    ['graceful', 'the agent stopped because the machine went down', [boot.started(1), boot.stopped(9, 'goes-down')]],
    ['cut', 'a shutdown without its end', [boot.started(1), ...whole.slice(0, 7)]],
    ['cut', 'an agent that had to stop in a phase', [...whole.slice(0, 7), boot.stopped(121_000, 'goes-down')]],
    [
      'cut',
      'a shutdown that left a pod alive',
      [boot.started(1), ...whole.slice(0, 9), boot.survived(122_400, 'b-3'), ...whole.slice(10)],
    ],
    ['cut', 'a shutdown whose pods are not known to have ended', [...whole.filter((entry) => entry !== whole[9])]],
    ['cut', 'phases beside a kubelet, without those of the end of the agent', [...whole, announcedAt(100_000)]],
    [
      'graceful',
      'phases beside a kubelet, and those of the end of the agent',
      [...whole, announcedAt(100_000), ...second],
    ],
    [
      'cut',
      'a pod that the phases beside a kubelet left, and nobody stopped',
      [...left, announcedAt(100_000), ...second],
    ],
    [
      'graceful',
      'a pod that the phases beside a kubelet left, and that was stopped with the agent',
      [...left, announcedAt(100_000), ...second, boot.stop(130_000, 'b-6', 'dns', 2, 10), boot.ended(130_100, 'b-6')],
    ],
    ['ungraceful', 'nothing after the agent ran', [boot.started(1), boot.running(2, 'shop/web')]],
    ['ungraceful', 'nothing, its start rotated away', [boot.running(2, 'shop/web')]],
    [
      'ungraceful',
      'nothing after a cancelled shutdown',
      [boot.started(1), ...whole.slice(0, 4), boot.fact(101_000, { what: 'cancelled', phase: 1, why: 'shutdown -c' })],
    ],
    ['ungraceful', 'nothing after an agent that saw the machine stay up', [...whole, boot.started(900_000)]],
    [
      'ungraceful',
      'nothing after an agent that came back too late for its shutdown',
      [...whole.slice(0, 7), boot.started(900_000)],
    ],
    ['not-watched', 'an agent that had been stopped', [boot.started(1), boot.stopped(9, 'stays')]],
    ['unknown', 'no trace of the agent', [boot.lock(1, 'b-1', 'take-lock')]],
  ] as const)('is %s with %s', (end, _, entries) => {
    expect(bootEnd(entries)).toEqual([end]);
  });

  const dry = aBoot('b', { dry: true });
  it.each([
    [
      'graceful',
      true,
      'the live run had gone on as a dry one, which saw the machine go down',
      [boot.stopped(5, 'stays')],
      [dry.started(6), dry.stopped(9, 'goes-down')],
    ],
    [
      'ungraceful',
      true,
      'the live run had gone on as a dry one, and nothing followed',
      [boot.stopped(5, 'stays')],
      [dry.started(6)],
    ],
    [
      'ungraceful',
      false,
      'a dry run beside the live one had been stopped',
      [],
      [dry.started(5), dry.stopped(9, 'stays')],
    ],
    ['graceful', false, 'a dry run beside the live one left no end', [boot.stopped(9, 'goes-down')], [dry.started(5)]],
    [
      'not-watched',
      false,
      'both had been stopped',
      [boot.stopped(5, 'stays')],
      [dry.started(6), dry.stopped(9, 'stays')],
    ],
    [
      'graceful',
      true,
      'a dry run began to go down: it stops nothing',
      [boot.stopped(5, 'stays')],
      [dry.started(6), dry.fact(9, BEGAN)],
    ],
    [
      'graceful',
      false,
      'the dry run that went on noted no start, as in 0.2.0',
      [],
      [dry.running(6), dry.stopped(9, 'goes-down')],
    ],
    [
      'graceful',
      false,
      'it was restarted by a version that notes them',
      [],
      [dry.stopped(6, 'stays'), dry.started(7), dry.stopped(9, 'goes-down')],
    ],
    ['ungraceful', false, 'a dry run beside it had ended before it noted anything', [], [dry.running(6)]],
    [
      'not-watched',
      false,
      'a dry run left no end, and nothing since the live one was stopped',
      [boot.stopped(9, 'stays')],
      [dry.started(5)],
    ],
    [
      'not-watched',
      false,
      'the machine did not go down with a dry run: the live one was stopped later',
      [boot.stopped(9, 'stays')],
      [dry.started(5), dry.stopped(6, 'goes-down')],
    ],
    [
      'ungraceful',
      true,
      'a dry run went on after the live one was stopped, and left no end',
      [boot.stopped(9, 'stays')],
      [dry.started(5), dry.running(10)],
    ],
    [
      'ungraceful',
      true,
      'a dry run decided something after the live one was stopped',
      [boot.stopped(9, 'stays')],
      [dry.started(5), dry.lock(10, 'd-1', 'take-lock')],
    ],
  ] as const)('is %s, judged by a dry run: %s, if %s', (end, byDryRun, _, live, ofDry) => {
    const { boots } = shutdownsOf([boot.started(1), ...live, ...ofDry], 'now');
    expect(boots).toMatchObject([{ end, dry: byDryRun }]);
  });

  it('names the last running pods, and their time', () => {
    const { boots } = shutdownsOf(
      [boot.started(1), boot.running(2, 'shop/web'), boot.running(60_002, 'shop/db', 'shop/web')],
      'now',
    );
    expect(boots).toEqual([
      {
        bootId: 'b',
        dry: false,
        firstWallMs: BEGAN_WALL_MS + 1,
        lastWallMs: BEGAN_WALL_MS + 60_002,
        end: 'ungraceful',
        running: { atWallMs: BEGAN_WALL_MS + 60_002, pods: ['shop/db', 'shop/web'] },
      },
    ]);
  });

  it('is some time after its last entry, also if the clock was set back before that', () => {
    const back = aBoot('b', { bootWallMs: -86_400_000 });
    const { boots } = shutdownsOf([boot.started(1), back.running(1_000), back.running(90_000, 'shop/db')], 'now');
    expect(boots).toMatchObject([{ firstWallMs: BEGAN_WALL_MS + 1, lastWallMs: BEGAN_WALL_MS - 86_400_000 + 90_000 }]);
  });

  it('is reported for every boot except the current one, in the order of the record', () => {
    const wrongClock = aBoot('second', { bootWallMs: -86_400_000 });
    const entries = [
      boot.started(1),
      wrongClock.started(1),
      wrongClock.stopped(2, 'goes-down'),
      aBoot('now').started(1),
    ];
    const idsOf = (bootId: string | null) => shutdownsOf(entries, bootId).boots.map((one) => one.bootId);
    expect(idsOf('now')).toEqual(['b', 'second']);
    // A boot that only the dry record has comes by its clock, between those that both have.
    const dryBoot = (id: string, bootWallMs: number) => aBoot(id, { bootWallMs, dry: true }).started(1);
    const both = [boot.started(1), wrongClock.started(1), aBoot('third', { bootWallMs: 5_000 }).started(1)];
    const ofDry = [dryBoot('first', 7_000), dryBoot('second', 0), dryBoot('fourth', 6_000), dryBoot('fifth', 1_000)];
    expect(shutdownsOf([...both, ...ofDry], 'now').boots.map((one) => one.bootId)).toEqual([
      'b',
      'first',
      'second',
      'third',
      'fourth',
      'fifth',
    ]);
    // Where the running boot is not known, the newest one may be it.
    expect(idsOf(null)).not.toContain('now');
  });
});
