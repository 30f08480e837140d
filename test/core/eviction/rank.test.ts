import { describe, expect, it } from 'vitest';
import { mightPrecede, rank } from '../../../src/core/eviction/rank.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { unknown } from '../../../src/core/reading.ts';
import type { FsLayout, Signal } from '../../../src/core/signal.ts';
import { aPod, MI } from '../../a.ts';

const absent = unknown('absent', 'test', 'no statistics');
const order = (pods: readonly PodView[], signal: Signal = 'memory.available', layout: FsLayout = 'nodefs-only') =>
  rank(signal, pods, layout).map(({ pod, row }) => [pod.uid, row.decidedBy]);

describe('pods that are equal to the kubelet (D1)', () => {
  const old = aPod({ name: 'old', uid: 'a', startedAtWallMs: 1_000 });
  const young = aPod({ name: 'young', uid: 'b', startedAtWallMs: 2_000 });

  it('are ordered by start, the latest first', () => {
    expect(order([old, young])).toEqual([
      ['b', 'younger'],
      ['a', null],
    ]);
  });

  it('are ordered by name, then by uid, if they started together', () => {
    const twin = aPod({ name: 'old', uid: '0', startedAtWallMs: 1_000 });
    const next = aPod({ name: 'older', uid: '1', startedAtWallMs: 1_000 });
    expect(order([next, old, twin])).toEqual([
      ['0', 'uid'],
      ['a', 'name'],
      ['1', null],
    ]);
  });

  it('are ordered by name if the start of one is unknown', () => {
    const unborn = aPod({ name: 'middle', uid: 'c', startedAtWallMs: null });
    expect(order([young, unborn, old])).toEqual([
      ['c', 'name'],
      ['a', 'name'],
      ['b', null],
    ]);
  });

  it('are compared by age only among their equals', () => {
    const unborn = aPod({ name: 'big', uid: 'c', startedAtWallMs: null, workingSetBytes: MI });
    expect(order([unborn, old, young])).toEqual([
      ['c', 'over-request'],
      ['b', 'younger'],
      ['a', null],
    ]);
  });

  it('of one namespace come before those of a later one', () => {
    const there = aPod({ name: 'a', namespace: 'z', uid: '0' });
    const here = aPod({ name: 'z', namespace: 'a', uid: '1' });
    expect(order([there, here]).map(([uid]) => uid)).toEqual(['1', '0']);
  });
});

describe('a row of the ranking', () => {
  it('has every value that it was compared by, and what settled ties', () => {
    const pod = aPod({ name: 'web', workingSetBytes: 3 * MI, priority: 7, startedAtWallMs: 5 });
    const [first] = rank('memory.available', [pod], 'nodefs-only');
    expect(first?.row).toEqual({
      uid: 'uid-web',
      values: [
        { by: 'over-request', value: { known: true, value: true } },
        { by: 'priority', value: { known: true, value: 7 } },
        { by: 'usage-over-request', value: { known: true, value: 3 * MI } },
        { by: 'younger', value: { known: true, value: 5 } },
        { by: 'name', value: { known: true, value: 'default/web' } },
        { by: 'uid', value: { known: true, value: 'uid-web' } },
      ],
      decidedBy: null,
    });
  });

  it('marks what is unknown: usage without statistics, and a start that is not stated', () => {
    const pod = aPod({ startedAtWallMs: null, usage: { containers: absent } });
    const values = rank('pid.available', [pod], 'nodefs-only')[0]?.row.values ?? [];
    expect(values.map(({ by, value }) => [by, value.known])).toEqual([
      ['priority', true],
      ['usage', false],
      ['younger', false],
      ['name', true],
      ['uid', true],
    ]);
  });
});

describe('a number that could not be read', () => {
  const unread = unknown('timed-out', 'test', 'not there');
  const marks = (signal: Signal, pod: PodView) =>
    rank(signal, [pod], 'nodefs-only')[0]?.row.values.flatMap(({ by, isMissing, isAtLeast }) =>
      isMissing || isAtLeast ? [`${by}${isMissing ? ' missing' : ''}${isAtLeast ? ' at-least' : ''}`] : [],
    );
  it('is missing; where a walk was cut short, it is at least nothing', () => {
    const missing = ['over-request missing at-least', 'usage-over-request missing at-least'];
    expect(marks('memory.available', aPod({ usage: { workingSetBytes: unread } }))).toEqual(missing);
    const pod = aPod({ usage: { disk: unread } });
    expect(marks('nodefs.available', pod)).toEqual(['over-request missing', 'usage-over-request missing']);
    expect(marks('nodefs.available', { ...pod, diskRelief: unread })).toEqual([
      'over-request at-least',
      'usage-over-request at-least',
    ]);
  });
});

