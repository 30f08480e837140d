import { describe, expect, it } from 'vitest';
import { historyText } from '../../src/cli/history-text.ts';
import { painter } from '../../src/cli/print.ts';
import { joinDecisions, type RecordEntry } from '../../src/record/entry.ts';
import { shutdownsOf } from '../../src/record/reading/shutdowns.ts';
import { aBoot, aWholeShutdown, BEGAN, over, phase } from '../record/a-shutdown.ts';

const boot = aBoot('b');
const whole = aWholeShutdown(boot);

function textOf(entries: readonly RecordEntry[], runningBoot = 'now', hasColour = false): string {
  const { shutdowns, boots } = shutdownsOf(entries, runningBoot);
  const decisions = joinDecisions(entries);
  return historyText({ schema: 1, decisions, kernelOomKills: [], shutdowns, boots }, '/x', painter(hasColour));
}

describe('the history of shutdowns as text', () => {
  it('is one block, plan versus actual, with the decisions inside it', () => {
    expect(
      textOf(whole),
    ).toBe(`2026-01-31 12:01:40 UTC  shutdown (reboot): lock released after 22.5s, all phases are done
  plan       on logind's signal, 32s granted, 30s needed in total
  PHASE  FROM PRIORITY  WANTED  BEGAN  GIVEN  TOOK  END
  1      0              20s     +0s    20s    20s   its time was used up
  2      2000000000     10s     +20s   10s    2.5s  done
  PHASE  POD       PRIORITY  GRACE  TOOK   END
  1      shop/web  0         20s    2.5s   ended by stop-unit
  1      shop/db   0         20s    20.1s  killed by cgroup.kill, after its phase was over
  2      shop/dns  0         10s    2.5s   ended by sigterm

`);
  });

  it('shows what deviated from the plan', () => {
    const text = textOf([
      ...whole.slice(0, 5),
      boot.fact(101_000, { what: 'lock-lost', detail: 'the child ended' }),
      boot.fact(102_000, { what: 'resumed', phase: 1 }),
      boot.fact(103_000, { what: 'cancel-not-honoured' }),
      boot.stop(110_000, 'b-9', 'web', 1, 10),
      boot.fact(109_000, { what: 'gone', phase: 2, pods: ['shop/db', 'shop/dns'] }),
      boot.fact(110_000, { what: 'stopped-again', pod: 'shop/web', times: 1 }),
      boot.fact(111_000, { what: 'stopped-again', pod: 'shop/web', times: 3 }),
      boot.survived(119_000, 'b-9'),
      ...whole.slice(5),
    ]);
    for (const line of [
      '  1      shop/web (again)  0         10s    9s     survived: in uninterruptible sleep',
      '  again      shop/web was started during the shutdown, noticed after 10s: stopped again',
      '  again      shop/web was started during the shutdown, noticed after 11s: left running after 3 such stops',
      '  gone       before phase 2: shop/db, shop/dns, noticed after 9s',
      '  lock       lost after 1s, in phase 1: the child ended',
      '  resumed    by the restarted agent after 2s, in phase 1',
      '  cancel     after 3s, in phase 1: it was cancelled during the delay; logind did not honour it and continued the shutdown',
    ])
      expect(text.split('\n')).toContain(line);
  });

  it('shows that the next shutdown was announced during the phases of a cancelled one', () => {
    const text = textOf([
      ...whole.slice(0, 5),
      boot.fact(102_000, { what: 'cancelled', phase: 1, why: 'logind died' }),
      boot.fact(103_000, { what: 'cancel-not-honoured', isAnew: true }),
      ...whole.slice(5),
    ]);
    expect(text).toContain('logind died; the next shutdown was announced during the phases, which continued for it');
  });

  it('shows the effective grace period for one of 0', () => {
    const text = textOf([
      ...whole.slice(0, 1),
      boot.stop(100_000, 'b-9', 'quick', 1, 0),
      boot.ended(102_000, 'b-9', 'sigkill'),
    ]);
    expect(text).toMatch(/shop\/quick +0 +2s +2s +killed by sigkill/);
  });

  it('shows when a pod was asked to stop, that it was not, and that systemd killed it, each only if true', () => {
    const text = textOf([
      ...whole.slice(0, 1),
      ...['a', 'b', 'c', 'd', 'e'].map((name, i) => boot.stop(100_000, `b-9${i}`, name, 1, 20)),
      boot.ended(105_000, 'b-90', 'stop-unit', 103_000),
      boot.ended(105_000, 'b-91', 'stop-unit', 100_020),
      boot.ended(105_000, 'b-92', 'sigkill', null),
      boot.ended(102_000, 'b-93', 'stop-timeout', 100_010),
      boot.ended(102_000, 'b-94', 'oom-kill', 100_010),
    ]);
    for (const line of [
      '  1      shop/a    0         20s    2s    asked to stop after 3s; ended by stop-unit',
      '  1      shop/b    0         20s    5s    ended by stop-unit',
      '  1      shop/c    0         20s    5s    was not asked to stop; killed by sigkill',
      '  1      shop/d    0         20s    2s    killed by systemd (its TimeoutStopSec)',
      "  1      shop/e    0         20s    2s    ended with a kill by the kernel's OOM killer",
    ])
      expect(text.split('\n')).toContain(line);
  });

  it('shows for a cancelled one what was undone and what was not', () => {
    const text = textOf(
      [
        ...whole.slice(0, 5),
        boot.fact(103_000, over(1, 3_000, 'cancelled', 'shop/db')),
        boot.fact(103_000, { what: 'cancelled', phase: 1, why: 'shutdown -c' }),
        boot.fact(111_000, { what: 'undone', started: ['web.service'], notUndone: ['db.service: masked'] }),
      ],
      'b',
    );
    for (const line of [
      '2026-01-31 12:01:40 UTC  shutdown (reboot): cancelled in phase 1 after 3s',
      '  1      0              20s     +0s    20s    3s    cancelled',
      '  2      2000000000     10s     -      -      -     not reached',
      '  1      shop/db   0         20s    -     stopping, after its phase was over',
      '  undone     restarted: web.service',
      '  not undone db.service: masked',
    ])
      expect(text.split('\n')).toContain(line);
  });

  const NOTHING_DELETED = { pods: [], volumes: [], isNothingDeleted: true } as const;
  it.each([
    [
      'shutdown (reboot): the record ends in phase 1: nodewarden or the machine ended before it was done, or its disk took no more entries (full, read-only)',
      whole.slice(0, 5),
      'now',
    ],
    [
      'shutdown (reboot): cut in phase 1, nodewarden ended before it was done',
      [...whole.slice(0, 5), boot.stopped(103_000, 'goes-down')],
      'now',
    ],
    ['shutdown (reboot): running, in phase 1', whole.slice(0, 5), 'b'],
    ['shutdown: the record ends before the first phase: ', [boot.fact(1, { ...BEGAN, type: '' })], 'now'],
    [
      'shutdown (reboot): cancelled once all phases were over after 9s',
      [
        boot.fact(0, BEGAN),
        boot.fact(8_000, { what: 'released', why: 'all-phases-done' }),
        boot.fact(9_000, { what: 'cancelled', phase: 2, why: 'shutdown -c' }),
      ],
      'now',
    ],
    [
      'lock released after 8s, out of time',
      [boot.fact(0, BEGAN), boot.fact(8_000, { what: 'released', why: 'out-of-time' })],
      'now',
    ],
    ['plan       not in the record', whole.slice(5), 'now'],
    [
      "plan       on logind's signal, no lock held, 30s needed in total",
      [boot.fact(1, { ...BEGAN, grantedMs: null })],
      'now',
    ],
    [
      'plan       without a signal from logind, when systemd stopped the agent during the shutdown, 30s needed in total: shrunk to 8s\n',
      [boot.fact(1, { ...BEGAN, tier: 'stop', limitMs: 8_000 })],
      'now',
    ],
    [
      'shutdown (reboot): done after 8s, all phases are done',
      [boot.fact(0, { ...BEGAN, tier: 'stop' }), boot.fact(8_000, { what: 'released', why: 'all-phases-done' })],
      'now',
    ],
    [
      'shutdown (reboot): over after 8s, out of time',
      [boot.fact(0, { ...BEGAN, tier: 'stop' }), boot.fact(8_000, { what: 'released', why: 'out-of-time' })],
      'now',
    ],
    [
      '1      0              20s     -      -      -     no pods',
      [boot.fact(1, BEGAN), boot.fact(1, phase(2, 'a/a'))],
      'now',
    ],
    [
      '  1      shop/db  0         20s    6s    asked to stop by the shutdown before; ended by stop-unit\n',
      [
        ...[boot.stop(0, 'b-1', 'db', 1), boot.fact(0, BEGAN), boot.fact(0, phase(1, 'shop/db'))],
        boot.fact(1_000, { what: 'cancelled', phase: 1, why: 'logind died' }),
        ...[boot.fact(2_000, BEGAN), boot.fact(2_000, phase(1, 'shop/db'))],
        boot.ended(6_000, 'b-1', 'stop-unit', 0),
      ],
      'now',
    ],
    // It shares its phase with a pod that stops before it.
    [
      '  1      shop/db  0         10s    10s   asked to stop after 10s; killed by sigkill\n',
      [
        boot.stop(0, 'b-1', 'db', 1, 20, {
          endsMs: 20_000,
          chain: { after: ['uid-web'], beforeSeconds: 20, restSeconds: 20 },
        }),
        ...[boot.fact(0, BEGAN), boot.fact(0, phase(1, 'shop/db')), boot.ended(20_000, 'b-1', 'sigkill', 10_000)],
      ],
      'now',
    ],
    // Its phase waits for less than its grace period, but does not cut it.
    [
      '  1      shop/db  0         20s    18s   ended by stop-unit\n',
      [
        boot.stop(0, 'b-1', 'db', 1, 20, { endsMs: 2_000 }),
        ...[boot.fact(0, BEGAN), boot.fact(0, phase(1, 'shop/db')), boot.ended(18_000, 'b-1', 'stop-unit', 0)],
      ],
      'now',
    ],
    [
      'shutdown (reboot): logind went on when its delay of 32s was over; the phases were over after 32.1s\n',
      [boot.fact(0, BEGAN), boot.fact(32_100, { what: 'released', why: 'all-phases-done', delayMs: 32_000 })],
      'now',
    ],
    [
      'shutdown (reboot): systemd began to stop everything before the phases were over; the phases were over after 5s\n',
      [boot.fact(0, BEGAN), boot.fact(5_000, { what: 'released', why: 'all-phases-done', isOvertaken: true })],
      'now',
    ],
    [
      '2      2000000000     10s     +32.1s  0s     0s    no time was left\n',
      [
        boot.fact(0, BEGAN),
        boot.fact(32_100, { what: 'phase', phase: 2, periodMs: 0, wantedMs: 10_000, pods: ['a/a'] }),
        boot.fact(32_100, over(2, 0, 'period', 'a/a')),
      ],
      'now',
    ],
    [
      '2      a/a  -         -      -     not recorded: cut off',
      [boot.fact(1, BEGAN), boot.fact(1, phase(2, 'a/a'))],
      'now',
    ],
    ['2      2000000000     10s     -      -      -     pending', whole.slice(0, 5), 'b'],
    [
      '1      0              20s     -      -      -     no pod deleted',
      [boot.fact(1, BEGAN), boot.fact(1, { what: 'announced', detail: null }), boot.fact(2, phase(2, 'a/a'))],
      'now',
    ],
    [
      'confirmed  after 1s: no pod had been deleted, so nothing was to be confirmed',
      [boot.fact(0, BEGAN), boot.fact(1_000, { what: 'confirmed', tookMs: 0, left: NOTHING_DELETED })],
      'now',
    ],
    [
      "plan       on logind's signal, 32s granted; left to the kubelet, which held a lock of its own\n",
      [boot.fact(0, { ...BEGAN, phases: [], byKubelet: true })],
      'now',
    ],
  ])('says: %s', (words, entries, runningBoot) => {
    expect(textOf(entries, runningBoot)).toContain(words);
  });

  it('has one line for a boot that ended without a trace, with the running pods, and none for other boots', () => {
    const stopped = aBoot('stopped', { bootWallMs: 3_600_000 });
    const dry = aBoot('dry', { bootWallMs: 7_200_000, dry: true });
    const entries = [boot.started(1), boot.running(2, 'shop/web'), stopped.stopped(1, 'stays'), dry.started(1)];
    expect(textOf(entries)).toBe(
      '2026-01-31 12:00:00 UTC  boot b ended some time after this, without a shutdown (power cut, crash, reboot -f, ' +
        'or nodewarden was killed before); running: shop/web\n' +
        '2026-01-31 14:00:00 UTC  [dry run]  boot dry ended some time after this, without a shutdown (power cut, crash, ' +
        'reboot -f, or nodewarden was killed before); which pods ran is not recorded\n',
    );
  });

  it('marks a dry run, and says that nothing was stopped', () => {
    const dry = aBoot('b', { dry: true });
    const dropped = { of: 'b-1', atMs: 100_001, kind: 'dropped', because: 'dry-run' } as const;
    const last = dry.ended(100_001, 'b-1');
    const text = textOf([...aWholeShutdown(dry).slice(0, 4), { ...last, kind: 'outcome', outcome: dropped }]);
    expect(text).toContain('UTC  [dry run]  shutdown (reboot)');
    expect(text).toContain('not stopped: this is a dry run');
  });

  it('keeps columns aligned in colour, and colours late pods', () => {
    const coloured = textOf(whole, 'now', true);
    expect(coloured).toContain('\u001b[31mkilled by cgroup.kill, after its phase was over');
    // biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
    expect(coloured.replace(/\u001b\[[0-9;]*m/g, '')).toBe(textOf(whole));
  });

  it('escapes names and details', () => {
    const evil = '\u001b[2J\u202eevil';
    const text = textOf([
      aBoot(evil).started(1),
      aBoot(evil).running(2, evil),
      boot.fact(1, { ...BEGAN, type: evil }),
      boot.stop(1, evil, evil, 1),
      boot.fact(1, phase(1, evil)),
      boot.fact(2, { what: 'lock-lost', detail: evil }),
      boot.fact(2, { what: 'stopped-again', pod: evil, times: 2 }),
      boot.survived(3, evil),
      boot.fact(3, { what: 'cancelled', phase: 1, why: evil }),
      boot.fact(4, { what: 'undone', started: [evil], notUndone: [evil] }),
    ]);
    expect(text.match(/evil/g)).toHaveLength(10);
    expect(text).not.toMatch(/[^\n\P{Cc}]|\p{Cf}/u);
  });
});