describe('disk usage', () => {
  const disk = {
    known: true,
    value: { logsBytes: 1, rootfsBytes: 20, volumesBytes: 300, logsInodes: 4, rootfsInodes: 50, volumesInodes: 600 },
  } as const;
  const usageOf = (signal: Signal, layout: FsLayout, usage: Partial<PodView['usage']> = { disk }) => {
    const value = rank(signal, [aPod({ usage })], layout)[0]?.row.values.find(({ by }) => by === 'usage-over-request');
    return value?.value.known === true ? value.value.value : null;
  };

  it.each<[Signal, FsLayout, number]>([
    ['nodefs.available', 'nodefs-only', 321],
    ['imagefs.inodesFree', 'nodefs-only', 654],
    ['nodefs.available', 'imagefs-separate', 301],
    ['nodefs.inodesFree', 'imagefs-separate', 604],
    ['imagefs.available', 'imagefs-separate', 20],
    ['containerfs.inodesFree', 'imagefs-separate', 50],
    ['nodefs.available', 'containerfs-separate', 321],
    ['containerfs.available', 'containerfs-separate', 321],
    ['imagefs.available', 'containerfs-separate', 0],
  ])('of %s with %s is %i', (signal, layout, expected) => {
    expect(usageOf(signal, layout)).toBe(expected);
  });

  it.each<Signal>(['nodefs.available', 'imagefs.available', 'containerfs.available'])(
    'of %s is all of it if all of it is on the file system that was asked for',
    (signal) => {
      const ofFileSystem = { disk: { known: true, value: { ...disk.value, isOfFileSystem: true } } } as const;
      for (const layout of ['nodefs-only', 'imagefs-separate', 'containerfs-separate'] as const)
        expect(usageOf(signal, layout, ofFileSystem)).toBe(321);
    },
  );

  it('is zero for a pod with statistics but none of its disk', () => {
    expect(usageOf('nodefs.available', 'nodefs-only', { disk: absent })).toBe(0);
  });
});

describe('a pod of which only a part was measured', () => {
  const known = { logsBytes: 0, rootfsBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
  const used = (volumesBytes: number, rest: object = {}) => ({
    disk: { known: true, value: { ...known, volumesBytes, ...rest } } as const,
  });
  /** Two pods with a request of 10 MiB: one of which at least 1 MiB is known, and one of which all is. */
  const precedes = (some: Partial<PodView>, other: number, rest: Partial<PodView> = {}): boolean => {
    const requests = { memoryBytes: 0, ephemeralStorageBytes: 10 * MI };
    const part = aPod({ name: 'part', requests, usage: used(MI, { isAtLeast: true }), ...some });
    const whole = aPod({ name: 'whole', requests, usage: used(other * MI), ...rest });
    const ranked = rank('nodefs.available', [part, whole], 'nodefs-only');
    const [one, two] = [part, whole].map(({ uid }) => ranked.find(({ pod }) => pod.uid === uid));
    if (one === undefined || two === undefined) throw new Error('not ranked');
    expect(mightPrecede('nodefs.available', two, one)).toBe(false);
    return mightPrecede('nodefs.available', one, two);
  };
  it('might use more than any other, as far as that decides', () => {
    expect(precedes({}, 9)).toBe(true);
    expect(precedes({}, 50)).toBe(true);
  });
  it('ranks no better than one that exceeds its request and has a lower priority', () => {
    expect(precedes({ priority: 5 }, 50, { priority: 4 })).toBe(false);
    expect(precedes({ priority: 5 }, 50, { priority: 6 })).toBe(true);
    expect(precedes({ priority: 5 }, 9, { priority: 4 })).toBe(true);
  });
});

describe('a value of the declaration that is not known', () => {
  const detailOf = (why: 'undeclared' | 'unreadable') => {
    const pod = aPod({ unsaid: { why, priority: true, requests: true } as NonNullable<PodView['unsaid']> });
    const values = rank('memory.available', [pod], 'nodefs-only')[0]?.row.values ?? [];
    return values.flatMap(({ value }) => (value.known ? [] : [`${value.why}: ${value.detail}`]));
  };
  it('says whether the API has not told it yet, or it cannot be read', () => {
    const undeclared = 'absent: not yet known to the API';
    expect(detailOf('undeclared')).toEqual([undeclared, undeclared, undeclared]);
    expect(detailOf('unreadable')).toEqual([
      'absent: its requests cannot be read',
      'absent: its priority cannot be read',
      'absent: its requests cannot be read',
    ]);
  });
});
